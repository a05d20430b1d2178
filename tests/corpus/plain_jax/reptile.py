"""Reptile in plain JAX: the inner step is jitted whole; the loop over tasks is NumPy, the test an eager call, as on the page."""

import jax
import jax.numpy as jnp
import keras
import numpy as np

from ..conventions import Page
from ..pages.reptile import BATCH_SIZE, NUM_CLASSES, NUM_EVALUATION_STEPS, NUM_TRAINING_STEPS, task
from ..pages.reptile import build as build
from . import Run, State, initial_state, merged, split


def steps(page: Page) -> Run:
    """The page's loop; one meta-iteration at a time, and an evaluation after every second one."""
    learner, state, t = Learner(page), initial_state(page), 0
    while True:
        logs, state = learner.meta_iteration(state, t, step_size=0.25 * (1 - t / 5))
        if t % 2 == 0:
            (logs["accuracy"], logs["accuracy_over_samples"]), state = learner.evaluate(state, t)
        yield logs, state
        t += 1


class Learner:
    """The jitted inner step and the loops around it: state in, state out."""

    def __init__(self, page: Page):
        self.pool, self.model, self.optimizer = page.pool, page.model, page.optimizer
        self.optimizer.build(self.model.trainable_variables)
        self.inner_step = jax.jit(self.inner_step, donate_argnums=0)

    def inner_step(self, state: State, images, labels):
        """One update on a batch of one task."""

        def summed_loss(trainable, others):
            probabilities, others = self.model.stateless_call(trainable, others, images)
            losses = keras.losses.sparse_categorical_crossentropy(labels, probabilities)
            return jnp.sum(losses), (jnp.mean(losses), others)

        trainable, others = split(self.model, state["model"])
        (_, (loss, others)), gradients = jax.value_and_grad(summed_loss, has_aux=True)(trainable, others)
        trainable, slots = self.optimizer.stateless_apply(state["optimizer"], gradients, trainable)
        return {"loss": loss}, {"model": merged(self.model, trainable, others), "optimizer": slots}

    def adapt(self, state: State, images: np.ndarray, labels: np.ndarray, *, num_steps: int) -> tuple[float, State]:
        """Takes so many steps on a task; the last loss and the state after them."""
        for i in range(num_steps):
            start = i * BATCH_SIZE % len(images)
            rows = slice(start, start + BATCH_SIZE)
            logs, state = self.inner_step(state, images[rows], labels[rows])
        return float(logs["loss"]), state

    def meta_iteration(self, state: State, t: int, *, step_size: float) -> tuple[dict[str, float], State]:
        """Adapts to task `t`, and goes a part of the way to where that led."""
        images, labels, _ = task(self.pool, t)
        old = on_host(state["model"])
        loss, state = self.adapt(state, images, labels, num_steps=NUM_TRAINING_STEPS)
        pairs = zip(old, on_host(state["model"]), strict=True)
        return {"loss": loss}, state | {"model": on_device([before + step_size * (after - before) for before, after in pairs])}

    def evaluate(self, state: State, t: int) -> tuple[tuple[float, float], State]:
        """The accuracies over classes and over samples on a new task, and the state with the weights as they were."""
        images, labels, tests = task(self.pool, 100 + t)
        old = on_host(state["model"])
        _, state = self.adapt(state, images, labels, num_steps=NUM_EVALUATION_STEPS)
        probabilities = np.asarray(self.model.stateless_call(*split(self.model, state["model"]), tests)[0])
        classes = np.arange(NUM_CLASSES)
        accuracies = [float(np.mean(probabilities.argmax(axis=axis) == classes)) for axis in (1, 0)]
        return (accuracies[0], accuracies[1]), state | {"model": on_device(old)}


def on_host(values: list[jax.Array]) -> list[np.ndarray]:
    """Copies, which outlive the donated arrays."""
    return [np.array(value) for value in values]


def on_device(values: list[np.ndarray]) -> list[jax.Array]:
    """Arrays that can be donated."""
    return [jnp.asarray(value) for value in values]
