"""`Trainer.fit` with validation and callbacks: any Keras callback works, and so does one of your own."""

import math
from typing import Any

import keras
import numpy as np

import trainstep as ts
from trainstep import digits

BATCH_SIZE = 64


class BatchLosses(keras.callbacks.Callback):
    """Keeps the running loss after every batch of training."""

    def on_train_begin(self, logs: dict[str, Any] | None = None) -> None:
        """Starts an empty list."""
        self.values: list[float] = []

    def on_train_batch_end(self, batch: int, logs: dict[str, Any] | None = None) -> None:
        """Appends the loss so far in this epoch."""
        self.values.append(float((logs or {})["loss"]))


def load_images(num_samples: int) -> tuple[np.ndarray, np.ndarray]:
    """Flat images with values from 0 to 1, of shape `(num_samples, 784)`, and their labels."""
    (images, labels), _ = digits.load()
    return images[:num_samples].reshape(-1, 784).astype("float32") / 255, labels[:num_samples]


def main(
    compile: bool | str = "auto", num_samples: int = 10_000, epochs: int = 10
) -> tuple[keras.callbacks.History, BatchLosses, dict[str, float]]:
    """Trains until the validation loss gets no better; gives the history, the losses of all batches, and a last evaluation."""
    images, labels = load_images(num_samples)
    num_validation = num_samples // 5
    x_val, y_val = images[:num_validation], labels[:num_validation]
    x_train, y_train = images[num_validation:], labels[num_validation:]

    model = keras.Sequential(
        [
            keras.Input((784,)),
            keras.layers.Dense(256, activation="relu"),
            keras.layers.Dropout(0.3),
            keras.layers.Dense(10, activation="softmax"),
        ]
    )
    loss_fn = keras.losses.SparseCategoricalCrossentropy()
    optimizer = keras.optimizers.Adam()
    accuracy = keras.metrics.SparseCategoricalAccuracy(name="accuracy")
    mean_loss = keras.metrics.Mean(name="loss")

    @ts.step(compile=compile)
    def train_step(images, labels):
        with ts.GradientTape() as tape:
            predictions = model(images, training=True)
            loss = loss_fn(labels, predictions)
        gradients = tape.gradient(loss, model.trainable_weights)
        optimizer.apply_gradients(zip(gradients, model.trainable_weights, strict=True))
        accuracy.update_state(labels, predictions)
        mean_loss.update_state(loss)
        return {"loss": mean_loss, "accuracy": accuracy}

    @ts.step(compile=compile)
    def test_step(images, labels):
        predictions = model(images, training=False)
        accuracy.update_state(labels, predictions)
        mean_loss.update_state(loss_fn(labels, predictions))
        return {"loss": mean_loss, "accuracy": accuracy}

    batch_losses = BatchLosses()
    trainer = ts.Trainer(train_step, test_step, model=model)
    history = trainer.fit(
        x_train,
        y_train,
        batch_size=BATCH_SIZE,
        epochs=epochs,
        validation_data=(x_val, y_val),
        callbacks=[keras.callbacks.EarlyStopping(monitor="val_loss", patience=2, restore_best_weights=True), batch_losses],
    )
    evaluation = trainer.evaluate(x_val, y_val, batch_size=BATCH_SIZE)

    num_epochs = len(history.history["val_loss"])
    print(f"{num_epochs} epochs of {math.ceil(len(x_train) / BATCH_SIZE)} batches; the loss fell from {batch_losses.values[0]:.4f}")
    print(f"best validation loss {min(history.history['val_loss']):.4f}; with the best weights again {evaluation['loss']:.4f}")
    return history, batch_losses, evaluation


if __name__ == "__main__":
    main()
