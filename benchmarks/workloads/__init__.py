"""What is trained: one file for each workload."""

from ._abstract import AbstractWorkload as AbstractWorkload
from ._abstract import Training as Training
from ._abstract import Update as Update
from .convnet import Convnet
from .dense import Dense as Dense
from .dense_dropout import DenseDropout
from .gan import Gan
from .linear import Linear
from .lstm import Recurrent
from .many_variables import ManyVariables
from .transformer import Transformer
from .wgan_gp import WganGp

WORKLOADS: tuple[AbstractWorkload, ...] = (
    Linear(),
    Dense(),
    DenseDropout(),
    Convnet(),
    Transformer(),
    Recurrent(),
    Gan(),
    WganGp(),
)
"""In the order of the table."""

ALL_WORKLOADS = (*WORKLOADS, ManyVariables())
"""With those that are not in the table."""
