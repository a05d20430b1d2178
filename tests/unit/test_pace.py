"""A way to run many steps that cannot be had costs a training nothing."""

import time

import numpy as np
import pytest

from trainstep._pace import Pace
from trainstep.backends import AbstractLoop, AbstractProgram
from trainstep.data._columns import as_columns
from trainstep.data._rows import Table

NUM_STEPS = 60


class NoLoop(AbstractLoop):
    kind = "a loop that cannot be compiled"
    relative_cost = 0.0
    multiple_of = 1

    def prepare(self, columns, batch_size, max_steps):
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


def run(tables):
    program = OneByOne()
    pace = Pace(program)
    for _ in range(NUM_STEPS):
        pace.run(tables(), [range(2)], num_left=10**6)
        time.sleep(1e-3)  # The other thread has its turn.
    assert program.num_steps == NUM_STEPS
    return pace.report()


def test_a_loop_that_cannot_be_compiled(tables):
    failure = "no a loop that cannot be compiled: ValueError: unknown operation"
    assert run(tables) == f"one step at a time; {failure}; {failure}"


def test_data_that_do_not_fit_on_the_device(tables, monkeypatch):
    def on_device(table):
        raise MemoryError("no room")

    monkeypatch.setattr(Table, "on_device", on_device)
    assert run(tables) == "one step at a time; the data stay on the host: MemoryError: no room"
