"""Running a step on the batches of an epoch: several at once where nobody needs to hear of each."""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from .. import data
from .._step import Step
from ..backends import Tensor


class Progressed(NamedTuple):
    """What has run: how many steps, and the logs after the last of them, still on the device."""

    num_steps: int
    logs: Mapping[str, Tensor]


def run_steps(step: Step, feed: data.AbstractFeed, epoch: int, *, num_epochs_left: int = 1) -> Iterator[Progressed]:
    """Runs the step on every batch of the feed's epoch, and tells after each dispatch what has run.

    `num_epochs_left` counts this epoch too; with it the step knows whether it is worth while to compile a faster way.
    """
    num_done = 0
    for batch in data.in_blocks(feed.epoch(epoch), step.num_steps_at_once):
        if isinstance(batch, data.Block):
            num_left = None if feed.num_steps is None else num_epochs_left * feed.num_steps - num_done
            yield Progressed(len(batch), step.run_block(batch.table, batch.indices, num_left=num_left))
            num_done += len(batch)
        else:
            yield Progressed(1, step.run(batch))
            num_done += 1
