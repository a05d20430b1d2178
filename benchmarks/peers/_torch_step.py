"""A training by hand in PyTorch: what the loops by hand and Lightning share."""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import nn

from benchmarks.workloads import AbstractWorkload

from ._torch_losses import Loss, losses
from ._torch_optimizers import torch_optimizer
from ._torch_step_keras import slope
from ._torch_twin import twin

Compile = Callable[[Callable[..., Any]], Callable[..., Any]]


def as_is(function: Callable[..., Any]) -> Callable[..., Any]:
    """Not compiled."""
    return function


class Means:
    """The mean loss and, where there are labels, the accuracy of an epoch so far, on the device."""

    def __init__(self, *, has_labels: bool):
        self._has_labels = has_labels
        self.reset()

    def reset(self) -> None:
        """Starts an epoch."""
        self._loss, self._correct = torch.zeros(()), torch.zeros(())
        self._num_batches = self._num_labels = 0

    def record(self, batch: Sequence[torch.Tensor], loss: torch.Tensor, predictions: torch.Tensor) -> None:
        """Takes in one batch."""
        self._loss += loss.detach()
        self._num_batches += 1
        if self._has_labels:
            self._correct += (predictions.detach().argmax(-1) == batch[-1]).sum()
            self._num_labels += batch[-1].numel()

    def result(self) -> tuple[float, float]:
        """The loss and the accuracy, read from the device."""
        return float(self._loss) / self._num_batches, float(self._correct) / max(self._num_labels, 1)


@dataclasses.dataclass(frozen=True)
class TorchUpdate:
    """One update of one network."""

    optimizer: torch.optim.Optimizer
    parameters: list[nn.Parameter]
    loss: Loss
    means: Means
    max_norm: float | None
    apply: Callable[[], Any]

    def __call__(self, batch: Sequence[torch.Tensor]) -> None:
        """Forward, backward to its own parameters, clipping where there is any, the optimizer and the metrics."""
        loss, predictions = self.loss(*batch)
        self.optimizer.zero_grad()
        loss.backward(inputs=self.parameters)
        if self.max_norm is not None:
            nn.utils.clip_grad_norm_(self.parameters, self.max_norm)
        self.apply()
        self.means.record(batch, loss, predictions)


def torch_updates(
    workload: AbstractWorkload, *, compile_loss: Compile = as_is, compile_apply: Compile = as_is, **options: Any
) -> list[TorchUpdate]:
    """The twins of a workload's networks and what a step does to them; `options` are those of the optimizers."""
    training = workload.training(slope)
    twins = {id(network): twin(network) for network in training.networks}
    functions = losses(workload, list(twins.values()))
    return [
        _update(update, list(twins[id(update.network)].parameters()), compile_loss(loss), compile_apply, options)
        for update, loss in zip(training.updates, functions, strict=True)
    ]


def _update(update, parameters: list[nn.Parameter], loss: Loss, compile_apply: Compile, options: dict[str, Any]) -> TorchUpdate:
    trained = [parameter for parameter in parameters if parameter.requires_grad]
    optimizer = torch_optimizer(update.optimizer, trained, **options)
    means = Means(has_labels=bool(update.scores))
    return TorchUpdate(optimizer, trained, loss, means, update.optimizer.global_clipnorm, compile_apply(optimizer.step))


def torch_data(workload: AbstractWorkload) -> list[torch.Tensor]:
    """The data as tensors; integers as PyTorch wants them."""
    tensors = [torch.from_numpy(part) for part in workload.data()]
    return [tensor if tensor.is_floating_point() else tensor.long() for tensor in tensors]
