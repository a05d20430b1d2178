"""Reading the next batches while the step is busy with this one."""

import queue
import threading
from collections.abc import Generator, Iterator
from typing import Any

from ._abstract import Batch

NUM_BATCHES_AHEAD = 2
"""At most so many batches wait in memory."""

_END = object()


def read_ahead(batches: Iterator[Batch]) -> Generator[Batch, None, None]:
    """The same batches in the same order, drawn by a thread of its own. What the iterator raises is raised in its place."""
    room = threading.Semaphore(NUM_BATCHES_AHEAD - 1)
    ready: queue.SimpleQueue[tuple[Any, BaseException | None]] = queue.SimpleQueue()
    is_over = threading.Event()

    def draw() -> None:
        try:
            for batch in batches:
                ready.put((batch, None))
                del batch
                room.acquire()
                if is_over.is_set():
                    return
            ready.put((_END, None))
        except BaseException as error:  # raised again where the batch is taken
            ready.put((_END, error))

    threading.Thread(target=draw, name="trainstep reads ahead", daemon=True).start()
    try:
        while True:
            batch, error = ready.get()
            if error is not None:
                raise error
            if batch is _END:
                return
            room.release()
            yield batch
            del batch
    finally:
        is_over.set()
        room.release()
