"""What the page `grad_cam` wants checked besides its numbers."""

import keras
import numpy as np
import pytest

import trainstep as ts

from .pages import grad_cam

both_ways = pytest.mark.parametrize("compile", [False, True], ids=["eager", "compiled"])


def gradient_of(classifier, images, *class_index, compile):
    model = grad_cam.with_activation(classifier)
    step = ts.step(lambda *arguments: grad_cam.score_gradient(model, *arguments)[1], compile=compile)
    return keras.ops.convert_to_numpy(step.predict((images, *class_index)))


def closed_form(classifier, classes):
    """The logits are a mean over 16 places times the kernel: (len(classes), 4, 4, 12)."""
    kernel = keras.ops.convert_to_numpy(classifier.get_layer("logits").kernel)
    return np.broadcast_to(kernel.T[classes][:, None, None, :] / 16, (len(classes), 4, 4, 12))


@both_ways
def test_the_gradient_is_the_kernel_of_the_largest_logit(compile):
    page = grad_cam.build(native=False)
    largest = keras.ops.convert_to_numpy(page.classifier(page.x)).argmax(axis=1)
    for i in range(4):
        gradient = gradient_of(page.classifier, page.x[i : i + 1], compile=compile)
        np.testing.assert_allclose(gradient, closed_form(page.classifier, largest[i : i + 1]), rtol=1e-5)


@both_ways
def test_a_batch_of_four_with_one_class_given_as_a_tensor(compile):
    page = grad_cam.build(native=False)
    for class_index in (0, 3):
        gradient = gradient_of(page.classifier, page.x, np.int32(class_index), compile=compile)
        np.testing.assert_allclose(gradient, closed_form(page.classifier, [class_index] * 4), rtol=1e-5)


@both_ways
@pytest.mark.parametrize("when", ["after it is built", "before it is built"])
def test_a_frozen_classifier_keeps_its_gradient(when, compile):
    page = grad_cam.build(native=False)
    expected = closed_form(page.classifier, [1])
    frozen = page.classifier
    if when == "before it is built":
        frozen = keras.Sequential([keras.layers.deserialize(keras.layers.serialize(x)) for x in page.classifier.layers[1:]])
        frozen.trainable = False
        frozen.build((None, 16, 16, 3))
        frozen.set_weights(page.classifier.get_weights())
    frozen.trainable = False
    assert frozen.trainable_variables == []
    np.testing.assert_allclose(gradient_of(frozen, page.x[:1], 1, compile=compile), expected, rtol=1e-5)


@both_ways
def test_the_gradient_of_the_input_is_there_if_the_input_is_watched(compile):
    page = grad_cam.build(native=False)
    image, kernel = page.x[:1], page.classifier.get_layer("logits").kernel

    def input_gradient(image, is_watched):
        with ts.GradientTape() as tape:
            if is_watched:
                tape.watch(image)
            score = page.classifier(image)[:, 1]
        return tape.gradient(score, [image, kernel])

    watched = ts.step(lambda image: input_gradient(image, True), compile=compile).predict((image,))
    gradient = keras.ops.convert_to_numpy(watched[0])
    direction = gradient / np.linalg.norm(gradient)
    ahead, behind = (float(page.classifier(image + s * direction)[0, 1]) for s in (1e-2, -1e-2))
    np.testing.assert_allclose((ahead - behind) / 2e-2, np.linalg.norm(gradient), rtol=1e-2)

    answers = []
    step = ts.step(lambda image: answers.append(input_gradient(image, False)) or answers[-1][1], compile=compile)
    pooled = keras.ops.convert_to_numpy(step.predict((image,)))[:, 1]
    activation = keras.ops.convert_to_numpy(grad_cam.with_activation(page.classifier)(image)[0])
    assert answers[0][0] is None
    np.testing.assert_allclose(pooled, activation.mean(axis=(0, 1, 2)), rtol=1e-4, atol=1e-6)


def test_heatmaps_are_traced_once_with_and_once_without_a_class():
    page = grad_cam.build(native=False)
    model = grad_cam.with_activation(page.classifier)
    heat = ts.step(lambda image, class_index=None: grad_cam.heatmap(model, image, class_index), compile=True)
    maps = [keras.ops.convert_to_numpy(heat.predict((page.x[:1], c))) for c in (0, 1, 2, 3)]
    own = keras.ops.convert_to_numpy(heat.predict((page.x[:1],)))
    assert heat.num_traces == 2
    assert own.shape == (4, 4)
    assert own.max() == 1.0
    assert np.abs(maps[0] - maps[1]).max() > 1e-2
