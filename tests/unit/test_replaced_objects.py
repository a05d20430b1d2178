"""What a step reads may be replaced between two calls: a compiled step notices, as an eager one does, and heeds nothing else."""

import contextlib
import threading
import warnings

import keras
import numpy as np
import pytest

import trainstep as ts

ONE = np.float32(1)
result = 0.0


def value(variable):
    return float(keras.ops.convert_to_numpy(variable.value))


class Descent:
    """`w <- w - learning_rate`, in an object whose every part can be replaced."""

    def __init__(self, compile):
        self.w = keras.Variable(1.0)
        self.optimizer = keras.optimizers.SGD(0.125)
        self._scale = keras.Variable(1.0, trainable=False)
        self.shift = np.zeros(2, "float32")
        self.more = [keras.Variable(0.0)]
        self.descend = ts.step(self.run, compile=compile)

    def run(self, x):
        """One step of descent on a line."""
        with ts.GradientTape() as tape:
            loss = self.w * keras.ops.sum(x) * self._scale
        self.optimizer.apply_gradients([(tape.gradient(loss, self.w), self.w)])
        extra = sum(v.value for v in self.more) + keras.ops.sum(keras.ops.convert_to_tensor(self.shift))
        return {"loss": loss + extra}


@pytest.fixture(params=[True, False], ids=["compiled", "eager"])
def descent(request):
    return Descent(request.param)


def test_an_optimizer_is_replaced(descent, recwarn):
    descent.descend(ONE)
    descent.optimizer = keras.optimizers.SGD(0.5)
    descent.descend(ONE)
    assert value(descent.w) == 1 - 0.125 - 0.5
    assert not [w for w in recwarn if issubclass(w.category, ts.TrainStepWarning)]


def test_a_learning_rate_becomes_a_schedule(descent):
    descent.descend(ONE)
    descent.optimizer.learning_rate = keras.optimizers.schedules.PiecewiseConstantDecay([100], [0.5, 0.25])
    descent.descend(ONE)
    assert value(descent.w) == 1 - 0.125 - 0.5


def test_a_callback_changes_the_learning_rate_of_the_optimizer_of_now(descent):
    trainer = ts.Trainer(descent.descend)
    trainer.fit(np.ones(1, "float32"), verbose=0)
    descent.optimizer = keras.optimizers.SGD(0.5)
    trainer.fit(np.ones(1, "float32"), callbacks=[keras.callbacks.LearningRateScheduler(lambda epoch: 0.25)], verbose=0)
    assert value(descent.optimizer.learning_rate) == 0.25
    assert value(descent.w) == 1 - 0.125 - 0.25


def test_a_learning_rate_scheduler_serves_a_step_that_has_not_run(descent):
    ts.Trainer(descent.descend).fit(
        np.ones(1, "float32"), callbacks=[keras.callbacks.LearningRateScheduler(lambda epoch: 0.5)], verbose=0
    )
    assert value(descent.w) == 0.5


def test_a_callback_that_replaces_an_object_does_not_keep_metrics_from_being_reset():
    holder, mean = {"shift": keras.Variable(0.0)}, keras.metrics.Mean(name="mean")

    @ts.step(compile=True)
    def step(x):
        mean.update_state(keras.ops.sum(x) + holder["shift"])
        return {"mean": mean}

    replace = keras.callbacks.LambdaCallback(on_epoch_begin=lambda epoch, logs: holder.update(shift=keras.Variable(float(epoch))))
    history = ts.Trainer(step).fit(np.ones(1, "float32"), epochs=3, callbacks=[replace], verbose=0)
    assert history.history["mean"] == [1, 2, 3]
    assert {id(v) for v in step.variables} == {id(v) for v in (holder["shift"], *mean.variables)}


def test_a_private_variable_is_replaced(descent):
    descent.descend(ONE)
    descent._scale = keras.Variable(4.0, trainable=False)
    descent.descend(ONE)
    assert value(descent.w) == 1 - 0.125 - 4 * 0.125


