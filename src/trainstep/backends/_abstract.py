"""What trainstep asks of a backend. Each docstring is a promise, which `tests/contract` and `tests/unit` hold every backend to."""

import contextlib
import pathlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

import keras
import numpy as np

Tensor = Any
"""A tensor of the active backend: a `jax.Array`, a `tf.Tensor` or a `torch.Tensor`."""

Source = Any
"""A `keras.Variable` or a `Tensor`."""


class AbstractRecorder(ABC):
    """Records the operations inside one tape's block, and answers for their gradients.

    Recorders nest: while an inner one records, the outer one records too, and it also records what the inner
    one's `gradient` computes.
    """

    @abstractmethod
    def resume(self) -> None:
        """Records from here on. Called on entering the block, and after a pause."""

    @abstractmethod
    def pause(self) -> None:
        """Stops recording. What was recorded stays. Other recorders are not disturbed, in whatever order they pause."""

    @abstractmethod
    def watch(self, source: Source) -> None:
        """Follows a floating-point tensor, or a variable, through every operation recorded from here on.

        A variable is announced each time it is read inside the block, before the read; so this must be cheap.
        """

    @abstractmethod
    def tracks(self, tensor: Source) -> bool:
        """Whether this is a watched source, or was computed from one inside the block by differentiable operations."""

    @abstractmethod
    def gradient(
        self,
        targets: Sequence[Source],
        sources: Sequence[Source],
        output_gradients: Sequence[Tensor | None],
        *,
        is_last_question: bool,
    ) -> list[Tensor | None]:
        """The sum over targets of `output_gradients . d target / d source` (`None`: ones), a dense tensor for each source.

        `None` for a source that no target depends on through recorded operations, or that is not tracked. Shape and dtype
        are the source's. Targets that are not tracked add nothing. Sources may be listed in any order, twice, and among
        the intermediate values. May be called while recording. After `is_last_question` memory may be freed.
        """

    @abstractmethod
    def jacobian(self, target: Tensor, sources: Sequence[Source]) -> list[Tensor | None]:
        """`d target / d source` for each source, of shape `target.shape + source.shape`; the recorder stays usable."""

    @abstractmethod
    def batch_jacobian(self, target: Tensor, source: Source) -> Tensor | None:
        """`d target[b] / d source[b]`, of shape `(batch, *target.shape[1:], *source.shape[1:])`."""


class AbstractLoop(ABC):
    """A program that runs many steps of another one: the batch of each is gathered from columns that lie on the device."""

    kind: str
    """What runs, in words for `step.report()`."""

    relative_cost: float
    """How long making it ready takes, by estimate, in units of what it took for the program itself."""

    multiple_of: int
    """Every call runs a multiple of so many steps."""

    @abstractmethod
    def prepare(self, columns: Sequence[Tensor], batch_size: int, max_steps: int) -> None:
        """Compiles it for these columns and at most `max_steps` steps a call. Changes no variable; may run in another thread."""

    @abstractmethod
    def __call__(self, columns: Sequence[Tensor], rows: np.ndarray) -> list[Tensor]:
        """Runs one step for each of `rows`, int32 of shape `(steps, batch size)`, and returns the outputs of the last one.

        The variables then hold what they would hold after so many calls of the program, up to rounding. Does not wait.
        """


class AbstractProgram(ABC):
    """One step, captured for one signature (structure, shapes and dtypes of its batch) and ready to run."""

    kind: str
    """What runs, in words for `step.report()`: "XLA program (jax.jit, donated state)"."""

    variables: list[keras.Variable]
    """Every Keras variable that the step reads or assigns, in the order of first use."""

    capture_seconds: float
    """How long capturing took, in seconds."""

    is_settled: bool = True
    """Whether the way it runs will not change any more: what is measured now will hold."""

    @abstractmethod
    def __call__(self, batch: Sequence[Tensor]) -> list[Tensor]:
        """Runs one step: reads the variables as they are now, leaves the new values in them, returns the outputs.

        Does not wait for the device.
        """

    def fix(self) -> None:  # noqa: B027  # most have one way only
        """From its first run on it runs in one way only, which no measurement decides."""

    @abstractmethod
    def loops(self) -> Sequence[AbstractLoop]:
        """Ways to run many steps at once that may be faster than one at a time, the most promising first."""

    @abstractmethod
    def stateless(self, state: Sequence[Tensor], batch: Sequence[Tensor]) -> tuple[list[Tensor], list[Tensor]]:
        """`(outputs, new state)` from given values of `variables`; the variables themselves stay as they are.

        On JAX a pure function that may be transformed by `jax.jit`, `jax.vmap` and the like.
        """


class AbstractBackend(ABC):
    """A framework that runs training steps. There is one final class for each, in a room of its own."""

    name: str

    @abstractmethod
    def new_recorder(self) -> AbstractRecorder:
        """A recorder for one tape."""

    @abstractmethod
    def capture(
        self, function: Callable[[Sequence[Tensor]], list[Tensor]], batch: Sequence[Tensor], *, name: str
    ) -> AbstractProgram:
        """Captures `function(batch) -> outputs` as one program, by running its Python code exactly once.

        Afterwards every variable that existed before has its old value (bit for bit), also when capturing fails; variables
        that the function creates (a model or an optimizer being built) exist and hold their initial values.
        Raises `CaptureError` where the function needs the value of a tensor while it is captured.
        """

    @abstractmethod
    def run_eagerly(self, function: Callable[[Sequence[Tensor]], list[Tensor]], batch: Sequence[Tensor]) -> list[Tensor]:
        """Runs the function once, operation by operation, drawing the same random numbers as a captured program."""

    @abstractmethod
    def is_tensor(self, value: Any) -> bool:
        """Whether this is a tensor of this backend, concrete or being captured."""

    @abstractmethod
    def as_input(self, array: np.ndarray | Tensor) -> Tensor:
        """An input for `capture`, for programs and for `run_eagerly`, which later changes of the array do not reach.

        Of the array's dtype (float64 becomes Keras' `floatx`); on the device, or where the program fetches it fastest.
        """

    @abstractmethod
    def as_column(self, array: np.ndarray | Tensor) -> Tensor:
        """A tensor on the device, of the dtype that `as_input` gives: a copy of an array; a tensor as it is."""

    @abstractmethod
    def assigner(self, variables: Sequence[keras.Variable], values: Sequence[np.ndarray]) -> Callable[[], None]:
        """A function that assigns these values to the variables, as often as it is called, in as few dispatches as possible."""

    def training(self, *, flush_denormals: bool) -> contextlib.AbstractContextManager[None]:
        """What is set for the process while it trains, and put back after it."""
        return contextlib.nullcontext()

    @abstractmethod
    def to_numpy(self, tensor: Tensor) -> np.ndarray:
        """The tensor's values on the host; waits for the device."""

    @abstractmethod
    def synchronize(self) -> None:
        """Waits until the device has done all that was asked of it."""

    @abstractmethod
    def keep_programs(self, folder: pathlib.Path | None) -> None:
        """Keeps compiled programs in this folder, or where the framework does by default, if anywhere."""

    @abstractmethod
    def devices(self) -> list[str]:
        """The devices, in words: `["cpu (2 threads)"]`."""

    @abstractmethod
    def compiler(self) -> str:
        """What compiles captured steps, in words; what is missing, if something is."""
