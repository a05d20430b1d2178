"""What a user sees of a running loop: a bar in a terminal or notebook, a line for each epoch in a log file, or nothing."""

import sys
import time
import warnings
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, Literal, final

import numpy as np

from .._errors import TrainStepError
from ..backends import Tensor
from ._reading import as_numbers

with warnings.catch_warnings():
    # In a notebook without ipywidgets it warns, and falls back to text; both are fine.
    warnings.simplefilter("ignore")
    from tqdm.auto import tqdm

IS_NOTEBOOK = any(cls.__module__ == "tqdm.notebook" for cls in tqdm.__mro__)

Verbose = Literal["auto", 0, 1, 2]

SECONDS_BETWEEN_REFRESHES = 0.2
"""A few times a second, as an eye can follow."""


class AbstractProgress(ABC):
    """Is told how a loop goes on. It must cost the loop next to nothing, and never make the device wait."""

    @abstractmethod
    def epoch_begin(self, epoch: int, num_steps: int | None) -> None:
        """An epoch, counted from 0, of so many steps (`None`: unknown) starts."""

    @abstractmethod
    def steps_done(self, num_steps: int, logs: Mapping[str, Tensor]) -> None:
        """So many more steps have been handed to the device; the logs of the last one are still there."""

    @abstractmethod
    def steps_ended(self, logs: Mapping[str, Any]) -> None:
        """The steps of the epoch have all been computed; a validation may follow."""

    @abstractmethod
    def epoch_end(self, logs: Mapping[str, Any]) -> None:
        """The epoch has ended with these values."""

    @abstractmethod
    def close(self) -> None:
        """The loop has ended, perhaps by an exception. May be called twice."""


def progress_for(verbose: Verbose, *, title: str) -> AbstractProgress:
    """The progress for Keras' `verbose`: 0 none, 1 a bar, 2 lines; "auto" a bar where somebody can watch it move.

    Args:
        verbose: As in Keras.
        title: Of an epoch, where `{epoch}` is its number: "Epoch {epoch}/3".
    """
    if verbose not in ("auto", 0, 1, 2):
        raise TrainStepError(f'`verbose` is "auto", 0 (nothing), 1 (a bar) or 2 (a line for each epoch). Got {verbose!r}.')
    if verbose == "auto":
        verbose = 1 if sys.stdout.isatty() or IS_NOTEBOOK else 2
    kinds: dict[int, type[NoProgress | BarProgress | LineProgress]] = {0: NoProgress, 1: BarProgress, 2: LineProgress}
    return kinds[verbose](title)


@final
class NoProgress(AbstractProgress):
    """Shows nothing."""

    def __init__(self, title: str = ""):
        """Takes a title, as the others do."""

    def epoch_begin(self, epoch: int, num_steps: int | None) -> None: ...

    def steps_done(self, num_steps: int, logs: Mapping[str, Tensor]) -> None: ...

    def steps_ended(self, logs: Mapping[str, Any]) -> None: ...

    def epoch_end(self, logs: Mapping[str, Any]) -> None: ...

    def close(self) -> None: ...


NO_PROGRESS = NoProgress()


@final
class LineProgress(AbstractProgress):
    """Prints one line when an epoch has ended."""

    def __init__(self, title: str):
        self._title = title

    def epoch_begin(self, epoch: int, num_steps: int | None) -> None:
        self._heading = self._title.format(epoch=epoch + 1)
        self._num_steps_completed = 0
        self._start = time.perf_counter()
        self._milliseconds_per_step = 0.0

    def steps_done(self, num_steps: int, logs: Mapping[str, Tensor]) -> None:
        self._num_steps_completed += num_steps

    def steps_ended(self, logs: Mapping[str, Any]) -> None:
        self._milliseconds_per_step = 1e3 * (time.perf_counter() - self._start) / max(self._num_steps_completed, 1)

    def epoch_end(self, logs: Mapping[str, Any]) -> None:
        seconds = time.perf_counter() - self._start
        parts = [self._heading, f"{seconds:.1f}s", f"{self._milliseconds_per_step:.3g} ms/step", *_values(logs)]
        print(" - ".join(parts), flush=True)

    def close(self) -> None: ...


_BAR = "{bar}" if IS_NOTEBOOK else "{bar:12}"  # A notebook puts a widget in the place of a plain `{bar}` only.


class _Bar(tqdm):  # type: ignore[misc,valid-type]  # the class differs between terminal and notebook
    """A bar that is drawn when it is told to, and starts no thread to watch over itself."""

    monitor_interval = 0


@final
class BarProgress(AbstractProgress):
    """A bar for each epoch: steps, time spent and left, rate, values. It stays when the epoch ends, with the final values.

    It is redrawn a few times a second, with the values of the step that was the latest at the drawing before: they are
    computed by now, and the steps after it keep the device busy while they are read.
    """

    def __init__(self, title: str):
        self._title = title
        self._open_bars: list[_Bar] = []

    def epoch_begin(self, epoch: int, num_steps: int | None) -> None:
        self.close()
        self._bar = _Bar(
            total=num_steps,
            desc=self._title.format(epoch=epoch + 1),
            unit=" steps",
            file=sys.stdout,
            dynamic_ncols=True,
            mininterval=0,
            miniters=1,
            bar_format=f"{{desc}} {{n_fmt}}/{{total_fmt}} |{_BAR}| {{elapsed}}<{{remaining}}, {{rate_noinv_fmt}}{{postfix}}",
        )
        self._open_bars.append(self._bar)
        self._num_steps_completed = 0
        self._shown_next: Mapping[str, Tensor] = {}
        self._next_refresh = time.perf_counter() + SECONDS_BETWEEN_REFRESHES

    def steps_done(self, num_steps: int, logs: Mapping[str, Tensor]) -> None:
        self._num_steps_completed += num_steps
        now = time.perf_counter()
        if now >= self._next_refresh:
            self._next_refresh = now + SECONDS_BETWEEN_REFRESHES
            self._draw(as_numbers(self._shown_next))
            self._shown_next = logs

    def steps_ended(self, logs: Mapping[str, Any]) -> None:
        self._draw(logs)

    def epoch_end(self, logs: Mapping[str, Any]) -> None:
        self._bar.set_postfix_str(" - ".join(_values(logs)), refresh=False)
        self.close()

    def close(self) -> None:
        while self._open_bars:
            self._open_bars.pop().close()

    def _draw(self, logs: Mapping[str, Any]) -> None:
        self._bar.set_postfix_str(" - ".join(_values(logs)), refresh=False)
        self._bar.update(self._num_steps_completed - self._bar.n)


def _values(logs: Mapping[str, Any]) -> list[str]:
    return [f"{name}: {_format(value)}" for name, value in logs.items()]


def _format(value: Any) -> str:
    if isinstance(value, np.ndarray):
        return np.array2string(value, precision=4, threshold=6)
    return f"{value:.4f}" if value == 0 or not abs(value) < 1e-3 else f"{value:.4e}"
