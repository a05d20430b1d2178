"""What is checked before an optimizer changes variables."""

from typing import Any

import keras

from ._errors import StepError, describe


def check_update(name: str, optimizer: keras.optimizers.Optimizer, gradients: list[Any], variables: list[keras.Variable]) -> None:
    """Raises `StepError` for an update that Keras would make wrongly, or not at all, without a word."""
    if len(gradients) != len(variables):
        raise StepError(
            f"In step {name!r}, {optimizer.name!r} was given {len(gradients)} gradients for {len(variables)} variables."
        )
    seen: set[int] = set()
    for gradient, variable in zip(gradients, variables, strict=True):
        if gradient is None:
            continue
        if id(variable) in seen:
            raise StepError(
                f"In step {name!r}, {describe(variable)} is given twice to {optimizer.name!r}, "
                "so its gradient would be applied twice. List each variable once: `list({id(v): v for v in variables}.values())`."
            )
        seen.add(id(variable))
        if tuple(gradient.shape) != tuple(variable.shape):
            raise StepError(
                f"In step {name!r}, {optimizer.name!r} was given {describe(gradient)} as the gradient of {describe(variable)}. "
                "Gradients and variables must be in the same order."
            )
    if gradients and not seen:
        raise StepError(
            f"In step {name!r}, {optimizer.name!r} was given no gradient for any of {', '.join(v.path for v in variables[:5])}: "
            "the loss does not depend on them by differentiable operations."
        )
