"""Keras' own `model.fit`, as a user would call it; with a `train_step` written for the backend where Keras has none that fits."""

import importlib

import keras

from benchmarks.workloads import AbstractWorkload

from ._abstract import Peer, Run


def prepare(workload: AbstractWorkload, *, shuffle: bool = True) -> Run:
    """A compiled model."""
    model = _stock_model(workload) if workload.has_stock_step else _model_by_hand(workload)
    data = workload.data()
    name = "loss" if workload.has_stock_step else "d_loss"

    def run(num_epochs: int) -> list[float]:
        history = model.fit(*data, batch_size=workload.batch_size, epochs=num_epochs, shuffle=shuffle, verbose=0)
        return history.history[name]

    return run


def _stock_model(workload: AbstractWorkload) -> keras.Model:
    training = workload.training(slope=None)
    (update,) = training.updates
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    update.network.compile(update.optimizer, loss, metrics=list(update.scores))
    return update.network


def _model_by_hand(workload: AbstractWorkload) -> keras.Model:
    return importlib.import_module(f"._{keras.config.backend()}_train_step", __package__).model(workload)


PEER = Peer("Keras fit", {"": prepare})
