"""A Wasserstein GAN with gradient penalty: points of a generator are drawn to eight spots on a circle. A tape inside a tape."""

import sys
from typing import Any

import keras
import numpy as np
from keras import layers, ops

import trainstep as ts

NUM_SPOTS = 8
BATCH_SIZE, NUM_CODES = 256, 8
NUM_CRITIC_UPDATES = 3
PENALTY_WEIGHT = 1.0


def draw_points(num_points: int, seed: int) -> np.ndarray:
    """Points around eight spots on the unit circle, of shape `(num_points, 2)`."""
    random = np.random.default_rng(seed)
    angles = 2 * np.pi * random.integers(NUM_SPOTS, size=num_points) / NUM_SPOTS
    points = np.stack([np.cos(angles), np.sin(angles)], axis=1) + 0.05 * random.normal(size=(num_points, 2))
    return points.astype("float32")


def make_network(num_inputs: int, num_outputs: int) -> keras.Model:
    """Three layers of 128; the critic and the generator are both such a network."""
    hidden = [layers.Dense(128, activation="relu") for _ in range(3)]
    return keras.Sequential([keras.Input((num_inputs,)), *hidden, layers.Dense(num_outputs)])


def gradient_penalty(critic: keras.Model, real: Any, fake: Any, mix: Any) -> Any:
    """How far the slope of the critic is from 1 on the way from real to fake points: the mean square, a scalar."""
    points = real + mix * (fake - real)
    with ts.GradientTape() as tape:
        tape.watch(points)
        scores = critic(points)
    slopes = ops.norm(tape.gradient(scores, points), axis=1)
    return ops.mean(ops.square(slopes - 1))


def main(
    compile: bool | str = "auto", num_points: int = 100_000, epochs: int = 8, picture: str | None = None
) -> tuple[keras.callbacks.History, np.ndarray]:
    """Trains; gives the history and 2,000 generated points, of shape `(2000, 2)`."""
    keras.utils.set_random_seed(0)
    critic, generator = make_network(2, 1), make_network(NUM_CODES, 2)
    critic_optimizer = keras.optimizers.Adam(1e-3, beta_1=0.5, beta_2=0.9)
    generator_optimizer = keras.optimizers.Adam(3e-4, beta_1=0.5, beta_2=0.9)
    seed_generator = keras.random.SeedGenerator(1)

    def update_critic(real):
        batch_size = ops.shape(real)[0]
        codes = keras.random.normal((batch_size, NUM_CODES), seed=seed_generator)
        mix = keras.random.uniform((batch_size, 1), seed=seed_generator)
        fake = generator(codes)
        with ts.GradientTape() as tape:
            distance = ops.mean(critic(real)) - ops.mean(critic(fake))
            penalty = gradient_penalty(critic, real, fake, mix)
            loss = PENALTY_WEIGHT * penalty - distance
        gradients = tape.gradient(loss, critic.trainable_weights)
        critic_optimizer.apply_gradients(zip(gradients, critic.trainable_weights, strict=True))
        return distance, penalty

    def update_generator(batch_size):
        codes = keras.random.normal((batch_size, NUM_CODES), seed=seed_generator)
        with ts.GradientTape() as tape:
            loss = -ops.mean(critic(generator(codes)))
        gradients = tape.gradient(loss, generator.trainable_weights)
        generator_optimizer.apply_gradients(zip(gradients, generator.trainable_weights, strict=True))

    @ts.step(compile=compile)
    def train_step(real):
        for _ in range(NUM_CRITIC_UPDATES):
            distance, penalty = update_critic(real)
        update_generator(ops.shape(real)[0])
        return {"distance": distance, "penalty": penalty}

    @ts.step(compile=compile)
    def generate(codes):
        return generator(codes)

    trainer = ts.Trainer(train_step, predict_step=generate)
    history = trainer.fit(draw_points(num_points, seed=0), batch_size=BATCH_SIZE, epochs=epochs)
    codes = np.random.default_rng(1).normal(size=(2_000, NUM_CODES)).astype("float32")
    points = trainer.predict(codes, batch_size=len(codes), verbose=0)
    distances = history.history["distance"]
    print(f"the critic tells real points from generated ones by {distances[0]:.3f} at first, by {distances[-1]:.3f} at last")
    if picture:
        draw(picture, points)
    return history, points


def draw(path: str, points: np.ndarray) -> None:
    """As many real points, and the generated ones."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6, 3.2), layout="constrained")
    both = {"real": draw_points(len(points), seed=2), "generated": points}
    for axes, (title, cloud) in zip(figure.subplots(1, 2), both.items(), strict=True):
        axes.plot(*cloud.T, ".", markersize=1.5)
        axes.set(title=title, xlim=(-1.5, 1.5), ylim=(-1.5, 1.5), aspect="equal")
    figure.savefig(path, dpi=90)


if __name__ == "__main__":
    if sys.argv[1:]:
        import matplotlib.figure  # noqa: F401  # If it is missing, better now than after the training.
    main(picture=sys.argv[1] if sys.argv[1:] else None)
