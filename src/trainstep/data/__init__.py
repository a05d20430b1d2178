"""Where batches come from: one file for each kind of source, and the feeds that hand them to a loop."""

from ._abstract import AbstractSource as AbstractSource
from ._abstract import Batch as Batch
from ._arrays import ArraySource as ArraySource
from ._feed import AbstractFeed as AbstractFeed
from ._feed import FreshPasses as FreshPasses
from ._feed import GoingOn as GoingOn
from ._feeds import Given as Given
from ._feeds import as_given as as_given
from ._feeds import evaluation_feed as evaluation_feed
from ._feeds import prediction_feed as prediction_feed
from ._feeds import split_off_validation as split_off_validation
from ._feeds import training_feed as training_feed
from ._order import Shuffled as Shuffled
from ._order import draw_seed as draw_seed
from ._resolve import as_source as as_source
from ._rows import Block as Block
from ._rows import in_blocks as in_blocks
from ._rows import read as read
