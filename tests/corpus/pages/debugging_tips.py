"""Second-order gradients mixed into the first before they are applied: the target of the outer gradient is a list of tensors."""

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
from keras import layers, ops

import trainstep as ts

from ..conventions import Page, Steps, batch, overwrite_weights

NUM_STEPS, RTOL, ATOL = 4, 1e-3, 1e-4
VARIANTS = ("plain", "normalized", "scheduled")
LOGS = [f"{variant}/{name}" for variant in VARIANTS for name in ("loss", "accuracy")]
CHANGES = [f"{variant}_{name}" for variant in VARIANTS for name in ("model", "optimizer", "loss_tracker", "metrics")]
BATCH_SIZE = 16


def mean(h: Any, g: Any) -> Any:
    """Variant (a)."""
    return 0.5 * h + 0.5 * g


def normalized_mean(h: Any, g: Any) -> Any:
    """Variant (b)."""
    return 0.5 * normalized(h) + 0.5 * normalized(g)


def normalized_mix(h: Any, g: Any) -> Any:
    """Variant (c)."""
    return 0.2 * normalized(h) + 0.8 * normalized(g)


def normalized(x: Any) -> Any:
    """A tensor divided by its Euclidean norm."""
    return x * ops.rsqrt(ops.maximum(ops.sum(ops.square(x)), 1e-12))


class SecondOrderModel(keras.Model):
    """A model that is trained along a mix of its gradient and the gradient of that gradient's sum.

    Args:
        mix: `(second-order gradient, gradient) -> direction`, for one weight.
    """

    def __init__(self, *args: Any, mix: Callable[[Any, Any], Any], **options: Any):
        super().__init__(*args, **options)
        self.mix = mix

    def train_step(self, x, y):
        """One update on inputs `x` (b, 12) and labels `y` (b,)."""
        weights = self.trainable_variables
        with ts.GradientTape() as outer_tape:
            with ts.GradientTape() as inner_tape:
                predictions = self(x, training=True)
                loss = self.compute_loss(x, y, predictions)
            gradients = inner_tape.gradient(loss, weights)
        second_order = outer_tape.gradient(gradients, weights)
        self.look_at(gradients, second_order)

        directions = [self.mix(h, g) for h, g in zip(second_order, gradients, strict=True)]
        self.optimizer.apply_gradients(zip(directions, weights, strict=True))
        for metric in self.metrics:
            if metric.name == "loss":
                metric.update_state(loss)
            else:
                metric.update_state(y, predictions)
        return self.get_metrics_result()

    def look_at(self, gradients, second_order):
        """Called with the gradients of each step, one for each weight. For a debugger; does nothing."""


def build(*, native: bool) -> Page:
    """Three equal models, one for each variant, each compiled with its own optimizer."""
    page = Page(tracked={}, native=native)
    add(page, "plain", mean, 1e-2)
    add(page, "normalized", normalized_mean, 1e-2)
    add(page, "scheduled", normalized_mix, keras.optimizers.schedules.InverseTimeDecay(0.1, 25, 0.1))
    rng = np.random.default_rng(15)
    page.data["x"] = rng.normal(size=(48, 12)).astype("float32")
    page.data["y"] = rng.integers(0, 4, 48).astype("int32")
    return page


def add(page: Page, variant: str, mix: Callable[[Any, Any], Any], learning_rate: Any, model_class: type = SecondOrderModel) -> None:
    """Adds a freshly made and compiled model, and all that has state in it, to the page."""
    inputs = keras.Input((12,))
    hidden = layers.Dense(16, activation="relu")(inputs)
    model = model_class(inputs, layers.Dense(4, activation="softmax")(hidden), mix=mix)
    overwrite_weights(model)
    model.compile(keras.optimizers.SGD(learning_rate), "sparse_categorical_crossentropy", metrics=["accuracy"])
    page.tracked |= {f"{variant}_model": model, f"{variant}_optimizer": model.optimizer}
    page.tracked |= dict(zip((f"{variant}_loss_tracker", f"{variant}_metrics"), model.metrics, strict=True))


def steps(page: Page, *, compile: bool) -> Steps:
    """The page's step, on trainstep: one batch for each of the variants."""
    train_steps = {variant: ts.step(page.tracked[f"{variant}_model"].train_step, compile=compile) for variant in VARIANTS}
    t = 0
    while True:
        x, y = batch(t, BATCH_SIZE, page.x, page.y)
        logs = {variant: train_step(x, y) for variant, train_step in train_steps.items()}
        yield {f"{variant}/{name}": value for variant in VARIANTS for name, value in logs[variant].items()}
        t += 1
