"""A network that learns the heat equation `u_t = alpha u_xx` from the equation alone: second derivatives in its loss."""

import math
import sys

import keras
import numpy as np
from keras import ops

import trainstep as ts

ALPHA = 0.1  # How fast heat spreads, in length squared per time. The rod is 1 long, and is watched for a time of 1.
NUM_POINTS = 256  # Where the equation is asked for at each step.


def exact_solution(t: np.ndarray, x: np.ndarray) -> np.ndarray:
    """The temperature of a rod that starts as `sin(pi x)` and is kept at 0 at both ends."""
    return np.exp(-ALPHA * math.pi**2 * t) * np.sin(math.pi * x)


def main(
    compile: bool | str = "auto", num_steps: int = 2_000, picture: str | None = None
) -> tuple[list[float], np.ndarray, np.ndarray]:
    """Gives the losses, and on a grid of 11 times and 51 places what was learned and what is exact, each of shape `(11, 51)`."""
    keras.utils.set_random_seed(0)
    network = keras.Sequential(
        [
            keras.Input((2,)),
            keras.layers.Dense(32, activation="tanh"),
            keras.layers.Dense(32, activation="tanh"),
            keras.layers.Dense(1),
        ]
    )
    optimizer = keras.optimizers.Adam(keras.optimizers.schedules.CosineDecay(0.01, num_steps))
    seed_generator = keras.random.SeedGenerator(1)

    def temperature(t, x):
        # The first term is right at time 0, the factors keep the second one out of there and away from the ends of the rod.
        correction = network(ops.concatenate([t, x], axis=1))
        return ops.sin(math.pi * x) + t * x * (1 - x) * correction

    @ts.step(compile=compile)
    def train_step():
        t = keras.random.uniform((NUM_POINTS, 1), seed=seed_generator)
        x = keras.random.uniform((NUM_POINTS, 1), seed=seed_generator)

        with ts.GradientTape() as tape:
            with ts.GradientTape() as second_order:
                second_order.watch(x)
                with ts.GradientTape() as first_order:
                    first_order.watch([t, x])
                    u = temperature(t, x)
                u_t, u_x = first_order.gradient(u, [t, x])
            u_xx = second_order.gradient(u_x, x)
            loss = ops.mean(ops.square(u_t - ALPHA * u_xx))

        gradients = tape.gradient(loss, network.trainable_weights)
        optimizer.apply_gradients(zip(gradients, network.trainable_weights, strict=True))
        return {"loss": loss}

    losses = [float(train_step()["loss"]) for _ in range(num_steps)]

    t, x = np.meshgrid(np.linspace(0, 1, 11), np.linspace(0, 1, 51), indexing="ij")
    columns = [ops.convert_to_tensor(values.reshape(-1, 1), "float32") for values in (t, x)]
    learned, exact = ops.convert_to_numpy(temperature(*columns)).reshape(t.shape), exact_solution(t, x)
    print(f"the mean square of what is left of the equation fell from {losses[0]:.4f} to {losses[-1]:.1e}")
    print(f"the largest error against the closed form is {np.abs(learned - exact).max():.1e}")
    if picture:
        draw(picture, t, x, learned, exact)
    return losses, learned, exact


def draw(path: str, t: np.ndarray, x: np.ndarray, learned: np.ndarray, exact: np.ndarray) -> None:
    """The temperature along the rod at six times: the closed form as a line, what was learned as dots."""
    from matplotlib.figure import Figure

    axes = (figure := Figure(figsize=(6, 3.5), layout="constrained")).subplots()
    for i in range(0, len(t), 2):
        (line,) = axes.plot(x[i], exact[i], label=f"t = {t[i, 0]:.1f}")
        axes.plot(x[i, ::3], learned[i, ::3], "o", color=line.get_color(), markersize=4)
    axes.set(xlabel="x", ylabel="u", title="Heat equation: closed form (lines), learned (dots)")
    axes.legend()
    figure.savefig(path, dpi=100)


if __name__ == "__main__":
    if sys.argv[1:]:
        import matplotlib.figure  # noqa: F401  # If it is missing, better now than after the training.
    main(picture=sys.argv[1] if sys.argv[1:] else None)
