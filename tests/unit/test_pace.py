"""A way to run many steps that cannot be had costs a training nothing."""

import time

import numpy as np
import pytest

from trainstep._pace import Pace
from trainstep.backends import AbstractLoop, AbstractProgram
from trainstep.data._columns import as_columns
from trainstep.data._rows import Table

NUM_BLOCKS = 60


class NoLoop(AbstractLoop):
    kind = "a loop that cannot be compiled"
    relative_cost = 0.0
    multiple_of = 1

    def prepare(self, columns, batch_size, max_steps):
        assert max_steps > 1
        raise ValueError("unknown operation\nand a long listing")

    def __call__(self, columns, rows):
        raise AssertionError("It was not made ready.")


class OneByOne(AbstractProgram):
    """Counts its steps, and takes a moment for each."""

    kind = "a program"
    variables = ()
    capture_seconds = 0.0
    num_steps = 0

    def __call__(self, batch):
        time.sleep(1e-4)
        self.num_steps += 1
        return []

    def loops(self):
        return [NoLoop(), NoLoop()]

    def stateless(self, state, batch):
        raise NotImplementedError


@pytest.fixture
def tables():
    """A new one each time, of which nobody keeps the one before."""
    return lambda: Table((as_columns(np.ones((4, 1), "float32"), call="fit", name="x"),))


def run(tables, *, max_steps_at_once=2):
    program = OneByOne()
    pace = Pace(program)
    num_steps = 0
    for _ in range(NUM_BLOCKS):
        block = [range(2)] * min(pace.num_steps_at_once, max_steps_at_once)
        pace.run(tables(), block, num_left=10**6)
        num_steps += len(block)
        time.sleep(1e-3)  # The other thread has its turn.
    assert program.num_steps == num_steps
    return pace.report()


def test_a_loop_that_cannot_be_compiled(tables):
    failure = "no a loop that cannot be compiled: ValueError: unknown operation"
    assert run(tables) == f"one step at a time; {failure}; {failure}"


def test_data_that_do_not_fit_on_the_device(tables, monkeypatch):
    def on_device(table):
        raise MemoryError("no room")

    monkeypatch.setattr(Table, "on_device", on_device)
    assert run(tables) == "one step at a time; the data stay on the host: MemoryError: no room"


def test_batches_that_come_alone_are_run_alone_and_nothing_is_compiled_for_them(tables):
    """As in a training on the full batch."""
    assert run(tables, max_steps_at_once=1) == "one step at a time"


def test_nothing_is_measured_before_the_program_has_settled(tables):
    """On PyTorch Inductor may still be at work, and what is measured now would not hold."""
    program = OneByOne()
    program.is_settled = False
    pace = Pace(program)
    for _ in range(30):
        assert pace.num_steps_at_once == 1
        pace.run(tables(), [range(2)], num_left=10**6)
    assert pace.report() == "one step at a time, so far"
    program.is_settled = True
    for _ in range(10):
        pace.run(tables(), [range(2)], num_left=10**6)
    assert pace.num_steps_at_once > 1
