"""The losses of the workloads as a user of PyTorch would write them: of the twins, and a batch."""

from collections.abc import Callable, Sequence

import torch
from torch import nn
from torch.nn import functional

from benchmarks.workloads import AbstractWorkload
from benchmarks.workloads.gan import Gan
from benchmarks.workloads.wgan_gp import PENALTY_WEIGHT, WganGp

Loss = Callable[..., tuple[torch.Tensor, torch.Tensor]]


def losses(workload: AbstractWorkload, twins: Sequence[nn.Module]) -> list[Loss]:
    """For each update the function from a batch to its loss and predictions."""
    if workload.has_stock_step:
        return [_cross_entropy(twins[0])]
    return {Gan: _gan, WganGp: _wgan_gp}[type(workload)](workload, *twins)


def _cross_entropy(model: nn.Module) -> Loss:
    def loss(inputs, labels):
        logits = model(inputs)
        return functional.cross_entropy(logits.flatten(0, -2), labels.flatten()), logits

    return loss


def _gan(workload: Gan, discriminator: nn.Module, generator: nn.Module) -> list[Loss]:
    def discriminator_loss(real):
        with torch.no_grad():
            fake = generator(torch.randn(len(real), workload.num_codes))
        real_logits, fake_logits = discriminator(real), discriminator(fake)
        return functional.softplus(-real_logits).mean() + functional.softplus(fake_logits).mean(), fake_logits

    def generator_loss(real):
        logits = discriminator(generator(torch.randn(len(real), workload.num_codes)))
        return functional.softplus(-logits).mean(), logits

    return [discriminator_loss, generator_loss]


def _wgan_gp(workload: WganGp, critic: nn.Module, generator: nn.Module) -> list[Loss]:
    def critic_loss(real):
        with torch.no_grad():
            fake = generator(torch.randn(len(real), workload.num_codes))
        mix = torch.rand(len(real), 1)
        points = (real + mix * (fake - real)).requires_grad_()
        (slopes,) = torch.autograd.grad(critic(points).sum(), points, create_graph=True)
        penalty = (slopes.norm(dim=1) - 1).square().mean()
        scores = critic(fake)
        return PENALTY_WEIGHT * penalty + scores.mean() - critic(real).mean(), scores

    def generator_loss(real):
        scores = critic(generator(torch.randn(len(real), workload.num_codes)))
        return -scores.mean(), scores

    return [critic_loss, generator_loss]
