"""Keras' own `model.fit`, as a user would call it."""

from collections.abc import Callable

import keras

from benchmarks.workloads.dense import Dense

NAME = "Keras fit"


def prepare(workload: Dense) -> Callable[[], float]:
    """A function that trains one epoch and returns its loss."""
    model = workload.model()
    model.compile(
        optimizer=keras.optimizers.RMSprop(),
        loss=keras.losses.SparseCategoricalCrossentropy(),
        metrics=[keras.metrics.SparseCategoricalAccuracy(name="accuracy")],
    )
    images, labels = workload.data()
    return lambda: model.fit(images, labels, batch_size=workload.batch_size, verbose=0).history["loss"][0]
