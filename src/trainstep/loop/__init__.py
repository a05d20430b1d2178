"""The loops around a step, and what they tell callbacks and the user."""

from ._arguments import check_fit as check_fit
from ._arguments import fraction as fraction
from ._arguments import frequency as frequency
from ._arguments import not_negative as not_negative
from ._arguments import num_inputs as num_inputs
from ._arguments import positive as positive
from ._arguments import positive_or_none as positive_or_none
from ._evaluate import Evaluation as Evaluation
from ._evaluate import evaluate as evaluate
from ._evaluate import metrics_kept as metrics_kept
from ._events import Events as Events
from ._fit import fit as fit
from ._predict import predict as predict
from ._progress import NO_PROGRESS as NO_PROGRESS
from ._progress import AbstractProgress as AbstractProgress
from ._progress import Verbose as Verbose
from ._progress import progress_for as progress_for
from ._stand_in import StandInModel as StandInModel
from ._stand_in import check_callbacks as check_callbacks
from ._stand_in import lent_optimizer as lent_optimizer
from ._validation import AbstractValidation as AbstractValidation
from ._validation import NoValidation as NoValidation
from ._validation import Validation as Validation
