"""What all pages share: how weights, data and noise are made, and what is compared after each step."""

import dataclasses
import pathlib
from collections.abc import Callable, Iterator
from typing import Any

import keras
import numpy as np

HERE = pathlib.Path(__file__).parent
PAGES = sorted(path.stem for path in (HERE / "pages").glob("[a-z]*.py"))

Logs = dict[str, Any]
"""What one step reports: names and scalars."""

Steps = Iterator[Logs]
"""Runs a page step by step; everything that is tracked holds its new values when the logs come out."""


@dataclasses.dataclass
class Page:
    """The models, optimizers, metrics and data of a page, freshly made.

    Attributes:
        tracked: All that has state, by name, in an order that does not change: models, layers, optimizers, metrics and variables.
        data: NumPy arrays, by name.
        native: Whether the step draws its random numbers itself and dropout is on.
    """

    tracked: dict[str, Any]
    data: dict[str, np.ndarray] = dataclasses.field(default_factory=dict)
    native: bool = False

    def __getattr__(self, name: str) -> Any:
        """`page.critic` is `page.tracked["critic"]`; `page.x` is `page.data["x"]`."""
        for values in (self.__dict__.get("tracked", {}), self.__dict__.get("data", {})):
            if name in values:
                return values[name]
        raise AttributeError(name)

    def rate(self, dropout: float) -> float:
        """The page's dropout rate in native mode; 0 in numeric mode."""
        return dropout if self.native else 0.0


def overwrite_weights(*models: Any, scales: dict[int, float] | None = None) -> None:
    """Gives every trainable weight of rank 2 and more its value by the convention, counting over all models.

    Args:
        models: Built models or layers, in the page's order.
        scales: A factor for the k-th overwritten weight, where the page says so.
    """
    k = 0
    for model in models:
        for weight in model.weights:
            if not weight.trainable or len(weight.shape) < 2:
                continue
            shape = tuple(weight.shape)
            value = np.random.default_rng(7000 + k).normal(0, 1 / np.sqrt(np.prod(shape[:-1])), shape)
            weight.assign((value * (scales or {}).get(k, 1.0)).astype("float32"))
            k += 1


def normal(t: int, k: int, shape: tuple[int, ...]) -> np.ndarray:
    """`N(k, shape)` of step `t`, float32."""
    return np.random.default_rng(9000 + 100 * t + k).normal(size=shape).astype("float32")


def uniform(t: int, k: int, shape: tuple[int, ...]) -> np.ndarray:
    """`U(k, shape)` of step `t`, float32."""
    return np.random.default_rng(9000 + 100 * t + k).random(shape).astype("float32")


def integers(t: int, k: int, shape: tuple[int, ...], high: int) -> np.ndarray:
    """`I(k, shape, high)` of step `t`, int32."""
    return np.random.default_rng(9000 + 100 * t + k).integers(0, high, shape).astype("int32")


def permutation(t: int, k: int, n: int) -> np.ndarray:
    """`P(k, n)` of step `t`, int32."""
    return np.random.default_rng(9000 + 100 * t + k).permutation(n).astype("int32")


def batch(t: int, batch_size: int, *arrays: np.ndarray) -> tuple[np.ndarray, ...]:
    """Batch `t mod n_batches` of each array."""
    start = t % (len(arrays[0]) // batch_size) * batch_size
    return tuple(a[start : start + batch_size] for a in arrays)


def record(page: Page, steps: Callable[..., Steps], num_steps: int, **options: Any) -> dict[str, np.ndarray]:
    """Runs a page; its logs and all of its tracked state after each step: `{"3/logs/loss": ..., "3/critic/0": ...}`."""
    numbers: dict[str, np.ndarray] = {}
    run = steps(page, **options)
    for t in range(num_steps):
        logs = next(run)
        numbers |= {f"{t}/logs/{name}": _as_numpy(value) for name, value in logs.items()}
        numbers |= {f"{t}/{name}": value for name, value in state(page).items()}
    return numbers


def state(page: Page) -> dict[str, np.ndarray]:
    """All tracked state but the states of seed generators: `{"critic/0": ...}`."""
    return {
        f"{name}/{i}": _as_numpy(variable.value)
        for name, owner in page.tracked.items()
        for i, variable in enumerate(_variables(owner))
        if "seed" not in variable.path
    }


def _variables(owner: Any) -> list[keras.Variable]:
    if isinstance(owner, keras.Variable):
        return [owner]
    return list(owner.variables)


def _as_numpy(value: Any) -> np.ndarray:
    return np.array(keras.ops.convert_to_numpy(value) if not isinstance(value, (int, float)) else value)
