"""SimCLR with a linear probe: two tapes and two optimizers over different variables, a vector as loss, metrics inside a tape."""

import keras
import numpy as np
from keras import layers, ops

import trainstep as ts

from ..conventions import Page, Steps, batch, overwrite_weights, uniform

NUM_STEPS, RTOL, ATOL = 6, 1e-4, 1e-5
LOGS = ["c_loss", "c_acc", "p_loss", "p_acc"]
CHANGES = ["model", "encoder", "projection", "probe", "contrastive_optimizer", "probe_optimizer", *LOGS]
NUM_UNLABELLED, NUM_LABELLED, NUM_CLASSES = 6, 2, 4
TEMPERATURE = 0.1


class ColourAffine(layers.Layer):
    """Mixes the colours of each image by a random 3x3 matrix near the unit matrix."""

    def __init__(self, brightness, jitter, **options):
        super().__init__(**options)
        self.brightness, self.jitter = brightness, jitter
        self.seed_generator = keras.random.SeedGenerator(3)

    def call(self, images, training=True):
        if not training:
            return images
        n = ops.shape(images)[0]
        scale = 1 + keras.random.uniform((n, 1, 1, 1), -self.brightness, self.brightness, seed=self.seed_generator)
        mixing = keras.random.uniform((n, 1, 3, 3), -self.jitter, self.jitter, seed=self.seed_generator)
        return ops.clip(ops.matmul(images, ops.eye(3) * scale + mixing), 0, 1)


class GivenDraws(layers.Layer):
    """The augmentation of the numeric mode: brightness by draws from [0, 1) of shape (n, 1, 1, 1)."""

    def __init__(self, strength):
        super().__init__()
        self.strength = strength

    def call(self, images, draws=None, training=True):
        scale = 1 + self.strength * (draws - 0.5) if training else 1
        return ops.clip(images / 255 * scale, 0, 1)


def make_augmenter(zoom, brightness, jitter):
    return keras.Sequential(
        [
            layers.Rescaling(1 / 255),
            layers.RandomFlip("horizontal", seed=1),
            layers.RandomTranslation(zoom / 2, zoom / 2, seed=2),
            layers.RandomZoom((-zoom, 0.0), (-zoom, 0.0), seed=3),
            ColourAffine(brightness, jitter),
        ]
    )


class ContrastiveModel(keras.Model):
    """An encoder that learns from pairs of views of one image, and a probe that learns to classify what it finds."""

    def __init__(self, encoder, projection, probe, strong, weak):
        super().__init__()
        self.encoder, self.projection, self.probe, self.strong, self.weak = encoder, projection, probe, strong, weak

    def compile(self, contrastive_optimizer, probe_optimizer):
        super().compile()
        self.contrastive_optimizer, self.probe_optimizer = contrastive_optimizer, probe_optimizer
        self.c_loss, self.p_loss = keras.metrics.Mean(name="c_loss"), keras.metrics.Mean(name="p_loss")
        self.c_acc = keras.metrics.SparseCategoricalAccuracy(name="c_acc")
        self.p_acc = keras.metrics.SparseCategoricalAccuracy(name="p_acc")
        self.probe_loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)

    @property
    def metrics(self):
        return [self.c_loss, self.c_acc, self.p_loss, self.p_acc]

    def contrastive_loss(self, projections_1, projections_2):
        """How badly each view finds its other half among all of them: a vector."""
        projections_1, projections_2 = ops.normalize(projections_1, axis=1), ops.normalize(projections_2, axis=1)
        similarities = ops.matmul(projections_1, ops.transpose(projections_2)) / TEMPERATURE
        labels = ops.arange(ops.shape(similarities)[0])
        self.c_acc.update_state(labels, similarities)
        self.c_acc.update_state(labels, ops.transpose(similarities))
        loss_1_2 = keras.losses.sparse_categorical_crossentropy(labels, similarities, from_logits=True)
        loss_2_1 = keras.losses.sparse_categorical_crossentropy(labels, ops.transpose(similarities), from_logits=True)
        return (loss_1_2 + loss_2_1) / 2

    def train_step(self, unlabelled, labelled, draws=((), (), ())):
        """A batch of `(images, anything)` and `(images, labels)` and, in numeric mode, the draws of the augmentations."""
        (unlabelled_images, _), (labelled_images, labels) = unlabelled, labelled
        images = ops.concatenate([unlabelled_images, labelled_images])
        views_1, views_2 = self.strong(images, *draws[0], training=True), self.strong(images, *draws[1], training=True)
        with ts.GradientTape() as tape:
            projections_1 = self.projection(self.encoder(views_1, training=True), training=True)
            projections_2 = self.projection(self.encoder(views_2, training=True), training=True)
            contrastive_loss = self.contrastive_loss(projections_1, projections_2)
        weights = self.encoder.trainable_weights + self.projection.trainable_weights
        gradients = tape.gradient(contrastive_loss, weights)
        self.contrastive_optimizer.apply_gradients(zip(gradients, weights, strict=True))
        self.c_loss.update_state(contrastive_loss)

        views = self.weak(labelled_images, *draws[2], training=True)
        with ts.GradientTape() as tape:
            features = self.encoder(views, training=False)
            logits = self.probe(features, training=True)
            probe_loss = self.probe_loss(labels, logits)
        gradients = tape.gradient(probe_loss, self.probe.trainable_weights)
        self.probe_optimizer.apply_gradients(zip(gradients, self.probe.trainable_weights, strict=True))
        self.p_loss.update_state(probe_loss)
        self.p_acc.update_state(labels, logits)
        return {metric.name: metric for metric in self.metrics}

    def test_step(self, images, labels):
        """The probe alone: two of the four metrics."""
        features = self.encoder(self.weak(images, training=False), training=False)
        logits = self.probe(features, training=False)
        self.p_loss.update_state(self.probe_loss(labels, logits))
        self.p_acc.update_state(labels, logits)
        return {"p_loss": self.p_loss, "p_acc": self.p_acc}


