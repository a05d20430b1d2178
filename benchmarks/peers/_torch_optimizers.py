"""PyTorch's optimizers with the hyper-parameters of a Keras optimizer."""

from collections.abc import Iterable
from typing import Any

import keras
import torch


class RMSprop(torch.optim.Optimizer):
    """RMSprop as Keras has it: epsilon is under the root, which `torch.optim.RMSprop` cannot say. All weights at once."""

    def __init__(self, parameters: Iterable[torch.nn.Parameter], lr: float, rho: float, eps: float):
        super().__init__(parameters, {"lr": lr, "rho": rho, "eps": eps})

    @torch.no_grad()
    def step(self, closure=None):
        """One update of all weights."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            weights = [p for p in group["params"] if p.grad is not None]
            gradients = [p.grad for p in weights]
            velocities = [self._velocity(p) for p in weights]
            torch._foreach_mul_(velocities, group["rho"])
            torch._foreach_addcmul_(velocities, gradients, gradients, value=1 - group["rho"])
            roots = torch._foreach_add(velocities, group["eps"])  # noqa: SLF001 - there is no public name for it.
            torch._foreach_sqrt_(roots)
            torch._foreach_addcdiv_(weights, gradients, roots, value=-group["lr"])
        return loss

    def _velocity(self, parameter: torch.nn.Parameter) -> torch.Tensor:
        state = self.state[parameter]
        if not state:
            state["velocity"] = torch.zeros_like(parameter)
        return state["velocity"]


def torch_optimizer(
    optimizer: keras.optimizers.Optimizer, parameters: Iterable[torch.nn.Parameter], **options: Any
) -> torch.optim.Optimizer:
    """The same optimizer; `options` are `foreach` and `fused`.

    Raises:
        KeyError: There is none for this class.
    """
    return _MAKERS[type(optimizer).__name__](optimizer.get_config(), parameters, options)


def _sgd(config: dict[str, Any], parameters: Iterable[torch.nn.Parameter], options: dict[str, Any]) -> torch.optim.Optimizer:
    return torch.optim.SGD(parameters, lr=float(config["learning_rate"]), momentum=config["momentum"], **options)


def _rmsprop(config: dict[str, Any], parameters: Iterable[torch.nn.Parameter], options: dict[str, Any]) -> torch.optim.Optimizer:
    return RMSprop(parameters, lr=float(config["learning_rate"]), rho=config["rho"], eps=config["epsilon"])


def _adam(config: dict[str, Any], parameters: Iterable[torch.nn.Parameter], options: dict[str, Any]) -> torch.optim.Optimizer:
    weight_decay = config["weight_decay"] or 0.0
    kind = torch.optim.AdamW if weight_decay else torch.optim.Adam
    betas = (config["beta_1"], config["beta_2"])
    return kind(
        parameters, lr=float(config["learning_rate"]), betas=betas, eps=config["epsilon"], weight_decay=weight_decay, **options
    )


# By name: on PyTorch Keras makes objects of a class of its own, which has the same name.
_MAKERS = {
    "SGD": _sgd,
    "RMSprop": _rmsprop,
    "Adam": _adam,
    "AdamW": _adam,
}
