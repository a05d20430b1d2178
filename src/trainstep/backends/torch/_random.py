"""Random draws that a captured graph can repeat: the generator is made from the seed when the program runs.

Keras makes a `torch.Generator` from the integer value of a seed at every draw, which no capture can follow. Here each draw is one
operator that takes the seed as a tensor and then draws as Keras does, so that the numbers are Keras' own.
"""

import contextlib
import functools
from collections.abc import Callable, Sequence
from typing import Any

import keras
import torch

from ... import _keras
from . import _private

_library = torch.library.Library("trainstep", "DEF")

_FACTORY = "ScalarType dtype, Device device) -> Tensor"


def same_draws() -> contextlib.AbstractContextManager[None]:
    """Inside the block `keras.random` draws by operators that can be captured."""
    replaced = {name: _unless_symbolic(getattr(_private.random, name), draw) for name, draw in _DRAWS.items()}
    return _keras.patched(_private.random, **replaced)


def _unless_symbolic(original: Callable[..., Any], draw: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def drawn(*args: Any, **kwargs: Any) -> Any:
        return (original if _private.draws_symbolically() else draw)(*args, **kwargs)

    return drawn


# The operators


def _operator(schema: str) -> Callable[[Callable[..., torch.Tensor]], Callable[..., torch.Tensor]]:
    """Registers a function as the operator `schema`, whose first argument is a seed, which the function gets as a generator."""

    def register(function: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
        def kernel(seed: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
            return function(_as_integer(seed), *args, **kwargs)

        name = schema.split("(")[0]
        _library.define(schema, tags=(torch.Tag.pt2_compliant_tag,))
        _library.impl(name, kernel, "CompositeExplicitAutograd")
        return getattr(torch.ops.trainstep, name).default

    return register


def _as_integer(seed: torch.Tensor) -> int:
    first, second = seed.tolist()
    return (first + second) & 0xFFFFFFFF


def _generator(seed: int, device: torch.device) -> torch.Generator:
    return torch.Generator(device=device).manual_seed(seed)


@_operator(f"normal(Tensor seed, float mean, float stddev, int[] size, {_FACTORY}")
def _normal(seed: int, mean: float, stddev: float, size: list[int], dtype: torch.dtype, device: torch.device) -> torch.Tensor:
    return torch.normal(mean, stddev, size=size, generator=_generator(seed, device), dtype=dtype, device=device)


@_operator(f"truncated_normal(Tensor seed, int[] size, {_FACTORY}")
def _truncated_normal(seed: int, size: list[int], dtype: torch.dtype, device: torch.device) -> torch.Tensor:
    """Standard normal numbers within two deviations: the first good one of four, as Keras takes it."""
    drawn = torch.normal(0, 1, size=(*size, 4), generator=_generator(seed, device), dtype=dtype, device=device)
    first_good = ((drawn > -2) & (drawn < 2)).max(-1, keepdim=True)[1]
    return drawn.gather(-1, first_good).squeeze(-1)


@_operator(f"rand(Tensor seed, int[] size, {_FACTORY}")
def _rand(seed: int, size: list[int], dtype: torch.dtype, device: torch.device) -> torch.Tensor:
    return torch.rand(size, generator=_generator(seed, device), dtype=dtype, device=device)


@_operator(f"randint(Tensor seed, int low, int high, int[] size, {_FACTORY}")
def _randint(seed: int, low: int, high: int, size: list[int], dtype: torch.dtype, device: torch.device) -> torch.Tensor:
    return torch.randint(low, high, size, generator=_generator(seed, device), dtype=dtype, device=device)


@_operator("keep(Tensor seed, float probability, int[] size, Device device) -> Tensor")
def _keep(seed: int, probability: float, size: list[int], device: torch.device) -> torch.Tensor:
    """A mask that is true with the given probability."""
    return torch.bernoulli(torch.full(size, probability, device=device), generator=_generator(seed, device)).bool()


@_operator("categorical(Tensor seed, Tensor probabilities, int num_samples) -> Tensor")
def _categorical(seed: int, probabilities: torch.Tensor, num_samples: int) -> torch.Tensor:
    generator = _generator(seed, probabilities.device)
    return torch.multinomial(probabilities, num_samples, replacement=True, generator=generator)


@_operator("permutation(Tensor seed, int[] size, Device device) -> Tensor")
def _permutation(seed: int, size: list[int], device: torch.device) -> torch.Tensor:
    """A permutation along the last axis of `size`."""
    return torch.rand(size, generator=_generator(seed, device), device=device).argsort(len(size) - 1)


@_operator("gamma(Tensor seed, Tensor alpha) -> Tensor")
def _gamma(seed: int, alpha: torch.Tensor) -> torch.Tensor:
    return _sample(seed, lambda: torch.distributions.Gamma(alpha, torch.ones(alpha.shape, device=alpha.device)))


@_operator("binomial(Tensor seed, Tensor counts, Tensor probabilities) -> Tensor")
def _binomial(seed: int, counts: torch.Tensor, probabilities: torch.Tensor) -> torch.Tensor:
    return _sample(seed, lambda: torch.distributions.Binomial(total_count=counts, probs=probabilities))


@_operator("beta(Tensor seed, Tensor alpha, Tensor beta) -> Tensor")
def _beta(seed: int, alpha: torch.Tensor, beta: torch.Tensor) -> torch.Tensor:
    return _sample(seed, lambda: torch.distributions.Beta(concentration1=alpha, concentration0=beta))


def _sample(seed: int, distribution: Callable[[], torch.distributions.Distribution]) -> torch.Tensor:
    """A sample of a distribution, which knows no generator but PyTorch's global one."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return distribution().sample()


# What the operators return, for a compiler that has no values


def _like_factory(*args: Any) -> torch.Tensor:
    *_, size, dtype, device = args
    return torch.empty(size, dtype=dtype, device=device)


for _name in ("normal", "truncated_normal", "rand", "randint"):
    torch.library.register_fake(f"trainstep::{_name}", _like_factory, lib=_library)
torch.library.register_fake(
    "trainstep::keep", lambda seed, probability, size, device: torch.empty(size, dtype=torch.bool, device=device), lib=_library
)
torch.library.register_fake(
    "trainstep::categorical", lambda seed, p, n: torch.empty((*p.shape[:-1], n), dtype=torch.int64, device=p.device), lib=_library
)
torch.library.register_fake(
    "trainstep::permutation", lambda seed, size, device: torch.empty(size, dtype=torch.int64, device=device), lib=_library
)
torch.library.register_fake("trainstep::gamma", lambda seed, alpha: torch.empty(alpha.shape, device=alpha.device), lib=_library)
torch.library.register_fake(
    "trainstep::binomial", lambda seed, counts, p: torch.empty(p.shape, dtype=p.dtype, device=p.device), lib=_library
)
torch.library.register_fake(
    "trainstep::beta", lambda seed, alpha, beta: torch.empty(alpha.shape, dtype=alpha.dtype, device=alpha.device), lib=_library
)


# The functions of `keras.src.backend.torch.random`, with their arguments


def normal(shape: Sequence[int], mean: float = 0.0, stddev: float = 1.0, dtype: Any = None, seed: Any = None) -> torch.Tensor:
    """Normal numbers."""
    return _normal(
        _private.draw_seed(seed), float(mean), float(stddev), list(shape), _private.torch_dtype(dtype), _private.device()
    )


def truncated_normal(
    shape: Sequence[int], mean: float = 0.0, stddev: float = 1.0, dtype: Any = None, seed: Any = None
) -> torch.Tensor:
    """Normal numbers within two standard deviations of the mean."""
    drawn = _truncated_normal(_private.draw_seed(seed), list(shape), _private.torch_dtype(dtype), _private.device())
    return drawn * stddev + mean


def uniform(shape: Sequence[int], minval: Any = 0.0, maxval: Any = 1.0, dtype: Any = None, seed: Any = None) -> torch.Tensor:
    """Numbers between `minval` and `maxval`."""
    drawn = _rand(_private.draw_seed(seed), list(shape) or [1], _private.torch_dtype(dtype), _private.device())
    scaled = (maxval - minval) * drawn + minval
    return scaled if len(shape) else scaled[0]


def randint(shape: Sequence[int], minval: int, maxval: int, dtype: Any = "int32", seed: Any = None) -> torch.Tensor:
    """Integers from `minval` up to `maxval`, excluded."""
    drawn_seed = _private.draw_seed(seed)
    return _randint(drawn_seed, int(minval), int(maxval), list(shape), _private.torch_dtype(dtype), _private.device())


def categorical(logits: Any, num_samples: int, dtype: Any = "int32", seed: Any = None) -> torch.Tensor:
    """Indices drawn with the probabilities `softmax(logits)`."""
    probabilities = torch.softmax(_private.core.convert_to_tensor(logits), dim=-1).detach()
    return _categorical(_private.draw_seed(seed), probabilities, num_samples).to(_private.torch_dtype(dtype))


def dropout(inputs: torch.Tensor, rate: float, noise_shape: Sequence[int | None] | None = None, seed: Any = None) -> torch.Tensor:
    """Sets a share of the inputs to zero. A layer without a seed draws from its seed generator too, which can be saved."""
    if rate == 0.0:
        return inputs
    if rate == 1.0:
        return torch.zeros_like(inputs)
    keep_probability = 1.0 - rate
    sizes = (
        inputs.shape if noise_shape is None else [n if n is not None else m for n, m in zip(noise_shape, inputs.shape, strict=True)]
    )
    mask = _mask(seed, keep_probability, list(sizes), inputs.device)
    return torch.where(mask, inputs / keep_probability, torch.zeros_like(inputs))


def _mask(seed: Any, keep_probability: float, size: list[int], device: torch.device) -> torch.Tensor:
    """Keras' own mask where it has a seed; where it has none, any will do, and a comparison is 2.5 times as fast (measured)."""
    is_seeded = seed is not None and not (isinstance(seed, keras.random.SeedGenerator) and seed.get_config()["seed"] is None)
    drawn_seed = _private.draw_seed(seed)
    if is_seeded:
        return _keep(drawn_seed, keep_probability, size, device)
    return _rand(drawn_seed, size, torch.float32, device) < keep_probability


def shuffle(x: Any, axis: int = 0, seed: Any = None) -> torch.Tensor:
    """The slices of `x` along an axis, in random order."""
    x = _private.core.convert_to_tensor(x)
    order = _permutation(_private.draw_seed(seed), list(x.shape[: axis + 1]), x.device)
    order = order.reshape(*order.shape, *[1] * (x.ndim - axis - 1)).expand(x.shape)
    return x.gather(axis, order)


def gamma(shape: Sequence[int], alpha: Any, dtype: Any = None, seed: Any = None) -> torch.Tensor:
    """Numbers from the gamma distribution with rate 1."""
    return _gamma(_private.draw_seed(seed), _broadcast(alpha, shape)).to(_private.torch_dtype(dtype))


def binomial(shape: Sequence[int], counts: Any, probabilities: Any, dtype: Any = None, seed: Any = None) -> torch.Tensor:
    """How many of `counts` trials succeed."""
    drawn = _binomial(_private.draw_seed(seed), _broadcast(counts, shape), _broadcast(probabilities, shape))
    return drawn.to(_private.torch_dtype(dtype))


def beta(shape: Sequence[int], alpha: Any, beta: Any, dtype: Any = None, seed: Any = None) -> torch.Tensor:
    """Numbers from the beta distribution."""
    drawn = _beta(_private.draw_seed(seed), _broadcast(alpha, shape), _broadcast(beta, shape))
    return drawn.to(_private.torch_dtype(dtype))


def _broadcast(parameter: Any, shape: Sequence[int]) -> torch.Tensor:
    return torch.broadcast_to(_private.core.convert_to_tensor(parameter), list(shape)).detach()


_DRAWS: dict[str, Callable[..., torch.Tensor]] = {
    draw.__name__: draw
    for draw in (normal, truncated_normal, uniform, randint, categorical, dropout, shuffle, gamma, binomial, beta)
}
