"""The plain loop: one call of a jitted function for each step, the state donated."""

import jax
import jax.numpy as jnp

from benchmarks.workloads import AbstractWorkload

from ._abstract import Peer, Run
from ._batches import Orders
from ._jax_step import StatelessStep, slope


def prepare(workload: AbstractWorkload, *, shuffle: bool = True) -> Run:
    """Batches are gathered on the host."""
    stateless = StatelessStep(workload.training(slope))
    step = jax.jit(stateless.step, donate_argnums=(0, 1))
    report = jax.jit(stateless.loss)
    state = [jnp.array(v.value) for v in stateless.variables]
    data = workload.data()
    orders = Orders(workload, shuffle=shuffle)

    def epoch() -> float:
        nonlocal state
        metric_state = [jnp.zeros(v.shape, v.dtype) for v in stateless.metric_variables]
        for rows in orders.next():
            state, metric_state = step(state, metric_state, *(part[rows] for part in data))
        loss, *_ = [float(value) for value in report(metric_state)]
        return loss

    return lambda num_epochs: [epoch() for _ in range(num_epochs)]


PEER = Peer("plain loop", {"": prepare})
