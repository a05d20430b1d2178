"""Says what broke when a new Keras moves a private name that `trainstep._keras` relies on."""

import keras
import numpy as np
import pytest

from trainstep import _keras


def test_the_raw_value_is_the_framework_s_own_and_not_cast():
    layer = keras.layers.Dense(1, dtype="mixed_float16")
    layer.build((None, 1))
    assert keras.backend.standardize_dtype(_keras.raw_value(layer.kernel).dtype) == "float32"


def test_a_value_can_be_handed_to_a_variable():
    variable = keras.Variable(1.0)
    if keras.config.backend() != "jax":
        pytest.skip("only the JAX room hands values over; the others assign in place")
    _keras.set_raw_value(variable, keras.ops.convert_to_tensor(2.0))
    assert float(variable.numpy()) == 2.0


def test_variables_in_a_stateless_scope_are_initialized_late_and_can_be_so_by_us():
    with keras.StatelessScope():
        variable = keras.Variable(keras.initializers.Ones(), shape=(2,))
        assert not _keras.is_initialized(variable)
        _keras.initialize(variable)
        assert _keras.is_initialized(variable)
    np.testing.assert_array_equal(keras.ops.convert_to_numpy(variable.value), [1, 1])


def test_a_stateless_scope_can_be_left_for_a_while():
    variable = keras.Variable(1.0)
    with keras.StatelessScope() as scope:
        variable.assign(2.0)
        with _keras.suspended_stateless_scope():
            assert float(variable.numpy()) == 1.0
        assert float(keras.ops.convert_to_numpy(_keras.current_raw_value(variable))) == 2.0
        _keras.replace_current_raw_value(variable, keras.ops.convert_to_tensor(3.0))
        assert float(keras.ops.convert_to_numpy(scope.get_current_value(variable))) == 3.0


def test_a_frozen_variable_is_told_from_one_that_was_never_trainable():
    layer = keras.layers.BatchNormalization()
    layer.build((None, 2))
    layer.trainable = False
    assert _keras.was_created_trainable(layer.gamma)
    assert not _keras.was_created_trainable(layer.moving_mean)
    assert not _keras.was_created_trainable(keras.Variable(1.0, trainable=False))


def test_reads_and_assignments_are_announced_and_the_class_is_left_as_it_was():
    before = dict(vars(keras.Variable))
    first, second, silent = keras.Variable(1.0), keras.Variable(2.0), keras.Variable(3.0)
    used = []
    with _keras.on_variable_use(used.append):
        _ = first + 1.0
        second.assign(5.0)
    _ = silent + 1.0
    assert list(dict.fromkeys(map(id, used))) == [id(first), id(second)]
    assert dict(vars(keras.Variable)) == before


def test_a_layer_being_built_creates_its_variables_within_the_context():
    entered = []

    class Context:
        def __enter__(self):
            entered.append(True)

        def __exit__(self, *exception):
            pass

    with _keras.variables_created_within(Context):
        keras.layers.Dense(2).build((None, 3))
    keras.layers.Dense(2).build((None, 3))
    assert len(entered) == 2


def test_results_of_metrics_are_announced():
    metric, heard = keras.metrics.Mean(), []
    metric.update_state([1.0, 3.0])
    with _keras.metric_results(lambda m, r: heard.append((m, float(r)))):
        metric.result()
        keras.metrics.MeanSquaredError().result()
    metric.result()
    assert heard[0] == (metric, 2.0)
    assert len(heard) == 2


@pytest.mark.parametrize("optimizer", [keras.optimizers.SGD, keras.optimizers.Adam, keras.optimizers.AdamW])
def test_updates_of_optimizers_are_announced(optimizer):
    variable, heard = keras.Variable(1.0), []
    with _keras.optimizer_updates(lambda o, g, v: heard.append(v) or False):
        optimizer().apply_gradients([(keras.ops.convert_to_tensor(1.0), variable)])
    assert [v is variable for [v] in heard] == [True]


def test_seeds_that_keras_draws_are_noticed_and_the_global_generator_survives_a_new_seed():
    with _keras.python_draws_by_keras() as bounds:
        keras.layers.Dropout(0.5)
    assert bounds == [(1, int(1e9))]

    keras.utils.set_random_seed(1)
    expected = [float(keras.random.normal(())) for _ in range(2)]
    generator = _keras.global_seed_generator()
    keras.utils.set_random_seed(1)
    _keras.keep_global_seed_generator(generator)
    assert _keras.global_seed_generator() is generator
    assert [float(keras.random.normal(())) for _ in range(2)] == expected


def test_layers_whose_losses_change_are_noticed_and_their_own_losses_can_be_set():
    class Adding(keras.layers.Layer):
        def call(self, x):
            self.add_loss(keras.ops.sum(x))
            return x

    inner = Adding()
    model = keras.Sequential([inner])
    model(np.ones((1, 2)))
    with _keras.layers_with_losses() as before:
        model(np.ones((1, 3)))
    model(np.ones((1, 4)))
    [losses] = [losses for layer, losses in before.values() if layer is inner]
    assert [float(loss) for loss in losses] == [2.0]
    assert [float(loss) for loss in _keras.own_losses(inner)] == [4.0]
    _keras.set_own_losses(inner, losses)
    assert [float(loss) for loss in model.losses] == [2.0]
    assert not any(hasattr(vars(keras.layers.Layer)[name], "__wrapped__") for name in ("add_loss", "_clear_losses"))


def test_the_layers_directly_inside_a_layer():
    inner = keras.Sequential([keras.layers.Dense(1)])
    wrapper = keras.layers.TimeDistributed(inner)
    assert _keras.sublayers(wrapper) == [inner]
    assert _keras.sublayers(keras.optimizers.SGD()) == []


def test_private_attributes_behind_public_ones():
    layer, optimizer = keras.layers.Dense(1), keras.optimizers.SGD()
    layer.trainable = False
    optimizer.learning_rate = schedule = keras.optimizers.schedules.CosineDecay(0.1, 10)
    assert vars(layer)["_trainable"] is False
    assert vars(optimizer)["_learning_rate"] is schedule
    assert {"_trainable", "_learning_rate"} == _keras.ATTRIBUTES_READ_IN_A_STEP
