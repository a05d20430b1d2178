"""The gradient with respect to an input image: which pixels make it look more like a three? And one step that way."""

import keras
import numpy as np

import trainstep as ts
from trainstep import digits

DIGIT = 3
STEP_SIZE = 1.0


def train_classifier(images: np.ndarray, labels: np.ndarray, num_steps: int, compile: bool | str) -> keras.Model:
    """A small classifier whose last layer gives logits, trained on all images at every step."""
    model = keras.Sequential(
        [keras.Input((28, 28)), keras.layers.Flatten(), keras.layers.Dense(32, activation="relu"), keras.layers.Dense(10)]
    )
    loss_fn = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    optimizer = keras.optimizers.Adam(0.01)

    @ts.step(compile=compile)
    def train_step(images, labels):
        with ts.GradientTape() as tape:
            loss = loss_fn(labels, model(images))
        gradients = tape.gradient(loss, model.trainable_weights)
        optimizer.apply_gradients(zip(gradients, model.trainable_weights, strict=True))
        return {"loss": loss}

    for _ in range(num_steps):
        train_step(images, labels)
    return model


def main(
    compile: bool | str = "auto", num_samples: int = 2_000, num_steps: int = 50
) -> tuple[keras.Model, np.ndarray, np.ndarray, np.ndarray]:
    """Gives the classifier, five images, the gradients of their scores, and the images after one step of ascent."""
    (images, labels), _ = digits.load()
    images, labels = images[:num_samples].astype("float32") / 255, labels[:num_samples].astype("int32")
    model = train_classifier(images, labels, num_steps, compile)

    @ts.step(compile=compile)
    def ascent_step(images):
        with ts.GradientTape() as tape:
            tape.watch(images)
            scores = model(images)[:, DIGIT]
        gradients = tape.gradient(scores, images)
        directions = gradients / keras.ops.norm(gradients, axis=(1, 2), keepdims=True)
        return gradients, images + STEP_SIZE * directions

    chosen = images[:5]
    gradients, moved = ts.Trainer(predict_step=ascent_step).predict(chosen, verbose=0)

    scores_before, scores_after = (model.predict(x, verbose=0)[:, DIGIT] for x in (chosen, moved))
    for label, before, after in zip(labels, scores_before, scores_after, strict=False):
        print(f"a {label}: its score as a {DIGIT} rises from {before:.4f} to {after:.4f}")
    return model, chosen, gradients, moved


if __name__ == "__main__":
    main()
