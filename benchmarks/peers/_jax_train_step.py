"""Keras' `train_step` written for JAX, for networks with losses of their own."""

from typing import Any

import keras

from benchmarks.workloads import AbstractWorkload

from ._jax_step import StatelessStep, slope


class AllVariables:
    """In the place of the one optimizer whose variables Keras on JAX hands to `train_step`: those of several, and the seeds."""

    built = True

    def __init__(self, variables: list[keras.Variable]):
        self.variables = variables


class Model(keras.Model):
    """The networks of a training, and its step."""

    def __init__(self, workload: AbstractWorkload):
        super().__init__()
        self.training_by_hand = workload.training(slope)
        self.step_by_hand = StatelessStep(self.training_by_hand)
        self.built = True

    @property
    def metrics(self) -> list[keras.metrics.Metric]:
        """Those of the updates: `fit` resets them at the start of an epoch."""
        return self.training_by_hand.metrics

    def train_step(self, state: tuple[Any, ...], batch: Any) -> tuple[dict[str, Any], tuple[Any, ...]]:
        """All updates on one batch."""
        trainable, non_trainable, all_variables, metrics = state
        parts = batch if isinstance(batch, tuple) else (batch,)
        all_variables, metrics = self.step_by_hand.step(all_variables, metrics, *parts)
        logs = dict(zip([m.name for m in self.metrics], self.step_by_hand.loss(metrics), strict=True))
        return logs, (trainable, non_trainable, all_variables, metrics)


def model(workload: AbstractWorkload) -> keras.Model:
    """Ready for `fit`."""
    made = Model(workload)
    made.compile()
    made.optimizer = AllVariables(made.step_by_hand.variables)
    return made
