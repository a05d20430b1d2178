"""Knowledge distillation: a student that is shown no three learns from its teacher's doubts what a three looks like.

The experiment is from section 3 of G. Hinton, O. Vinyals and J. Dean, "Distilling the Knowledge in a Neural Network" (2015).
"""

from typing import Any

import keras
import numpy as np
from keras import layers, ops

import trainstep as ts
from trainstep import digits

UNSEEN = 3  # The digit that is kept from the students.
TEMPERATURE = 10.0  # The higher, the more a teacher says of the digits that an image is not.


def load_digits() -> tuple[tuple[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]:
    """Flat images with values from 0 to 1, of shape `(num_images, 784)`, and labels: for training and for the test."""
    training, test = (((x.reshape(-1, 784) / 255).astype("float32"), y.astype("int32")) for x, y in digits.load())
    return training, test


def make_network(num_units: int) -> keras.Model:
    """A classifier of flat images that gives logits."""
    hidden = [layers.Dense(num_units, activation="relu"), layers.Dropout(0.2), layers.Dense(num_units, activation="relu")]
    return keras.Sequential([keras.Input((784,)), *hidden, layers.Dense(10)])


def difference_of_opinion(teacher_logits: Any, student_logits: Any) -> Any:
    """How far the student's opinions are from the teacher's, both softened by the temperature: the mean divergence, in nats."""
    opinions = ops.softmax(teacher_logits / TEMPERATURE)
    log_ratios = ops.log_softmax(teacher_logits / TEMPERATURE) - ops.log_softmax(student_logits / TEMPERATURE)
    return ops.mean(ops.sum(opinions * log_ratios, axis=1))


def train_on_labels(model: keras.Model, images: np.ndarray, labels: np.ndarray, epochs: int, compile: bool | str) -> None:
    """The usual step."""
    label_loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    optimizer = keras.optimizers.Adam()

    @ts.step(compile=compile)
    def train_step(images, labels):
        with ts.GradientTape() as tape:
            loss = label_loss(labels, model(images, training=True))
        gradients = tape.gradient(loss, model.trainable_weights)
        optimizer.apply_gradients(zip(gradients, model.trainable_weights, strict=True))
        return {"loss": loss}

    ts.Trainer(train_step).fit(images, labels, batch_size=100, epochs=epochs, verbose=0)


def distill(teacher: keras.Model, student: keras.Model, images: np.ndarray, epochs: int, compile: bool | str) -> list[float]:
    """A step with two models, of which it trains one, and no labels; the mean loss of each epoch."""
    optimizer = keras.optimizers.Adam()

    @ts.step(compile=compile)
    def train_step(images):
        teacher_logits = teacher(images, training=False)
        with ts.GradientTape() as tape:
            student_logits = student(images, training=True)
            # Softening divides the gradients by the square of the temperature, and this gives them their size again.
            loss = TEMPERATURE**2 * difference_of_opinion(teacher_logits, student_logits)
        gradients = tape.gradient(loss, student.trainable_weights)
        optimizer.apply_gradients(zip(gradients, student.trainable_weights, strict=True))
        return {"loss": loss}

    return ts.Trainer(train_step).fit(images, batch_size=100, epochs=epochs, verbose=0).history["loss"]


def accuracy_of(model: keras.Model, images: np.ndarray, labels: np.ndarray) -> float:
    """The share of the images that the model takes for what they are."""
    return float(np.mean(ops.convert_to_numpy(model(images)).argmax(axis=1) == labels))


def main(
    compile: bool | str = "auto", num_samples: int = 10_000, epochs: int = 20
) -> tuple[list[float], dict[str, tuple[float, float]]]:
    """Gives the losses of distillation, and the accuracies on all test digits and on the threes.

    The networks are the teacher, its student, and one that learned, also without threes, from the labels alone.
    """
    keras.utils.set_random_seed(0)
    (x_train, y_train), (x_test, y_test) = load_digits()
    x_train, y_train = x_train[:num_samples], y_train[:num_samples]
    x_seen, y_seen = x_train[y_train != UNSEEN], y_train[y_train != UNSEEN]

    teacher, student, alone = make_network(400), make_network(128), make_network(128)
    train_on_labels(teacher, x_train, y_train, epochs, compile)
    train_on_labels(alone, x_seen, y_seen, epochs, compile)
    losses = distill(teacher, student, x_seen, epochs, compile)

    is_unseen = y_test == UNSEEN
    accuracies = {}
    for name, model in {"teacher": teacher, "student": student, "alone": alone}.items():
        accuracies[name] = accuracy_of(model, x_test, y_test), accuracy_of(model, x_test[is_unseen], y_test[is_unseen])
        print(f"{name + ':':8s} {accuracies[name][0]:.1%} of all test digits are right, {accuracies[name][1]:.1%} of the threes")
    return losses, accuracies


if __name__ == "__main__":
    main()
