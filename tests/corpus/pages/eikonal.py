"""A physics-informed network for travel times of waves: a gradient inside the model's forward pass, trained through."""

from typing import Any

import keras
import numpy as np
from keras import layers, ops

import trainstep as ts

from ..conventions import Page, Steps, batch, overwrite_weights

NUM_STEPS, RTOL, ATOL = 6, 1e-3, 1e-4
LOGS = ["loss"]
CHANGES = ["travel_time", "optimizer", "mean_loss"]
BATCH_SIZE = 16
FASTEST, SLOWEST = 3.5, 1.0


@keras.saving.register_keras_serializable(package="eikonal")
def bell(z: Any) -> Any:
    """The activation `exp(-z^2)`."""
    return ops.exp(-ops.square(z))


@keras.saving.register_keras_serializable(package="eikonal")
class ReceiverGradient(layers.Layer):
    """The gradient of a model's travel time with respect to the receiver: `[sx, sy, rx, ry] -> (b, 2)`.

    Args:
        travel_time: A model from four coordinates, each (b, 1), to the travel time (b, 1).
    """

    def __init__(self, travel_time: keras.Model, **options: Any):
        super().__init__(**options)
        self.travel_time = travel_time

    def call(self, inputs):
        sx, sy, rx, ry = inputs
        with ts.GradientTape() as tape:
            tape.watch([rx, ry])
            time = self.travel_time([sx, sy, rx, ry])
        return ops.concatenate(tape.gradient(time, [rx, ry], unconnected_gradients="zero"), axis=1)

    def get_config(self):
        return super().get_config() | {"travel_time": keras.saving.serialize_keras_object(self.travel_time)}

    @classmethod
    def from_config(cls, config):
        travel_time = keras.saving.deserialize_keras_object(config.pop("travel_time"))
        return cls(travel_time, **config)


def travel_time_model() -> keras.Model:
    """T: source and receiver, four inputs of (b, 1), to the time that a wave takes between them; the same both ways."""
    sx, sy, rx, ry = (keras.Input((1,), name=name) for name in ("sx", "sy", "rx", "ry"))
    point = [keras.Input((1,)) for _ in range(4)]
    hidden = layers.Concatenate()(point)
    for _ in range(3):
        hidden = layers.Dense(12, activation=bell)(hidden)
    slowness = keras.Model(point, layers.Dense(1, activation="sigmoid")(hidden), name="slowness")

    mean_slowness = (slowness([sx, sy, rx, ry]) + slowness([rx, ry, sx, sy])) / 2
    distance = ops.sqrt(ops.square(rx - sx) + ops.square(ry - sy))
    time = distance * ((1 / SLOWEST - 1 / FASTEST) * mean_slowness + 1 / FASTEST)
    return keras.Model([sx, sy, rx, ry], time, name="travel_time")


def residual_model(travel_time: keras.Model) -> keras.Model:
    """E: the four inputs and the velocity at the receiver to `((|gradient of T| v)^2 - 1) / 2`, zero where T is right."""
    points = [keras.Input((1,), name=name) for name in ("sx", "sy", "rx", "ry")]
    velocity = keras.Input((1,), name="v")
    gradient = ReceiverGradient(travel_time)(points)
    square_norm = ops.sum(ops.square(gradient), axis=1, keepdims=True)
    return keras.Model([*points, velocity], (square_norm * ops.square(velocity) - 1) / 2, name="residual")


def build(*, native: bool) -> Page:
    """Both models, over the same weights, the training model compiled with Adam; and 64 pairs of points."""
    travel_time = travel_time_model()
    residual = residual_model(travel_time)
    overwrite_weights(travel_time)
    residual.compile(keras.optimizers.Adam(2.5e-3), loss="mae")
    rng = np.random.default_rng(27)
    sx, sy, rx, ry = (rng.random((64, 1)) for _ in range(4))
    rx = np.where(np.hypot(rx - sx, ry - sy) > 0.05, rx, rx + 0.1)
    v = 1 + 2 * np.exp(-((rx - 0.5) ** 2 + (ry - 0.5) ** 2) / 0.1)
    data = {"sx": sx, "sy": sy, "rx": rx, "ry": ry, "v": v, "target": np.zeros((64, 1))}
    tracked = {"travel_time": travel_time, "optimizer": residual.optimizer, "mean_loss": keras.metrics.Mean(name="loss")}
    page = Page(tracked, {name: values.astype("float32") for name, values in data.items()}, native)
    page.__dict__["residual"] = residual  # it has no weights of its own
    return page


def inputs(page: Page) -> list[np.ndarray]:
    """The five inputs of the training model."""
    return [page.data[name] for name in ("sx", "sy", "rx", "ry", "v")]


def make_train_step(page: Page, *, compile: bool) -> ts.Step:
    """Variant (b): the step written by hand."""
    weights = page.residual.trainable_variables

    @ts.step(compile=compile)
    def train_step(points, target):
        with ts.GradientTape() as tape:
            loss = page.residual.compute_loss(points, target, page.residual(points, training=True))
        page.optimizer.apply_gradients(zip(tape.gradient(loss, weights), weights, strict=True))
        page.mean_loss.update_state(loss)
        return {"loss": page.mean_loss}

    return train_step


def steps(page: Page, *, compile: bool) -> Steps:
    """The page's step, on trainstep."""
    train_step = make_train_step(page, compile=compile)
    t = 0
    while True:
        *points, target = batch(t, BATCH_SIZE, *inputs(page), page.target)
        yield train_step(points, target)
        t += 1