def test_a_variable_is_added_to_a_list(descent):
    assert float(descent.descend(ONE)["loss"]) == 1
    descent.more.append(keras.Variable(16.0))
    assert float(descent.descend(ONE)["loss"]) == 1 - 0.125 + 16


def test_an_array_is_replaced_and_a_compiled_step_says_so(descent, recwarn):
    descent.descend(ONE)
    descent.shift = np.ones(2, "float32")
    assert float(descent.descend(ONE)["loss"]) == 1 - 0.125 + 2
    messages = [str(w.message) for w in recwarn if issubclass(w.category, ts.TrainStepWarning)]
    if descent.descend.num_traces == 0:
        assert messages == []
    else:
        [message] = messages
        assert "`self.shift` was replaced" in message


@pytest.mark.parametrize("compile", [True, False])
def test_a_closure_s_variable_is_replaced(compile):
    w = keras.Variable(1.0)

    @ts.step(compile=compile)
    def add(x):
        w.assign_add(x)

    add(ONE)
    w = keras.Variable(8.0)
    add(ONE)
    assert value(w) == 9


@pytest.mark.parametrize("compile", [True, False])
def test_a_layer_is_added_and_taken_away(compile):
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(2, kernel_initializer="ones")])
    total = ts.step(lambda x: {"sum": keras.ops.sum(model(x))}, compile=compile)
    x = np.ones((1, 2), "float32")
    assert float(total(x)["sum"]) == 4
    model.add(keras.layers.Dense(2, kernel_initializer="ones"))
    assert float(total(x)["sum"]) == 8
    model.pop()
    assert float(total(x)["sum"]) == 4


@pytest.mark.parametrize("compile", [True, False])
def test_none_hides_what_stands_in_the_class(compile):
    class Experiment:
        bonus = None
        penalty = 2.0

        @ts.step(compile=compile)
        def step(self, x):
            return {"loss": keras.ops.mean(x) + (self.penalty or 0.0) + (self.bonus or 0.0)}

    experiment, x = Experiment(), np.ones(4, "float32")
    assert float(experiment.step(x)["loss"]) == 3.0
    experiment.penalty = None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ts.TrainStepWarning)
        assert float(experiment.step(x)["loss"]) == 1.0


@pytest.mark.parametrize("compile", [True, False])
def test_a_number_in_a_layer_within_a_layer(compile):
    class Scale(keras.layers.Layer):
        def __init__(self):
            super().__init__()
            self.factor = 1.0

        def call(self, x):
            return x * self.factor

    class Block(keras.layers.Layer):
        def __init__(self):
            super().__init__()
            self.scale = Scale()

        def call(self, x):
            return self.scale(x)

    block = Block()
    total = ts.step(lambda x: {"sum": keras.ops.sum(block(x))}, compile=compile)
    total(ONE)
    block.scale.factor = 4.0
    with pytest.warns(ts.TrainStepWarning, match="factor") if compile else contextlib.nullcontext():
        assert float(total(ONE)["sum"]) == 4


class Loop:
    """An object whose loop keeps books that its step does not read."""

    def __init__(self):
        self.w = keras.Variable(0.0)
        self.i = 0
        self.counts = {"steps": 0}
        self.seen = []
        self.last = None

    def train(self, num_steps):
        """The loop: it reads and writes `i`, `counts`, `seen` and `last`."""
        for self.i in range(num_steps):
            self.counts["steps"] += 1
            self.last = self.add(np.float32(self.i))
            self.seen.append(float(self.last["w"]))

    @ts.step(compile=True)
    def add(self, x):
        """The step."""
        self.w.assign_add(x)
        return {"w": self.w.value * 1}


def test_what_only_the_loop_reads_captures_nothing_anew():
    loop = Loop()
    loop.train(4)
    assert loop.seen == [0, 1, 3, 6]
    assert loop.add.num_traces == 1


