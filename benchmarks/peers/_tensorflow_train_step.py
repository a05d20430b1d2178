"""Keras' `train_step` written for TensorFlow, for networks with losses of their own."""

import keras

from benchmarks.workloads import AbstractWorkload

from ._tensorflow_step import slope, step_of


class Model(keras.Model):
    """The networks of a training, and its step."""

    def __init__(self, workload: AbstractWorkload):
        super().__init__()
        self.training_by_hand = workload.training(slope)
        self.networks = list(self.training_by_hand.networks)
        self.step_by_hand = step_of(self.training_by_hand)

    @property
    def metrics(self) -> list[keras.metrics.Metric]:
        """Those of the updates: `fit` resets them at the start of an epoch."""
        return self.training_by_hand.metrics

    def train_step(self, batch):
        """All updates on one batch."""
        self.step_by_hand(*(batch if isinstance(batch, tuple) else (batch,)))
        return {metric.name: metric.result() for metric in self.metrics}


def model(workload: AbstractWorkload) -> keras.Model:
    """Ready for `fit`."""
    made = Model(workload)
    made.compile()
    return made
