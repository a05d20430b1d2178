"""A vision model that shifts pixels: sources in lists of lists, some of them empty, and paths that are dropped for some samples."""

import keras
import numpy as np
from keras import layers, ops

import trainstep as ts

from ..conventions import Logs, Page, Steps, batch, overwrite_weights, uniform

NUM_STEPS, RTOL, ATOL = 6, 1e-4, 1e-5
LOGS = ["loss", "compile_metrics/accuracy", "compile_metrics/top5"]
CHANGES = ["model", "optimizer", "loss", "metrics"]
BATCH_SIZE = 8
NUM_BLOCKS, DROP_RATE = 2, 0.2


def shifted(x):
    """Images (b, h, w, c) whose first four eighths of the channels are moved by one pixel: left, right, up, down; zeros move in."""
    height, width = x.shape[1:3]
    padded = ops.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0)))
    corners = [(1, 2), (1, 0), (2, 1), (0, 1)] + 4 * [(1, 1)]
    parts = ops.split(padded, 8, axis=-1)
    return ops.concatenate([p[:, i : i + height, j : j + width] for p, (i, j) in zip(parts, corners, strict=True)], axis=-1)


class DropPath(layers.Layer):
    """In training, zeroes some samples and scales up the others; takes the uniform numbers that decide if it is given them."""

    def __init__(self):
        super().__init__()
        self.seed_generator = keras.random.SeedGenerator(1)

    def call(self, x, u=None, training=False):
        if not training:
            return x
        if u is None:
            u = keras.random.uniform((ops.shape(x)[0], 1, 1, 1), seed=self.seed_generator)
        return x * ops.floor(1 - DROP_RATE + u) / (1 - DROP_RATE)


class Block(layers.Layer):
    """Shift, normalize, and two dense layers, added to the input."""

    def __init__(self):
        super().__init__()
        self.norm, self.wide, self.narrow = layers.LayerNormalization(), layers.Dense(32, "gelu"), layers.Dense(16)
        self.drop_path = DropPath()

    def call(self, x, u=None, training=False):
        return x + self.drop_path(self.narrow(self.wide(self.norm(shifted(x)))), u, training=training)


class ShiftViT(keras.Model):
    """Images (b, 16, 16, 3) to 10 logits; the training flag is handed to each part that needs it."""

    def __init__(self, augmentation: keras.Sequential):
        super().__init__()
        self.augmentation = augmentation
        self.projection = layers.Conv2D(16, 4, strides=4)
        self.stages = [Block(), Block()]
        self.pool = layers.GlobalAveragePooling2D()
        self.head = keras.Sequential([layers.LayerNormalization(), layers.Dense(10)])

    def call(self, x, u=None, training=False):
        x = self.projection(self.augmentation(x, training=training))
        for k, stage in enumerate(self.stages):
            x = stage(x, None if u is None else u[k], training=training)
        return self.head(self.pool(x))

    def sources(self):
        """The trainable variables of each part: five lists, two of them empty. The head belongs to the last stage."""
        first, last = (stage.trainable_variables for stage in self.stages)
        parts = [part.trainable_variables for part in (self.augmentation, self.projection, self.pool)]
        return [*parts, first, last + self.head.trainable_variables]

    def loss_and_gradients(self, x, y, u=None):
        with ts.GradientTape() as tape:
            logits = self(x, u, training=True)
            loss = self.compute_loss(y=y, y_pred=logits)
        return loss, logits, tape.gradient(loss, self.sources())

    def train_step(self, x, y, u=None):
        loss, logits, gradients = self.loss_and_gradients(x, y, u)
        pairs = []
        for some_gradients, some_variables in zip(gradients, self.sources(), strict=True):
            pairs.extend(zip(some_gradients, some_variables, strict=True))
        self.optimizer.apply_gradients(pairs)
        return self.updated_metrics(loss, y, logits)

    def test_step(self, x, y):
        logits = self(x, training=False)
        return self.updated_metrics(self.compute_loss(y=y, y_pred=logits), y, logits)

    def updated_metrics(self, loss, y, logits):
        for metric in self.metrics:
            if metric.name == "loss":
                metric.update_state(loss)
            else:
                metric.update_state(y, logits)
        return {metric.name: metric.result() for metric in self.metrics}


class WarmUpCosine(keras.optimizers.schedules.LearningRateSchedule):
    """From 1e-5 to 1e-3 in a line over two steps, then down by a cosine to zero at step eight."""

    def __call__(self, step):
        step = ops.cast(step, "float32")
        warm_up = 1e-5 + (1e-3 - 1e-5) / 2 * step
        cosine = 0.5 * 1e-3 * (1 + ops.cos(np.pi * (step - 2) / (8 - 2)))
        return ops.where(step < 2, warm_up, ops.where(step > 8, 0.0, cosine))


def build(*, native: bool) -> Page:
    """The model, AdamW with its schedule, and the compiled metrics."""
    random_flip = [layers.RandomFlip("horizontal", seed=1)] if native else []
    model = ShiftViT(keras.Sequential([layers.Rescaling(1 / 255), *random_flip]))
    rng = np.random.default_rng(9)
    x = (rng.random((24, 16, 16, 3)) * 255).astype("float32")
    y = rng.integers(0, 10, 24).astype("int32")
    model(x[:1])
    overwrite_weights(model)
    model.compile(
        keras.optimizers.AdamW(WarmUpCosine(), weight_decay=1e-4),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy", keras.metrics.SparseTopKCategoricalAccuracy(5, name="top5")],
    )
    tracker, metrics = model.metrics
    tracked = {"model": model, "optimizer": model.optimizer, "loss": tracker, "metrics": metrics}
    return Page(tracked=tracked, data={"x": x, "y": y}, native=native)


def steps(page: Page, *, compile: bool) -> Steps:
    """The page's step, on trainstep."""
    train_step = ts.step(page.model.train_step, compile=compile)
    t = 0
    while True:
        x, y = batch(t, BATCH_SIZE, page.x, page.y)
        u = np.stack([uniform(t, k, (BATCH_SIZE, 1, 1, 1)) for k in range(NUM_BLOCKS)])
        yield flat(train_step(x, y) if page.native else train_step(x, y, u))
        t += 1


def flat(logs: Logs) -> Logs:
    """Nested names joined by "/"."""
    return {"/".join(path): value for path, value in keras.tree.flatten_with_path(logs)}
