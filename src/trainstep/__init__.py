"""Training steps written once, compiled whole on JAX, PyTorch and TensorFlow."""

from ._errors import BackendError as BackendError
from ._errors import CaptureError as CaptureError
from ._errors import DataError as DataError
from ._errors import StepError as StepError
from ._errors import TapeError as TapeError
from ._errors import TrainStepError as TrainStepError
from ._errors import TrainStepWarning as TrainStepWarning
from ._kept_programs import keep_programs as keep_programs
from ._step import Step as Step
from ._step import step as step
from ._tape import GradientTape as GradientTape
from ._tape import grad as grad
from ._tape import value_and_grad as value_and_grad
from ._trainer import Trainer as Trainer

__version__ = "0.1.0"
