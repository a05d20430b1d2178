"""Each kind of data gives the batches that it should, on every backend, and a second pass gives them again or says why not."""

from collections.abc import Iterator

import keras
import numpy as np
import pytest

import trainstep as ts
from one_weight import OneWeight, column
from trainstep import data
from trainstep.data._order import InOrder

ROWS = np.arange(5, dtype="float32").reshape(5, 1)


def batches_of(x, y=None, *, batch_size=2, order=InOrder, pass_index=0, first_batch=0):
    source = data.as_source(x, y, batch_size=batch_size, order=order, call="fit")
    batches = list(map(data.read, source.batches(pass_index, first_batch=first_batch)))
    return keras.tree.map_structure(lambda leaf: keras.ops.convert_to_numpy(leaf).tolist(), batches)


class Table:
    """Has what a data frame has."""

    def __init__(self, array) -> None:
        self._array, self.shape = array, array.shape

    def __array__(self, dtype=None, copy=None) -> np.ndarray:
        return np.array(self._array, dtype)


def tf_data():
    import tensorflow as tf

    return tf.data.Dataset.from_tensor_slices((ROWS, ROWS + 10)).batch(2)


def torch_loader():
    import torch

    tensors = torch.from_numpy(ROWS), torch.from_numpy(ROWS + 10)
    return torch.utils.data.DataLoader(torch.utils.data.TensorDataset(*tensors), batch_size=2)


def batch_list():
    return [(ROWS[i : i + 2], ROWS[i : i + 2] + 10) for i in (0, 2, 4)]


SAME_BATCHES = {
    "NumPy arrays": lambda: (ROWS, ROWS + 10),
    "tensors": lambda: (keras.ops.convert_to_tensor(ROWS), keras.ops.convert_to_tensor(ROWS + 10)),
    "lists": lambda: (ROWS.tolist(), (ROWS + 10).tolist()),
    "what NumPy can read": lambda: (Table(ROWS), Table(ROWS + 10)),
    "tf.data": lambda: (tf_data(), None),
    "DataLoader": lambda: (torch_loader(), None),
    "list of batches": lambda: (batch_list(), None),
    "generator": lambda: ((batch for batch in batch_list()), None),
    "function": lambda: (lambda: iter(batch_list()), None),
}
EXPECTED = [([[0], [1]], [[10], [11]]), ([[2], [3]], [[12], [13]]), ([[4]], [[14]])]


@pytest.mark.parametrize("kind", SAME_BATCHES)
def test_every_source_gives_the_same_batches(kind):
    assert batches_of(*SAME_BATCHES[kind]()) == EXPECTED
    assert batches_of(*SAME_BATCHES[kind](), first_batch=2) == EXPECTED[2:]


@pytest.mark.parametrize("kind", [kind for kind in SAME_BATCHES if kind != "generator"])
def test_every_source_but_an_iterator_gives_them_again(kind):
    source = data.as_source(*SAME_BATCHES[kind](), batch_size=2, order=InOrder, call="fit")
    assert source.is_repeatable
    assert [len(list(source.batches(i))) for i in range(2)] == [3, 3]
    assert source.num_batches in (3, None)


@pytest.mark.parametrize("kind", SAME_BATCHES)
def test_fit_trains_on_every_source(kind):
    x, y = SAME_BATCHES[kind]()
    history = OneWeight().trainer().fit(x, y, batch_size=None if y is None else 2, verbose=0).history
    assert history["error"] == [pytest.approx(10.0)]


@pytest.mark.parametrize("kind", ["NumPy arrays", "tensors"])
def test_shuffled_rows_stay_together(kind):
    seed = (3, 4)
    batches = batches_of(*SAME_BATCHES[kind](), order=lambda: data.Shuffled(seed))
    order = [row for x, _ in batches for (row,) in x]
    assert sorted(order) == [0, 1, 2, 3, 4]
    assert order == data.Shuffled(seed).rows(0, 5).tolist()
    assert [row for _, y in batches for (row,) in y] == [row + 10 for row in order]


def test_rows_of_tensors_stay_tensors():
    source = data.as_source(keras.ops.convert_to_tensor(ROWS), batch_size=2, order=lambda: data.Shuffled((1, 2)), call="fit")
    assert all(keras.ops.is_tensor(x) for (x,) in map(data.read, source.batches(0)))


def test_neighbouring_rows_are_not_copied():
    (x,) = data.read(next(data.as_source(ROWS, batch_size=2, order=InOrder, call="fit").batches(0)))
    assert np.shares_memory(x, ROWS)


def test_a_list_of_arrays_is_a_nest_and_a_list_of_dicts_is_batches():
    assert batches_of([ROWS[:1], ROWS[1:2]]) == [([[[0]], [[1]]],)]
    assert batches_of([{"a": ROWS[:1]}, {"a": ROWS[1:2]}]) == [{"a": [[0]]}, {"a": [[1]]}]
    assert batches_of([(1, 2), (3, 4)]) == [([[1, 2], [3, 4]],)]


def test_a_text_dataset_is_refused():
    import tensorflow as tf

    with pytest.raises(ts.DataError, match="dense numeric tensors"):
        batches_of(tf.data.Dataset.from_tensor_slices(["a", "b"]).batch(1))
    ragged = tf.data.Dataset.from_tensor_slices(tf.ragged.constant([[1], [1, 2]])).batch(1)
    with pytest.raises(ts.DataError, match="pad ragged tensors"):
        batches_of(ragged)


def test_a_loader_without_a_length():
    import torch

    class Stream(torch.utils.data.IterableDataset):
        def __iter__(self) -> Iterator:
            return iter((column(i)[0], column(0)[0]) for i in range(4))

    def loader():
        return torch.utils.data.DataLoader(Stream(), batch_size=3)

    history = OneWeight().trainer().fit(loader(), epochs=2, validation_data=loader(), verbose=0).history
    assert history["error"] == history["val_error"] == [1.5, 1.5]


def test_what_is_not_read_yet_is_said():
    class Sequence(keras.utils.PyDataset):
        def __len__(self) -> int:
            return 1

    with pytest.raises(ts.DataError, match="cannot read a Sequence"):
        batches_of(Sequence())
