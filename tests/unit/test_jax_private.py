"""Says what broke when a new JAX moves a private name that `trainstep.backends.jax._private` relies on."""

import keras
import numpy as np
import pytest

if keras.config.backend() != "jax":
    pytest.skip("the JAX room", allow_module_level=True)

import jax
import jax.numpy as jnp

from trainstep.backends.jax import _private


def test_a_captured_function_may_add_inputs_while_it_is_traced():
    value = jnp.full(3, 2.0)

    def function(x):
        extra = _private.new_input(_private.current_trace(), value)
        return [x * extra]

    jaxpr, constants = _private.capture_jaxpr(function, [jnp.ones(3)], "function")
    assert len(jaxpr.invars) == 2
    assert constants == []
    (answer,) = jax.core.eval_jaxpr(jaxpr, constants, jnp.ones(3), 5 * value)
    np.testing.assert_array_equal(answer, [10, 10, 10])


def test_operations_can_run_for_real_in_the_middle_of_a_capture():
    @jax.jit
    def function(x):
        with _private.outside_capture():
            assert float(jnp.ones(()) + 1) == 2.0
        return x

    function(1.0)


@pytest.mark.parametrize("custom", ["jvp", "vjp"])
def test_calls_with_custom_derivatives_reach_a_trace_and_can_be_bound_again(custom):
    seen = []

    class Listening(_private.Trace):
        def __init__(self, parent):
            super().__init__()
            self.parent, self.requires_low = parent, parent.requires_low

        def is_valid(self):
            return True

        def stage_value(self, value):
            return self.parent.stage_value(value)

        def process_primitive(self, primitive, args, params, /):
            with _private.set_current_trace(self.parent):
                return primitive.bind(*args, **params)

        def process_custom_jvp_call(self, primitive, fun, jvp, args, /, **params):
            seen.append("jvp")
            with _private.set_current_trace(self.parent):
                return _private.bind_custom(primitive, (fun, jvp), args, params)

        def process_custom_vjp_call(self, primitive, fun, fwd, bwd, args, /, **params):
            seen.append("vjp")
            with _private.set_current_trace(self.parent):
                return _private.bind_custom(primitive, (fun, fwd, bwd), args, params)

    square = (jax.custom_jvp if custom == "jvp" else jax.custom_vjp)(lambda x: x * x)
    if custom == "jvp":
        square.defjvp(lambda primals, tangents: (primals[0] ** 2, 2 * primals[0] * tangents[0]))
    else:
        square.defvjp(lambda x: (x * x, x), lambda x, g: (2 * x * g,))
    with _private.set_current_trace(Listening(_private.current_trace())):
        assert float(square(jnp.asarray(3.0))) == 9.0
    assert seen == [custom]
