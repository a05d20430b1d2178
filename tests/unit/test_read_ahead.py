"""A thread that draws the next batches: the same ones, a few of them at a time, and gone when it is not needed any more."""

import gc
import itertools
import threading
import time

import pytest

from trainstep.data._read_ahead import NUM_BATCHES_AHEAD, read_ahead

NAME = "trainstep reads ahead"


def wait_until(condition):
    started = time.perf_counter()
    while not condition():
        time.sleep(0.001)
        assert time.perf_counter() - started < 10.0


def threads():
    return [thread for thread in threading.enumerate() if thread.name == NAME]


def test_the_same_batches_in_the_same_order():
    assert list(read_ahead(iter(range(100)))) == list(range(100))
    wait_until(lambda: not threads())


def test_no_more_than_a_few_batches_wait():
    drawn = []
    source = (drawn.append(i) or i for i in itertools.count())
    batches = read_ahead(source)
    for i in range(5):
        assert next(batches) == i
    wait_until(lambda: len(drawn) == 5 + NUM_BATCHES_AHEAD)
    time.sleep(0.05)
    assert len(drawn) == 5 + NUM_BATCHES_AHEAD
    batches.close()
    wait_until(lambda: not threads())


def test_an_error_comes_after_the_batches_before_it():
    def failing():
        yield 1
        raise OSError("the disk is full")

    batches = read_ahead(failing())
    assert next(batches) == 1
    with pytest.raises(OSError, match="the disk is full"):
        next(batches)
    wait_until(lambda: not threads())


def test_a_pass_that_is_left_ends_its_thread():
    batches = read_ahead(itertools.count())
    assert next(batches) == 0
    del batches
    gc.collect()
    wait_until(lambda: not threads())
