"""What a workload says, so that every peer can train the same thing."""

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, Self

import keras
import numpy as np

from benchmarks.products import Product

Tensor = Any
Slope = Callable[[Callable[[Tensor], Tensor], Tensor], Tensor]
"""`slope(function, points)`: the gradient of the sum of `function(points)`, of the shape of `points`; by the peer's own means."""


@dataclasses.dataclass(frozen=True)
class Update:
    """One update of one network by its optimizer; a step makes one or several, in order.

    Args:
        optimizer: Built for the trainable weights of `network`.
        network: What is trained.
        loss: From a batch to the scalar to minimize, and predictions for `scores` to compare with the last part of the batch.
        mean_loss: Takes in the loss of each batch.
        scores: Take in labels and predictions of each batch.
    """

    optimizer: keras.optimizers.Optimizer
    network: keras.Model
    loss: Callable[..., tuple[Tensor, Tensor]]
    mean_loss: keras.metrics.Mean
    scores: tuple[keras.metrics.Metric, ...] = ()

    @property
    def metrics(self) -> tuple[keras.metrics.Metric, ...]:
        """All of its metrics, the mean loss first."""
        return (self.mean_loss, *self.scores)

    def record(self, batch: Sequence[Tensor], loss: Tensor, predictions: Tensor) -> None:
        """Takes one batch into the metrics."""
        self.mean_loss.update_state(loss)
        for score in self.scores:
            score.update_state(batch[-1], predictions)


@dataclasses.dataclass(frozen=True)
class Training:
    """Fresh networks, optimizers and metrics, the same weights each time.

    Args:
        networks: All that hold weights.
        updates: What a step does, in order.
        seeds: Where the losses draw from, beside the layers.
    """

    networks: tuple[keras.Model, ...]
    updates: tuple[Update, ...]
    seeds: tuple[keras.random.SeedGenerator, ...] = ()

    @property
    def metrics(self) -> list[keras.metrics.Metric]:
        """Of all updates; the loss that peers are compared by comes first."""
        return [metric for update in self.updates for metric in update.metrics]


@dataclasses.dataclass(frozen=True)
class AbstractWorkload(ABC):
    """What is trained, on what, in which batches.

    Args:
        num_steps: Steps in one epoch; all batches are full.
        num_epochs: Epochs in one measured run of a slow peer; a fast one runs more.
        dropout: The rate of dropout, where there is any.
        tolerance: Losses of peers that do the same differ by less than this fraction of them, though each shuffles for itself.
    """

    num_steps: int
    batch_size: int
    num_epochs: int = 1
    dropout: float = 0.0
    tolerance: float = 0.05

    @property
    @abstractmethod
    def key(self) -> str:
        """Its name on the command line."""

    @property
    @abstractmethod
    def name(self) -> str:
        """Its name in the table."""

    @property
    def has_stock_step(self) -> bool:
        """Whether Keras' own `train_step` does it: one network, labels, and a loss between the two."""
        return True

    @property
    def num_samples(self) -> int:
        """Samples in one epoch."""
        return self.num_steps * self.batch_size

    def shortened(self, num_steps: int, *, batch_size: int | None = None) -> Self:
        """The same training on fewer samples, in one epoch a run and without dropout: what tests can compare exactly."""
        return dataclasses.replace(self, num_steps=num_steps, batch_size=batch_size or self.batch_size, num_epochs=1, dropout=0.0)

    @abstractmethod
    def data(self) -> tuple[np.ndarray, ...]:
        """The parts of a batch for all samples: inputs, then labels where there are any."""

    @abstractmethod
    def training(self, slope: Slope) -> Training:
        """Builds what is trained, with Keras."""

    @abstractmethod
    def products(self) -> list[Product]:
        """The matrix products and convolutions of one step, forward and backward."""


def fresh(build: Callable[[], Training]) -> Training:
    """The networks built from the same seed, and their optimizers with all variables."""
    keras.utils.set_random_seed(0)
    training = build()
    for update in training.updates:
        update.optimizer.build(update.network.trainable_variables)
    return training


def classifier(model: keras.Model, optimizer: keras.optimizers.Optimizer) -> Training:
    """A model that gives logits, trained by cross entropy with integer labels."""
    loss_fn = keras.losses.SparseCategoricalCrossentropy(from_logits=True)

    def loss(inputs, labels):
        logits = model(inputs, training=True)
        return loss_fn(labels, logits), logits

    accuracy = keras.metrics.SparseCategoricalAccuracy(name="accuracy")
    return Training((model,), (Update(optimizer, model, loss, keras.metrics.Mean(name="loss"), (accuracy,)),))
