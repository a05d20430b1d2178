"""A linear classifier of points in the plane: found by gradients, and by its closed-form solution."""

import keras
import numpy as np

import trainstep as ts

LEARNING_RATE = 0.1


def make_points(num_per_class: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Two clouds of points, of shape `(2 * num_per_class, 2)`, and their targets 0 and 1, of shape `(2 * num_per_class, 1)`."""
    random = np.random.default_rng(seed)
    covariance = [[1.0, 0.5], [0.5, 1.0]]
    negative = random.multivariate_normal([0.0, 3.0], covariance, size=num_per_class)
    positive = random.multivariate_normal([3.0, 0.0], covariance, size=num_per_class)
    points = np.concatenate([negative, positive]).astype("float32")
    targets = np.repeat([[0.0], [1.0]], num_per_class, axis=0).astype("float32")
    return points, targets


def fit_by_gradients(points: np.ndarray, targets: np.ndarray, num_steps: int, compile: bool | str) -> tuple[np.ndarray, np.ndarray]:
    """Follows the gradient of the mean squared error, over all points at every step; the weights `W` and the bias `b`."""
    W = keras.Variable(np.zeros((2, 1)), dtype="float32", name="W")
    b = keras.Variable(np.zeros(1), dtype="float32", name="b")

    @ts.step(compile=compile)
    def train_step(points, targets):
        with ts.GradientTape() as tape:
            predictions = keras.ops.matmul(points, W) + b
            loss = keras.ops.mean(keras.ops.square(targets - predictions))
        gradient_W, gradient_b = tape.gradient(loss, [W, b])
        W.assign_sub(LEARNING_RATE * gradient_W)
        b.assign_sub(LEARNING_RATE * gradient_b)
        return {"loss": loss}

    for step in range(num_steps):
        loss = train_step(points, targets)["loss"]
        if step % 100 == 0:
            print(f"Loss at step {step}: {float(loss):.4f}")
    return keras.ops.convert_to_numpy(W), keras.ops.convert_to_numpy(b)


def solve(points: np.ndarray, targets: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The same minimum by linear least squares: a column of ones stands for the bias."""
    columns = np.concatenate([points, np.ones((len(points), 1))], axis=1)
    solution = np.linalg.lstsq(columns, targets, rcond=None)[0]
    return solution[:2], solution[2]


def main(compile: bool | str = "auto", num_steps: int = 500) -> tuple[np.ndarray, np.ndarray]:
    """Finds the line both ways; gives the three coefficients of each."""
    points, targets = make_points(num_per_class=1_000, seed=0)
    W, b = fit_by_gradients(points, targets, num_steps, compile)
    exact_W, exact_b = solve(points, targets)
    accuracy = np.mean((points @ W + b > 0.5) == (targets > 0.5))
    print(f"by gradients:  W = {W.ravel().round(4)}, b = {b.round(4)}, accuracy {accuracy:.4f}")
    print(f"least squares: W = {exact_W.ravel().round(4)}, b = {exact_b.round(4)}")
    return np.append(W, b), np.append(exact_W, exact_b)


if __name__ == "__main__":
    main()
