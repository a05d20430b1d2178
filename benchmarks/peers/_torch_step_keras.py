"""One training step by hand with Keras' variables on PyTorch, for `keras_fit`."""

from collections.abc import Callable
from typing import Any

import torch

from benchmarks.workloads import Training


def slope(function, points):
    """The gradient of the sum of `function(points)`."""
    points = points.detach().requires_grad_()
    return torch.autograd.grad(function(points).sum(), points, create_graph=True)[0]


def step_of(training: Training) -> Callable[..., None]:
    """`step(*batch)`: all updates, and their metrics."""

    def step(*batch: Any) -> None:
        for update in training.updates:
            loss, predictions = update.loss(*batch)
            weights = update.network.trainable_weights
            gradients = torch.autograd.grad(loss, [weight.value for weight in weights])
            with torch.no_grad():
                update.optimizer.apply(list(gradients), weights)
            update.record(batch, loss.detach(), predictions.detach())

    return step
