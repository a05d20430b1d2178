"""The plain loop: one call of a `tf.function` for each step."""

import tensorflow as tf

from benchmarks.workloads import AbstractWorkload

from ._abstract import Peer, Run
from ._batches import Orders
from ._tensorflow_step import slope, step_of


def prepare(workload: AbstractWorkload, *, shuffle: bool = True) -> Run:
    """Batches are gathered on the host."""
    training = workload.training(slope)
    step = tf.function(step_of(training))
    data = workload.data()
    orders = Orders(workload, shuffle=shuffle)

    def epoch() -> float:
        for metric in training.metrics:
            metric.reset_state()
        for rows in orders.next():
            step(*(tf.constant(part[rows]) for part in data))
        loss, *_ = [float(metric.result()) for metric in training.metrics]
        return loss

    return lambda num_epochs: [epoch() for _ in range(num_epochs)]


PEER = Peer("plain loop", {"": prepare})
