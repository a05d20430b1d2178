"""The image captioner in plain TensorFlow."""

import keras
import tensorflow as tf

from ..conventions import Page, Steps, batch
from ..pages.image_captioning import BATCH_SIZE
from ..pages.image_captioning import build as build

SIGN = 1.0


def steps(page: Page) -> Steps:
    """The page's step, by `tf.GradientTape`."""
    weights = page.encoder.trainable_variables + page.decoder.trainable_variables
    t = 0
    while True:
        images, captions = map(tf.constant, batch(t, BATCH_SIZE, page.img, page.cap))
        features = page.features(images)
        loss_sum = acc_sum = 0.0
        for i in range(5):
            inp, tru = captions[:, i, :-1], captions[:, i, 1:]
            mask = tf.not_equal(tru, 0)
            m = tf.cast(mask, tf.float32)
            with tf.GradientTape() as tape:
                y = page.decoder(inp, page.encoder(features, training=True), mask, training=True)
                per_word = keras.losses.sparse_categorical_crossentropy(tru, y)
                loss = SIGN * tf.reduce_sum(per_word * m) / tf.reduce_sum(m)
            right = tf.logical_and(tf.equal(tf.argmax(y, axis=-1, output_type=tf.int32), tru), mask)
            acc_sum += tf.reduce_sum(tf.cast(right, tf.float32)) / tf.reduce_sum(m)
            loss_sum += loss
            # As dense tensors: of an embedding's gradient in slices, Keras' Adam squares those of a repeated word one by one.
            gradients = [tf.convert_to_tensor(g) for g in tape.gradient(loss, weights)]
            page.optimizer.apply_gradients(zip(gradients, weights, strict=True))
        page.loss.update_state(loss_sum)
        page.accuracy.update_state(acc_sum / 5)
        yield {"loss": page.loss.result(), "acc": page.accuracy.result()}
        t += 1
