"""The expert's loop: several steps in one program, over arrays that stay on the device; looped or unrolled."""

import functools

import jax
import jax.numpy as jnp

from benchmarks.workloads import AbstractWorkload

from ._abstract import Peer, Run
from ._batches import Orders
from ._jax_step import StatelessStep, slope

MOST_STEPS_UNROLLED = 5


def prepare(workload: AbstractWorkload, *, shuffle: bool = True, unroll: bool = False) -> Run:
    """`lax.scan` over the whole epoch, or a few steps written out in each program."""
    stateless = StatelessStep(workload.training(slope))
    steps_per_call = _most_that_divides(workload.num_steps) if unroll else workload.num_steps

    def steps(state, data, order):
        """The epoch's steps, or the next few; `state` is a pair."""

        def one(state, rows):
            return stateless.step(*state, *(part[rows] for part in data)), None

        if not unroll:
            return jax.lax.scan(one, state, order)[0]
        for rows in order:
            state, _ = one(state, rows)
        return state

    call = jax.jit(steps, donate_argnums=0)
    report = jax.jit(stateless.loss)
    state = [jnp.array(v.value) for v in stateless.variables]
    data = [jnp.asarray(part) for part in workload.data()]
    orders = Orders(workload, shuffle=shuffle)

    def epoch() -> float:
        nonlocal state
        metric_state = [jnp.zeros(v.shape, v.dtype) for v in stateless.metric_variables]
        order = orders.next()
        for first in range(0, len(order), steps_per_call):
            state, metric_state = call((state, metric_state), data, order[first : first + steps_per_call])
        loss, *_ = [float(value) for value in report(metric_state)]
        return loss

    return lambda num_epochs: [epoch() for _ in range(num_epochs)]


def _most_that_divides(num_steps: int) -> int:
    return max(k for k in range(1, MOST_STEPS_UNROLLED + 1) if num_steps % k == 0)


PEER = Peer("expert's loop", {"scan": prepare, "unrolled": functools.partial(prepare, unroll=True)})
