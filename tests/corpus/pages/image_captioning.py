"""An image captioner: five updates in one step, each with a tape of its own; padding and causal masks; a frozen feature network."""

from typing import Any

import keras
import numpy as np
from keras import layers, ops

import trainstep as ts

from ..conventions import Page, Steps, batch, overwrite_weights

NUM_STEPS, RTOL, ATOL = 4, 1e-4, 1e-5
LOGS = ["loss", "acc"]
CHANGES = ["encoder", "decoder", "optimizer", "loss", "accuracy"]
BATCH_SIZE = 4
VOCABULARY, WIDTH, LENGTH, CAPTIONS = 20, 16, 7, 5


class WarmUp(keras.optimizers.schedules.LearningRateSchedule):
    """Rises over the first three updates, and then stays."""

    def __call__(self, step):
        step = ops.cast(step, "float32")
        return ops.cond(step < 3, lambda: 1e-4 * step / 3, lambda: ops.convert_to_tensor(1e-4, "float32"))


class Encoder(keras.Model):
    """Features (b, 16, 8) of an image to what the decoder attends to, (b, 16, 16)."""

    def __init__(self):
        super().__init__(name="encoder")
        self.norm_in, self.project = layers.LayerNormalization(), layers.Dense(WIDTH, activation="relu")
        self.attention, self.norm_out = layers.MultiHeadAttention(1, WIDTH), layers.LayerNormalization()

    def call(self, features, training=False):
        x = self.project(self.norm_in(features))
        return self.norm_out(x + self.attention(x, x, training=training))


class Decoder(keras.Model):
    """Words so far (b, 7), the encoder's output and which words count to the probabilities of the next words, (b, 7, 20)."""

    def __init__(self, rate_inside: float, rate_outside: float):
        super().__init__(name="decoder")
        self.words, self.positions = layers.Embedding(VOCABULARY, WIDTH), layers.Embedding(LENGTH, WIDTH)
        self.self_attention, self.norm_1 = layers.MultiHeadAttention(2, WIDTH), layers.LayerNormalization()
        self.cross_attention, self.norm_2 = layers.MultiHeadAttention(2, WIDTH), layers.LayerNormalization()
        self.hidden, self.dropout_inside = layers.Dense(WIDTH, activation="relu"), layers.Dropout(rate_inside, seed=1)
        self.project, self.norm_3 = layers.Dense(WIDTH), layers.LayerNormalization()
        self.dropout_outside = layers.Dropout(rate_outside, seed=2)
        self.probabilities = layers.Dense(VOCABULARY, activation="softmax")

    def call(self, words, encoded, mask, training=False):
        x = self.words(words) * WIDTH**0.5 + self.positions(ops.arange(LENGTH))
        past = ops.cast(ops.arange(LENGTH)[:, None] >= ops.arange(LENGTH)[None, :], "int32")
        visible = ops.minimum(ops.cast(mask[:, None, :], "int32"), past)
        x = self.norm_1(x + self.self_attention(x, x, attention_mask=visible, training=training))
        x = self.norm_2(x + self.cross_attention(x, encoded, attention_mask=mask[:, :, None], training=training))
        hidden = self.dropout_inside(self.hidden(x), training=training)
        x = self.norm_3(x + self.project(hidden))
        return self.probabilities(self.dropout_outside(x, training=training))


def build(*, native: bool) -> Page:
    """Feature network, encoder, decoder, Adam with a warm-up, two trackers; in native mode the flips of the images."""
    features = keras.Sequential(
        [keras.Input((8, 8, 3)), layers.Conv2D(8, 3, strides=2, padding="same", activation="relu"), layers.Reshape((16, 8))],
        name="features",
    )
    encoder, decoder = Encoder(), Decoder(*((0.3, 0.5) if native else (0.0, 0.0)))
    words = np.ones((1, LENGTH), "int32")
    decoder(words, encoder(features(np.zeros((1, 8, 8, 3), "float32"))), words > 0)
    overwrite_weights(features, encoder, decoder)
    features.trainable = False
    rng = np.random.default_rng(7)
    images = rng.random((8, 8, 8, 3)).astype("float32")
    captions = rng.integers(1, VOCABULARY, (8, CAPTIONS, LENGTH + 1))
    captions[np.arange(LENGTH + 1) >= rng.integers(4, 9, (8, CAPTIONS))[..., None]] = 0
    return Page(
        tracked={
            "features": features,
            "encoder": encoder,
            "decoder": decoder,
            "optimizer": keras.optimizers.Adam(WarmUp()),
            "loss": keras.metrics.Mean(name="loss"),
            "accuracy": keras.metrics.Mean(name="accuracy"),
        },
        data={"img": images, "cap": captions.astype("int32")},
        native=native,
    )


class Captioner:
    """The models of the page, and what training and testing do with one batch."""

    def __init__(self, page: Page):
        self.features, self.encoder, self.decoder = page.features, page.encoder, page.decoder
        self.optimizer, self.loss_tracker, self.accuracy_tracker = page.optimizer, page.loss, page.accuracy
        self.flip = layers.RandomFlip("horizontal", seed=3) if page.native else layers.Identity()

    def train_step(self, images, captions):
        """One update for each caption of the images (b, 8, 8, 3); captions are (b, n, 8)."""
        features = self.features(self.flip(images, training=True))
        weights = self.encoder.trainable_weights + self.decoder.trainable_weights
        total_loss = total_accuracy = 0.0
        for i in range(captions.shape[1]):
            with ts.GradientTape() as tape:
                loss, accuracy = self.loss_and_accuracy(features, captions[:, i], training=True)
            self.optimizer.apply(tape.gradient(loss, weights), weights)
            total_loss, total_accuracy = total_loss + loss, total_accuracy + accuracy
        return self.tracked(total_loss, total_accuracy / captions.shape[1])

    def test_step(self, images, captions):
        """The loss and accuracy over all captions of the images, with the weights as they are."""
        features = self.features(images)
        answers = [self.loss_and_accuracy(features, captions[:, i], training=False) for i in range(captions.shape[1])]
        losses, accuracies = zip(*answers, strict=True)
        return self.tracked(sum(losses), sum(accuracies) / captions.shape[1])

    def loss_and_accuracy(self, features: Any, caption: Any, *, training: bool) -> tuple[Any, Any]:
        """Both are means over the words that count; caption is (b, 8), padded with 0."""
        words, next_words = caption[:, :-1], caption[:, 1:]
        mask = next_words != 0
        probabilities = self.decoder(words, self.encoder(features, training=training), mask, training=training)
        counts = ops.cast(mask, "float32")
        losses = keras.losses.sparse_categorical_crossentropy(next_words, probabilities)
        hits = ops.cast(ops.argmax(probabilities, axis=-1) == ops.cast(next_words, "int32"), "float32")
        return ops.sum(losses * counts) / ops.sum(counts), ops.sum(hits * counts) / ops.sum(counts)

    def tracked(self, loss: Any, accuracy: Any) -> dict[str, keras.Metric]:
        """Updates the trackers, and names what is reported."""
        self.loss_tracker.update_state(loss)
        self.accuracy_tracker.update_state(accuracy)
        return {"loss": self.loss_tracker, "acc": self.accuracy_tracker}


def steps(page: Page, *, compile: bool) -> Steps:
    """Runs the page's step on one batch after the other."""
    train_step = ts.step(Captioner(page).train_step, compile=compile)
    t = 0
    while True:
        yield train_step(*batch(t, BATCH_SIZE, page.img, page.cap))
        t += 1
