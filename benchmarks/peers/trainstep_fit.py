"""The listing of the README: a step written by the user, in `ts.Trainer.fit`."""

from collections.abc import Callable

import keras

import trainstep as ts
from benchmarks.workloads.dense import Dense

NAME = "trainstep fit"


def prepare(workload: Dense) -> Callable[[], float]:
    """A function that trains one epoch and returns its loss."""
    model = workload.model()
    loss_fn = keras.losses.SparseCategoricalCrossentropy()
    optimizer = keras.optimizers.RMSprop()
    accuracy = keras.metrics.SparseCategoricalAccuracy(name="accuracy")
    mean_loss = keras.metrics.Mean(name="loss")

    @ts.step
    def train_step(images, labels):
        with ts.GradientTape() as tape:
            predictions = model(images, training=True)
            loss = loss_fn(labels, predictions)
        gradients = tape.gradient(loss, model.trainable_weights)
        optimizer.apply_gradients(zip(gradients, model.trainable_weights, strict=True))
        accuracy.update_state(labels, predictions)
        mean_loss.update_state(loss)
        return {"loss": mean_loss, "accuracy": accuracy}

    trainer = ts.Trainer(train_step)
    images, labels = workload.data()
    return lambda: trainer.fit(images, labels, batch_size=workload.batch_size, verbose=0).history["loss"][0]
