"""One training step by hand in JAX, with Keras' stateless calls; `keras_fit` and the loops by hand share it."""

from typing import Any

import jax
import keras

from benchmarks.workloads import Training, Update

State = list[Any]


def slope(function, points):
    """The gradient of the sum of `function(points)`."""
    return jax.grad(lambda at: function(at).sum())(points)


class StatelessStep:
    """A training as a pure function from state to state.

    The state is a list with one array for each of `variables`: of the networks, seeds included, and of the optimizers.
    """

    def __init__(self, training: Training):
        self._training = training
        owners = [*training.networks, *(update.optimizer for update in training.updates)]
        found = {id(v): v for owner in owners for v in owner.variables}
        self.variables: list[keras.Variable] = list((found | _seeds_of(training)).values())
        self.metric_variables = [v for metric in training.metrics for v in metric.variables]
        self._position = {id(v): i for i, v in enumerate(self.variables)}

    def step(self, state: State, metric_state: State, *batch: Any) -> tuple[State, State]:
        """All updates, and their metrics."""
        for update in self._training.updates:
            state, metric_state = self._update(update, state, metric_state, batch)
        return state, metric_state

    def loss(self, metric_state: State) -> Any:
        """The mean loss so far, and with it all other metrics, which a loop reports too."""
        with keras.StatelessScope(zip(self.metric_variables, metric_state, strict=True)):
            return [metric.result() for metric in self._training.metrics]

    def _update(self, update: Update, state: State, metric_state: State, batch: tuple[Any, ...]) -> tuple[State, State]:
        trained = [self._position[id(v)] for v in update.network.trainable_variables]
        optimizer = [self._position[id(v)] for v in update.optimizer.variables]

        def forward(weights):
            present = _replaced(state, trained, weights)
            with keras.StatelessScope(zip(self.variables, present, strict=True)) as scope:
                loss, predictions = update.loss(*batch)
            return loss, (predictions, self._values(scope, self.variables, present))

        weights = [state[i] for i in trained]
        (loss, (predictions, after)), gradients = jax.value_and_grad(forward, has_aux=True)(weights)
        weights, slots = update.optimizer.stateless_apply([state[i] for i in optimizer], gradients, weights)
        after = _replaced(_replaced(after, trained, weights), optimizer, slots)
        with keras.StatelessScope(zip(self.metric_variables, metric_state, strict=True)) as scope:
            update.record(batch, loss, predictions)
        return after, self._values(scope, self.metric_variables, metric_state)

    @staticmethod
    def _values(scope: keras.StatelessScope, variables: list[keras.Variable], before: State) -> State:
        now = [scope.get_current_value(v) for v in variables]
        return [old if new is None else new for old, new in zip(before, now, strict=True)]


def _replaced(state: State, positions: list[int], values: State) -> State:
    state = list(state)
    for i, value in zip(positions, values, strict=True):
        state[i] = value
    return state


def _seeds_of(training: Training) -> dict[int, keras.Variable]:
    return {id(seed.state): seed.state for seed in training.seeds}