class Game:
    """A step that calls its own object, whose `__call__` is also the loop around it."""

    def __init__(self):
        self.state, self.rule = np.zeros(2), np.float32(1)

    @ts.step(compile=True)
    def outcome(self, x):
        """What the rule makes of x."""
        return {"y": self(x)}

    def __call__(self, x):
        """The rule itself within the step; a move and the step for the loop."""
        if keras.ops.is_tensor(x):
            return x * self.rule + keras.ops.sum(keras.ops.convert_to_tensor(self.state, "float32"))
        self.state = self.state + 1
        return float(self.outcome(np.float32(x))["y"])


class Play(Game):
    """The same loop, around a step that only reads attributes."""

    @ts.step(compile=True)
    def outcome(self, x):
        """What the rule makes of x."""
        return {"y": x * self.rule}


def test_the_loop_in_the_call_of_the_step_s_own_object_is_not_the_step_s():
    play = Play()
    assert [play(2.0), play(3.0), play(4.0)] == [2.0, 3.0, 4.0]
    assert play.outcome.num_traces == 1


def test_a_step_that_calls_its_own_object_heeds_what_that_reads():
    game = Game()
    assert game(2.0) == 4.0
    with pytest.warns(ts.TrainStepWarning, match=r"self\.state"):
        assert game(2.0) == 6.0
    assert game.outcome.num_traces == 2


def test_a_global_with_the_name_of_a_method_captures_nothing_anew():
    global result
    mean = keras.metrics.Mean(name="mean")

    @ts.step(compile=True)
    def update(x):
        mean.update_state(x)
        return {"mean": mean.result()}

    for i in range(4):
        result = float(update(np.float32(i))["mean"])
    assert result == 1.5
    assert update.num_traces == 1


@pytest.mark.parametrize("compile", [True, False])
def test_arguments_by_name(compile):
    @ts.step(compile=compile)
    def step(x, y=8.0, *, scale=1.0, negate=False, **more):
        total = (x + y) * scale + sum(more.values())
        return {"total": -total if negate is True else total}

    def total(*args, **named):
        return float(step(*args, **named)["total"])

    assert total(1.0) == 9
    assert total(1.0, scale=2.0) == 18
    assert total(x=1.0, y=2.0) == 3
    assert total(y=2.0, x=4.0, scale=0.5) == 3
    assert total(1.0, b=16.0) == 25
    assert total(1.0, a=32.0) == 41
    assert total(1.0, b=16.0, a=32.0) == 57


@pytest.mark.parametrize("compile", [True, False])
def test_a_step_called_within_a_step_is_a_part_of_it(compile):
    w = keras.Variable(0.0)

    @ts.step(compile=compile)
    def inner(x):
        w.assign_add(x)
        return {"w": w.value * 1}

    @ts.step(compile=compile)
    def outer(x):
        inner(x)
        return {"w": inner(x)["w"] * 2}

    assert float(outer(ONE)["w"]) == 4
    assert float(outer(ONE)["w"]) == 8
    assert value(w) == 4
    assert float(inner(ONE)["w"]) == 5
    assert (outer.num_traces, inner.num_traces) == ((1, 1) if compile else (0, 0))


@pytest.mark.parametrize("compile", [True, False])
def test_threads_take_turns(compile):
    w = keras.Variable(0.0)

    @ts.step(compile=compile)
    def add(x):
        w.assign_add(x)

    errors = []

    def run():
        try:
            for _ in range(10):
                add(ONE)
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=run) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    assert value(w) == 40


def test_bad_steps_and_numbers_are_named():
    with pytest.raises(ts.StepError, match="Got an int"):
        ts.step(5)

    class Slots:
        __slots__ = ()

        @ts.step
        def step(self, x):
            return {"x": x}

    with pytest.raises(ts.StepError, match=r"method of 'Slots'.*__dict__"):
        Slots().step(ONE)
    with pytest.raises(ts.DataError, match="integer as int32"):
        ts.step(lambda x: {"x": x})(2**40)
