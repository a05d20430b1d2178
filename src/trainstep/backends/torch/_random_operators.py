"""The operators that draw random numbers: each takes its seed as a tensor, and draws as Keras does.

Only PyTorch is imported here: the process in which Inductor compiles loads this file too, and knows the operators by it.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import library

_library = library.Library("trainstep", "DEF")

_FACTORY = "ScalarType dtype, Device device) -> Tensor"


def _operator(schema: str) -> Callable[[Callable[..., torch.Tensor]], Callable[..., torch.Tensor]]:
    """Registers a function as the operator `schema`, whose first argument is a seed, which the function gets as a generator."""

    def register(function: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
        def kernel(seed: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
            return function(_as_integer(seed), *args, **kwargs)

        name = schema.split("(")[0]
        _library.define(schema, tags=(torch.Tag.pt2_compliant_tag,))
        _library.impl(name, kernel, "CompositeExplicitAutograd")
        return getattr(torch.ops.trainstep, name).default

    return register


def _as_integer(seed: torch.Tensor) -> int:
    first, second = seed.tolist()
    return (first + second) & 0xFFFFFFFF


def _generator(seed: int, device: torch.device) -> torch.Generator:
    return torch.Generator(device=device).manual_seed(seed)


@_operator(f"normal(Tensor seed, float mean, float stddev, int[] size, {_FACTORY}")
def normal(seed: int, mean: float, stddev: float, size: list[int], dtype: torch.dtype, device: torch.device) -> torch.Tensor:
    return torch.normal(mean, stddev, size=size, generator=_generator(seed, device), dtype=dtype, device=device)


@_operator(f"truncated_normal(Tensor seed, int[] size, {_FACTORY}")
def truncated_normal(seed: int, size: list[int], dtype: torch.dtype, device: torch.device) -> torch.Tensor:
    """Standard normal numbers within two deviations: the first good one of four, as Keras takes it."""
    drawn = torch.normal(0, 1, size=(*size, 4), generator=_generator(seed, device), dtype=dtype, device=device)
    first_good = ((drawn > -2) & (drawn < 2)).max(-1, keepdim=True)[1]
    return drawn.gather(-1, first_good).squeeze(-1)


@_operator(f"rand(Tensor seed, int[] size, {_FACTORY}")
def rand(seed: int, size: list[int], dtype: torch.dtype, device: torch.device) -> torch.Tensor:
    return torch.rand(size, generator=_generator(seed, device), dtype=dtype, device=device)


@_operator(f"randint(Tensor seed, int low, int high, int[] size, {_FACTORY}")
def randint(seed: int, low: int, high: int, size: list[int], dtype: torch.dtype, device: torch.device) -> torch.Tensor:
    return torch.randint(low, high, size, generator=_generator(seed, device), dtype=dtype, device=device)


@_operator("keep(Tensor seed, float probability, int[] size, Device device) -> Tensor")
def keep(seed: int, probability: float, size: list[int], device: torch.device) -> torch.Tensor:
    """A mask that is true with the given probability."""
    return torch.bernoulli(torch.full(size, probability, device=device), generator=_generator(seed, device)).bool()


@_operator("categorical(Tensor seed, Tensor probabilities, int num_samples) -> Tensor")
def categorical(seed: int, probabilities: torch.Tensor, num_samples: int) -> torch.Tensor:
    generator = _generator(seed, probabilities.device)
    return torch.multinomial(probabilities, num_samples, replacement=True, generator=generator)


@_operator("permutation(Tensor seed, int[] size, Device device) -> Tensor")
def permutation(seed: int, size: list[int], device: torch.device) -> torch.Tensor:
    """A permutation along the last axis of `size`."""
    return torch.rand(size, generator=_generator(seed, device), device=device).argsort(len(size) - 1)


@_operator("gamma(Tensor seed, Tensor alpha) -> Tensor")
def gamma(seed: int, alpha: torch.Tensor) -> torch.Tensor:
    return _sample(seed, lambda: torch.distributions.Gamma(alpha, torch.ones(alpha.shape, device=alpha.device)))


@_operator("binomial(Tensor seed, Tensor counts, Tensor probabilities) -> Tensor")
def binomial(seed: int, counts: torch.Tensor, probabilities: torch.Tensor) -> torch.Tensor:
    return _sample(seed, lambda: torch.distributions.Binomial(total_count=counts, probs=probabilities))


@_operator("beta(Tensor seed, Tensor alpha, Tensor beta) -> Tensor")
def beta(seed: int, alpha: torch.Tensor, beta: torch.Tensor) -> torch.Tensor:
    return _sample(seed, lambda: torch.distributions.Beta(concentration1=alpha, concentration0=beta))


def _sample(seed: int, distribution: Callable[[], torch.distributions.Distribution]) -> torch.Tensor:
    """A sample of a distribution, which knows no generator but PyTorch's global one."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return distribution().sample()


# What the operators return, for a compiler that has no values


def _like_factory(*args: Any) -> torch.Tensor:
    *_, size, dtype, device = args
    return torch.empty(size, dtype=dtype, device=device)


for _name in ("normal", "truncated_normal", "rand", "randint"):
    library.register_fake(f"trainstep::{_name}", _like_factory, lib=_library)
library.register_fake(
    "trainstep::keep", lambda seed, probability, size, device: torch.empty(size, dtype=torch.bool, device=device), lib=_library
)
library.register_fake(
    "trainstep::categorical", lambda seed, p, n: torch.empty((*p.shape[:-1], n), dtype=torch.int64, device=p.device), lib=_library
)
library.register_fake(
    "trainstep::permutation", lambda seed, size, device: torch.empty(size, dtype=torch.int64, device=device), lib=_library
)
library.register_fake("trainstep::gamma", lambda seed, alpha: torch.empty(alpha.shape, device=alpha.device), lib=_library)
library.register_fake(
    "trainstep::binomial", lambda seed, counts, p: torch.empty(p.shape, dtype=p.dtype, device=p.device), lib=_library
)
library.register_fake(
    "trainstep::beta", lambda seed, alpha, beta: torch.empty(alpha.shape, dtype=alpha.dtype, device=alpha.device), lib=_library
)
