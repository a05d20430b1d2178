"""A Keras model as a user of PyTorch would write it: `torch.nn`, the same initial weights, inputs and outputs."""

from collections.abc import Callable

import keras
import torch
from torch import nn
from torch.nn import functional

from benchmarks.workloads.many_variables import Offsets
from benchmarks.workloads.transformer import Block, Tokens

_ACTIVATIONS: dict[str, type[nn.Module]] = {"relu": nn.ReLU, "sigmoid": nn.Sigmoid}


def twin(model: keras.Sequential) -> nn.Sequential:
    """The modules of a Keras `Sequential`, with copies of its weights.

    Raises:
        KeyError: There is no twin for one of its layers.
    """
    return nn.Sequential(*[module for layer in model.layers for module in _TWINS[type(layer)](layer)])


def _copy(variable: keras.Variable) -> torch.Tensor:
    return variable.value.detach().clone()


def _set(parameter: torch.Tensor, value: torch.Tensor) -> None:
    with torch.no_grad():
        parameter.copy_(value)


def _linear(kernel: torch.Tensor, bias: torch.Tensor) -> nn.Linear:
    linear = nn.Linear(*kernel.shape)
    _set(linear.weight, kernel.T)
    _set(linear.bias, bias)
    return linear


def _activation(layer: keras.layers.Layer) -> list[nn.Module]:
    name = layer.activation.__name__
    return [] if name == "linear" else [_ACTIVATIONS[name]()]


def _dense(layer: keras.layers.Dense) -> list[nn.Module]:
    return [_linear(_copy(layer.kernel), _copy(layer.bias)), *_activation(layer)]


class _ChannelsLast(nn.Module):
    """A module of images, channels first, for images with channels last; both are views of the same memory."""

    def __init__(self, inner: nn.Module):
        super().__init__()
        self.inner = inner.to(memory_format=torch.channels_last)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return self.inner(images.permute(0, 3, 1, 2)).permute(0, 2, 3, 1)


def _conv(layer: keras.layers.Conv2D) -> list[nn.Module]:
    kernel = _copy(layer.kernel)
    conv = nn.Conv2d(kernel.shape[2], kernel.shape[3], kernel.shape[:2])
    _set(conv.weight, kernel.permute(3, 2, 0, 1))
    _set(conv.bias, _copy(layer.bias))
    return [_ChannelsLast(conv), *_activation(layer)]


def _max_pooling(layer: keras.layers.MaxPooling2D) -> list[nn.Module]:
    return [_ChannelsLast(nn.MaxPool2d(layer.pool_size))]


class _LastState(nn.Module):
    """An LSTM's output after the last token. Of its two biases one is trained: Keras has one."""

    def __init__(self, layer: keras.layers.LSTM):
        super().__init__()
        kernel = _copy(layer.cell.kernel)
        self.lstm = nn.LSTM(kernel.shape[0], layer.units, batch_first=True)
        _set(self.lstm.weight_ih_l0, kernel.T)
        _set(self.lstm.weight_hh_l0, _copy(layer.cell.recurrent_kernel).T)
        _set(self.lstm.bias_ih_l0, _copy(layer.cell.bias))
        _set(self.lstm.bias_hh_l0, torch.zeros(4 * layer.units))
        self.lstm.bias_hh_l0.requires_grad_(False)

    def forward(self, sequences: torch.Tensor) -> torch.Tensor:
        return self.lstm(sequences)[0][:, -1]


def _embedding(layer: keras.layers.Embedding) -> nn.Embedding:
    return nn.Embedding.from_pretrained(_copy(layer.embeddings), freeze=False)


def _layer_norm(layer: keras.layers.LayerNormalization) -> nn.LayerNorm:
    norm = nn.LayerNorm(layer.gamma.shape[0], eps=layer.epsilon)
    _set(norm.weight, _copy(layer.gamma))
    _set(norm.bias, _copy(layer.beta))
    return norm


class _Tokens(nn.Module):
    def __init__(self, layer: Tokens):
        super().__init__()
        self.token, self.place = _embedding(layer.token), _embedding(layer.place)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return self.token(tokens) + self.place.weight


class _Block(nn.Module):
    """Queries, keys and values by one product, and PyTorch's own attention."""

    def __init__(self, block: Block):
        super().__init__()
        attention = block.attention
        projections = [attention.query_dense, attention.key_dense, attention.value_dense]
        self.num_heads = attention.num_heads
        self.first_norm, self.second_norm = _layer_norm(block.first_norm), _layer_norm(block.second_norm)
        self.project = _linear(
            torch.cat([_copy(p.kernel).flatten(1) for p in projections], dim=1),
            torch.cat([_copy(p.bias).flatten() for p in projections]),
        )
        self.output = _linear(_copy(attention.output_dense.kernel).flatten(0, 1), _copy(attention.output_dense.bias))
        self.feed_forward = nn.Sequential(*_dense(block.expand), *_dense(block.contract))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        projected = self.project(self.first_norm(x)).view(batch, length, 3, self.num_heads, width // self.num_heads)
        query, key, value = projected.permute(2, 0, 3, 1, 4).unbind()
        attended = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.output(attended.transpose(1, 2).reshape(batch, length, width))
        return x + self.feed_forward(self.second_norm(x))


class _Offsets(nn.Module):
    def __init__(self, layer: Offsets):
        super().__init__()
        self.offsets = nn.ParameterList(_copy(offset) for offset in layer.offsets)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for offset in self.offsets:
            x = x + offset
        return x


_TWINS: dict[type[keras.layers.Layer], Callable[..., list[nn.Module]]] = {
    keras.layers.Dense: _dense,
    keras.layers.Dropout: lambda layer: [nn.Dropout(layer.rate)],
    keras.layers.Conv2D: _conv,
    keras.layers.MaxPooling2D: _max_pooling,
    keras.layers.Flatten: lambda layer: [nn.Flatten()],
    keras.layers.Embedding: lambda layer: [_embedding(layer)],
    keras.layers.LSTM: lambda layer: [_LastState(layer)],
    keras.layers.LayerNormalization: lambda layer: [_layer_norm(layer)],
    Tokens: lambda layer: [_Tokens(layer)],
    Offsets: lambda layer: [_Offsets(layer)],
    Block: lambda layer: [_Block(layer)],
}
