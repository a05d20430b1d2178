"""AdaMatch: training and inference passes side by side, pseudo labels behind a mask, a counter assigned inside the tape."""

from typing import Any

import keras
import numpy as np
from keras import layers, ops

import trainstep as ts

from ..conventions import Page, Steps, batch, overwrite_weights, uniform

NUM_STEPS, RTOL, ATOL = 6, 1e-4, 1e-5
LOGS = ["loss"]
CHANGES = ["model", "optimizer", "loss", "counter"]
BATCH_SIZE, NUM_LABELS, TOTAL_STEPS, TAU = 4, 5, 10, 0.9

cross_entropy = keras.losses.CategoricalCrossentropy(from_logits=True)


def build(*, native: bool) -> Page:
    """A small convolutional classifier, Adam with a cosine schedule, a tracker, and the counter of steps."""
    options = {"use_bias": False, "kernel_regularizer": keras.regularizers.L2(5e-4)}
    model = keras.Sequential(
        [
            keras.Input((8, 8, 3)),
            layers.Rescaling(1 / 255),
            layers.Conv2D(8, 3, padding="same", **options),
            layers.BatchNormalization(),
            layers.ReLU(),
            layers.Conv2D(16, 3, strides=2, padding="same", **options),
            layers.BatchNormalization(),
            layers.ReLU(),
            layers.GlobalAveragePooling2D(),
            layers.Dense(NUM_LABELS, kernel_regularizer=keras.regularizers.L2(5e-4)),
        ],
        name="model",
    )
    overwrite_weights(model)
    rng = np.random.default_rng(24)
    images = {name: (rng.random((12, 8, 8, 3)) * 255).astype("float32") for name in ("sw", "ss", "tw", "ts")}
    return Page(
        tracked={
            "model": model,
            "optimizer": keras.optimizers.Adam(keras.optimizers.schedules.CosineDecay(0.03, TOTAL_STEPS, alpha=0.25)),
            "loss": keras.metrics.Mean(name="loss"),
            "counter": keras.Variable(0, dtype="int", trainable=False, name="counter"),  # int64, on JAX int32.
        },
        data=images | {"y": np.eye(NUM_LABELS, dtype="float32")[rng.integers(0, NUM_LABELS, 12)]},
        native=native,
    )


def unreduced_cross_entropy(labels: Any, logits: Any) -> Any:
    """For labels that need not sum to 1: TensorFlow's fused kernel, behind Keras' own loss, takes them to in its gradient."""
    return -ops.sum(labels * ops.log_softmax(logits, axis=-1), axis=-1)


class AdaMatch:
    """The model, and the loss of a batch of source and target images, each augmented weakly and strongly."""

    def __init__(self, page: Page):
        self.model, self.optimizer, self.loss_tracker, self.counter = page.model, page.optimizer, page.loss, page.counter
        self.seed_generator = keras.random.SeedGenerator(5)

    def pseudo_labels(self, source_logits: Any, target_logits: Any) -> tuple[Any, Any]:
        """Of the weakly augmented target (b, 5), and whether each is sure enough (b,) in view of the weakly augmented source."""
        source, target = ops.softmax(source_logits), ops.softmax(target_logits)
        aligned = target * (ops.mean(source) / ops.mean(target))
        labels = aligned / ops.norm(aligned, axis=1, keepdims=True)
        confidence = TAU * ops.mean(ops.max(source, axis=1))
        return labels, ops.max(labels, axis=1) >= confidence

    def target_weight(self) -> Any:
        """Rises from 0 to 1 over half of the steps, along a cosine."""
        progress = 2 * np.pi * ops.cast(self.counter, "float32") / TOTAL_STEPS
        return 0.5 - ops.cos(ops.minimum(np.pi, progress)) / 2

    def train_step(self, source, target, mixing=None):
        """`source` is two pairs (images, labels), weak and strong; `target` the same, its labels unknown and unused."""
        (source_weak, labels), (source_strong, _) = source
        (target_weak, _), (target_strong, _) = target
        b = source_weak.shape[0]
        source_images = ops.concatenate([source_weak, source_strong], axis=0)
        if mixing is None:
            mixing = keras.random.uniform((2 * b, NUM_LABELS), seed=self.seed_generator)
        with ts.GradientTape() as tape:
            logits = self.model(ops.concatenate([source_images, target_weak, target_strong], axis=0), training=True)
            source_logits = mixing * logits[: 2 * b] + (1 - mixing) * self.model(source_images, training=False)
            pseudo, is_sure = self.pseudo_labels(source_logits[:b], logits[2 * b : 3 * b])
            source_loss = cross_entropy(labels, source_logits[:b]) + cross_entropy(labels, source_logits[b:])
            target_losses = unreduced_cross_entropy(ops.stop_gradient(pseudo), logits[3 * b :])
            target_loss = ops.mean(ops.cast(is_sure, "float32") * target_losses)
            loss = source_loss + self.target_weight() * target_loss  # What the regularisers say is left out, as published.
            self.counter.assign_add(1)
        gradients = tape.gradient(loss, self.model.trainable_weights)
        self.optimizer.apply_gradients(zip(gradients, self.model.trainable_weights, strict=True))
        self.loss_tracker.update_state(loss)
        return {"loss": self.loss_tracker}


def nested_batch(page: Page, t: int) -> tuple[Any, Any]:
    """Source and target images of step `t`, weak and strong, each with its labels."""
    sw, ss, tw, ts_, y = batch(t, BATCH_SIZE, page.sw, page.ss, page.tw, page.ts, page.y)
    return ((sw, y), (ss, y)), ((tw, y), (ts_, y))


def steps(page: Page, *, compile: bool) -> Steps:
    """Runs the page's step on one batch after the other."""
    train_step = ts.step(AdaMatch(page).train_step, compile=compile)
    t = 0
    while True:
        source, target = nested_batch(page, t)
        yield train_step(source, target) if page.native else train_step(source, target, uniform(t, 0, (8, NUM_LABELS)))
        t += 1
