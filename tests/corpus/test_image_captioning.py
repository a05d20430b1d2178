"""What must hold of the image captioner beyond its numbers."""

import keras
import numpy as np
import pytest

import trainstep as ts

from . import conventions
from .pages import image_captioning

both_ways = pytest.mark.parametrize("compile", [False, True], ids=["eager", "compiled"])


@pytest.mark.skipif(keras.config.backend() == "jax", reason="eager on JAX takes most of a minute")
def test_a_caption_sees_the_weights_that_the_one_before_it_left():
    """One step of five captions is five steps of one, and not five losses of the same weights.

    Operation by operation: compiled, five updates in one program take long to compile, and `test_pages` has that.
    """
    page, by_caption = image_captioning.build(native=False), image_captioning.build(native=False)
    for each in (page, by_caption):
        each.tracked["optimizer"] = keras.optimizers.Adam(0.01)  # At the page's rates the weights hardly move in one step.
    captioner = image_captioning.Captioner(page)
    train_step, test_step = ts.step(captioner.train_step, compile=False), ts.step(captioner.test_step, compile=False)
    one_by_one = ts.step(image_captioning.Captioner(by_caption).train_step, compile=False)
    images, captions = page.img[:4], page.cap[:4]

    unchanging = float(test_step(images, captions)["loss"])
    page.loss.reset_state()
    together = float(train_step(images, captions)["loss"])
    assert int(page.optimizer.iterations.value) == 5
    for i in range(5):
        apart = float(one_by_one(images, captions[:, i : i + 1])["loss"])  # The mean over i + 1 steps so far.
    assert together == pytest.approx(5 * apart, rel=1e-5)
    assert abs(together - unchanging) > 1e-3 * unchanging
    ours, theirs = conventions.state(page), conventions.state(by_caption)
    for key in (k for k in ours if k.startswith(("encoder", "decoder"))):
        np.testing.assert_allclose(ours[key], theirs[key], rtol=1e-5, atol=1e-6, err_msg=key)


@both_ways
def test_testing_updates_trackers_alone(compile):
    page = image_captioning.build(native=True)
    test_step = ts.step(image_captioning.Captioner(page).test_step, compile=compile)
    before = conventions.state(page)
    logs = [test_step(page.img[:4], page.cap[:4]) for _ in range(2)]
    after = conventions.state(page)
    changed = {key.split("/")[0] for key in after if not np.array_equal(before[key], after[key])}
    assert changed == {"loss", "accuracy"}
    assert float(logs[0]["loss"]) == pytest.approx(float(logs[1]["loss"]), rel=1e-6)  # No dropout, no flips.


def test_padding_is_learned_from_only_where_it_is_seen(run):
    """With the mask nothing attends to padding; without it, its embedding gets a gradient, as a word of the input."""
    page = image_captioning.build(native=False)
    table = page.decoder.words.embeddings
    caption = np.array([[3, 5, 4, 2, 0, 0, 0, 0], [3, 1, 4, 1, 5, 9, 0, 0]], "int32")

    def gradients(images, caption):
        encoded = page.encoder(page.features(images))
        answers = []
        for mask in (caption[:, 1:] != 0, keras.ops.ones_like(caption[:, 1:]) != 0):
            with ts.GradientTape() as tape:
                probabilities = page.decoder(caption[:, :-1], encoded, mask)
                losses = keras.losses.sparse_categorical_crossentropy(caption[:, 1:], probabilities)
                loss = keras.ops.sum(losses * keras.ops.cast(mask, "float32"))
            answers.append(tape.gradient(loss, table))
        return answers

    masked, unmasked = run(gradients, page.img[:2], caption)
    assert set(np.flatnonzero(np.abs(masked).max(axis=1))) == {
        1,
        3,
        4,
        5,
    }  # 2 and 9 are last words: a caption's end is not continued.
    assert 0 in np.flatnonzero(np.abs(unmasked).max(axis=1))


@pytest.mark.parametrize(("step", "expected"), [(0, 0.0), (1, 1e-4 / 3), (2, 2e-4 / 3), (3, 1e-4), (10, 1e-4)])
def test_the_warm_up(step, expected):
    assert float(image_captioning.WarmUp()(keras.ops.convert_to_tensor(step))) == pytest.approx(expected, rel=1e-6)