def build(*, native: bool) -> Page:
    """Encoder, projection head, probe, two augmenters, two optimizers, four metrics."""
    encoder = keras.Sequential(
        [
            keras.Input((12, 12, 3)),
            layers.Conv2D(8, 3, strides=2, activation="relu"),
            layers.Conv2D(8, 3, strides=2, activation="relu"),
            layers.Flatten(),
            layers.Dense(16, activation="relu"),
        ]
    )
    projection = keras.Sequential([keras.Input((16,)), layers.Dense(16, activation="relu"), layers.Dense(16)])
    probe = keras.Sequential([keras.Input((16,)), layers.Dense(NUM_CLASSES)])
    overwrite_weights(encoder, projection, probe)
    strong = make_augmenter(0.3, 0.6, 0.2) if native else GivenDraws(0.6)
    weak = make_augmenter(0.1, 0.3, 0.1) if native else GivenDraws(0.2)
    model = ContrastiveModel(encoder, projection, probe, strong, weak)
    model.compile(keras.optimizers.Adam(), keras.optimizers.Adam())

    rng = np.random.default_rng(8)
    unlabelled, labelled = rng.random((24, 12, 12, 3)) * 255, rng.random((8, 12, 12, 3)) * 255
    labels = rng.integers(0, NUM_CLASSES, 8)
    return Page(
        tracked={
            "model": model,
            "encoder": encoder,
            "projection": projection,
            "probe": probe,
            "contrastive_optimizer": model.contrastive_optimizer,
            "probe_optimizer": model.probe_optimizer,
            **{metric.name: metric for metric in model.metrics},
        },
        data={"u": unlabelled.astype("float32"), "l": labelled.astype("float32"), "y": labels.astype("int32")},
        native=native,
    )


def nested_batch(page, t):
    """`(images, anything)` and `(images, labels)`."""
    (unlabelled,) = batch(t, NUM_UNLABELLED, page.u)
    return (unlabelled, np.zeros(NUM_UNLABELLED)), batch(t, NUM_LABELLED, page.l, page.y)


def given_draws(t):
    """The draws of the three augmentations of a step, by the convention of the numeric mode."""
    num_images = (NUM_UNLABELLED + NUM_LABELLED, NUM_UNLABELLED + NUM_LABELLED, NUM_LABELLED)
    return tuple((uniform(t, k, (n, 1, 1, 1)),) for k, n in enumerate(num_images))


def steps(page: Page, *, compile: bool) -> Steps:
    """The page's step, on trainstep."""
    train_step, t = ts.step(page.model.train_step, compile=compile), 0
    while True:
        yield train_step(*nested_batch(page, t)) if page.native else train_step(*nested_batch(page, t), given_draws(t))
        t += 1
