"""Grad-CAM: where in an image did a classifier look? The gradient of a score with respect to a layer inside the network.

R. Selvaraju et al., "Grad-CAM: Visual Explanations from Deep Networks via Gradient-based Localization" (2017).
"""

import sys

import keras
import numpy as np
from keras import layers, ops

import trainstep as ts
from trainstep import digits

SIZE = 56  # Images are 56 x 56 pixels, with a digit of 28 x 28 somewhere on them.


def make_images(num_samples: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Images (n, 56, 56, 1) of a digit each, on noise; the labels (n,); and the corners (n, 2) where the digits begin."""
    random = np.random.default_rng(seed)
    (small, labels), _ = digits.load()
    corners = random.integers(0, SIZE - 28, (num_samples, 2), endpoint=True)
    images = random.uniform(0, 0.5, (num_samples, SIZE, SIZE, 1)).astype("float32")
    for image, digit, (row, column) in zip(images, small[:num_samples], corners, strict=True):
        image[row : row + 28, column : column + 28, 0] += digit / 255
    return images, labels[:num_samples].astype("int32"), corners


def make_network() -> tuple[keras.Model, keras.Model]:
    """Images to feature maps (b, 14, 14, 32), and feature maps to logits (b, 10): the two parts of a classifier."""
    features = keras.Sequential(
        [
            keras.Input((SIZE, SIZE, 1)),
            layers.Conv2D(16, 5, strides=2, padding="same", activation="relu"),
            layers.Conv2D(32, 3, strides=2, padding="same", activation="relu"),
            layers.Conv2D(32, 3, padding="same", activation="relu"),
        ]
    )
    head = keras.Sequential([keras.Input((SIZE // 4, SIZE // 4, 32)), layers.GlobalMaxPooling2D(), layers.Dense(10)])
    return features, head


def main(
    compile: bool | str = "auto", num_samples: int = 5_000, epochs: int = 8, picture: str | None = None
) -> tuple[keras.Model, np.ndarray, np.ndarray, np.ndarray]:
    """Gives the head of the classifier, and of 100 images the feature maps, the Grad-CAM maps and the corners of their digits."""
    keras.utils.set_random_seed(0)
    images, labels, corners = make_images(num_samples, seed=0)
    features, head = make_network()
    weights = features.trainable_weights + head.trainable_weights
    loss_fn = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    optimizer = keras.optimizers.Adam(2e-3)
    accuracy = keras.metrics.SparseCategoricalAccuracy(name="accuracy")

    @ts.step(compile=compile)
    def train_step(images, labels):
        with ts.GradientTape() as tape:
            logits = head(features(images))
            loss = loss_fn(labels, logits)
        gradients = tape.gradient(loss, weights)
        optimizer.apply_gradients(zip(gradients, weights, strict=True))
        accuracy.update_state(labels, logits)
        return {"loss": loss, "accuracy": accuracy}

    @ts.step(compile=compile)
    def grad_cam(images):
        maps = features(images)
        with ts.GradientTape() as tape:
            tape.watch(maps)
            scores = ops.max(head(maps), axis=1)  # Of the class that the network has chosen.
        importance = ops.mean(tape.gradient(scores, maps), axis=(1, 2), keepdims=True)
        return maps, ops.relu(ops.sum(importance * maps, axis=-1))

    trainer = ts.Trainer(train_step, predict_step=grad_cam)
    trainer.fit(images, labels, batch_size=50, epochs=epochs)
    maps, heat = trainer.predict(images[:100], batch_size=100, verbose=0)
    print(f"{share_on_digits(heat, corners[:100]):.1%} of the heat is where the digit is, on less than a third of the image")
    if picture:
        draw(picture, images, heat)
    return head, maps, heat, corners[:100]


def share_on_digits(heat: np.ndarray, corners: np.ndarray) -> float:
    """How much of the heat (n, 14, 14) is on the cells that the digits touch."""
    begin, end = corners // 4, -(-(corners + 28) // 4)
    inside = sum(h[r:r_end, c:c_end].sum() for h, (r, c), (r_end, c_end) in zip(heat, begin, end, strict=True))
    return float(inside / heat.sum())


def draw(path: str, images: np.ndarray, heat: np.ndarray) -> None:
    """Eight images, and below each the same with its heat."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 2.1), layout="constrained")
    for i, column in enumerate(figure.subplots(2, 8).T):
        for axes in column:
            axes.imshow(images[i, ..., 0], cmap="gray", vmin=0, vmax=1.5)
            axes.set_axis_off()
        axes.imshow(heat[i], cmap="jet", alpha=0.5, extent=(-0.5, SIZE - 0.5, SIZE - 0.5, -0.5), interpolation="bilinear")
    figure.savefig(path, dpi=72)


if __name__ == "__main__":
    if sys.argv[1:]:
        import matplotlib.figure  # noqa: F401  # If it is missing, better now than after the training.
    main(picture=sys.argv[1] if sys.argv[1:] else None)
