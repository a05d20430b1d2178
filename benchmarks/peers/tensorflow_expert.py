"""The expert's loop: all steps of an epoch in one graph, over arrays that stay on the device; with XLA and without."""

import functools

import tensorflow as tf

from benchmarks.workloads import AbstractWorkload

from ._abstract import Peer, Run
from ._batches import Orders
from ._tensorflow_step import slope, step_of


def prepare(workload: AbstractWorkload, *, shuffle: bool = True, xla: bool = False) -> Run:
    """With `xla`, the step is one XLA program inside the loop."""
    training = workload.training(slope)
    step = tf.function(step_of(training), jit_compile=True) if xla else step_of(training)
    data = [tf.constant(part) for part in workload.data()]
    orders = Orders(workload, shuffle=shuffle)

    @tf.function
    def steps(order):
        for rows in order:
            step(*[tf.gather(part, rows) for part in data])

    def epoch() -> float:
        for metric in training.metrics:
            metric.reset_state()
        steps(tf.constant(orders.next()))
        loss, *_ = [float(metric.result()) for metric in training.metrics]
        return loss

    return lambda num_epochs: [epoch() for _ in range(num_epochs)]


PEER = Peer("expert's loop", {"in the graph": prepare, "in the graph, XLA": functools.partial(prepare, xla=True)})
