"""Update the weights by hand, `w <- w - learning_rate * g`; then let a Keras optimizer do the same."""

import keras
import numpy as np

import trainstep as ts
from trainstep import digits

LEARNING_RATE = 0.1
BATCH_SIZE = 128

loss_fn = keras.losses.SparseCategoricalCrossentropy()


def load_images(num_samples: int) -> tuple[np.ndarray, np.ndarray]:
    """Flat images with values from 0 to 1, of shape `(num_samples, 784)`, and their labels."""
    (images, labels), _ = digits.load()
    return images[:num_samples].reshape(-1, 784).astype("float32") / 255, labels[:num_samples]


def make_model() -> keras.Model:
    """A softmax regression, which starts from zeros and so always from the same place."""
    return keras.Sequential([keras.Input((784,)), keras.layers.Dense(10, activation="softmax", kernel_initializer="zeros")])


def train_by_hand(images: np.ndarray, labels: np.ndarray, compile: bool | str) -> list[float]:
    """The loss of each step when the weights are updated by the rule itself."""
    model = make_model()

    @ts.step(compile=compile)
    def train_step(images, labels):
        with ts.GradientTape() as tape:
            predictions = model(images)
            loss = loss_fn(labels, predictions)
        gradients = tape.gradient(loss, model.trainable_weights)
        for weight, gradient in zip(model.trainable_weights, gradients, strict=True):
            weight.assign_sub(LEARNING_RATE * gradient)
        return {"loss": loss}

    return run(train_step, images, labels)


def train_with_optimizer(images: np.ndarray, labels: np.ndarray, compile: bool | str) -> list[float]:
    """The loss of each step when an optimizer updates the weights. `SGD` follows the same rule."""
    model = make_model()
    optimizer = keras.optimizers.SGD(LEARNING_RATE)

    @ts.step(compile=compile)
    def train_step(images, labels):
        with ts.GradientTape() as tape:
            predictions = model(images)
            loss = loss_fn(labels, predictions)
        gradients = tape.gradient(loss, model.trainable_weights)
        optimizer.apply_gradients(zip(gradients, model.trainable_weights, strict=True))
        return {"loss": loss}

    return run(train_step, images, labels)


def run(train_step: ts.Step, images: np.ndarray, labels: np.ndarray) -> list[float]:
    """One pass over the images, batch by batch."""
    losses = []
    for start in range(0, len(images), BATCH_SIZE):
        batch = slice(start, start + BATCH_SIZE)
        losses.append(float(train_step(images[batch], labels[batch])["loss"]))
    return losses


def main(compile: bool | str = "auto", num_samples: int = 10_000) -> tuple[list[float], list[float]]:
    """Trains both ways and prints how the loss fell."""
    images, labels = load_images(num_samples)
    by_hand = train_by_hand(images, labels, compile)
    with_optimizer = train_with_optimizer(images, labels, compile)
    print(f"by hand:        loss {by_hand[0]:.4f} at the first step, {by_hand[-1]:.4f} at the last")
    print(f"with optimizer: loss {with_optimizer[0]:.4f} at the first step, {with_optimizer[-1]:.4f} at the last")
    return by_hand, with_optimizer


if __name__ == "__main__":
    main()
