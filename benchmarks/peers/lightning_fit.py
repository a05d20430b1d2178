"""Lightning's `Trainer.fit`, with a `DataLoader`, as a user would call it."""

import logging
import warnings

import torch

try:
    import lightning
except ImportError as error:
    raise ModuleNotFoundError("Lightning is not installed: `pip install 'trainstep[bench]'`.") from error

from benchmarks.workloads import AbstractWorkload

from ._abstract import Peer, Run
from ._torch_step import TorchUpdate, torch_data, torch_updates


class Module(lightning.LightningModule):
    """The updates of a workload: by Lightning where there is one, by hand where there are several, as its manual says."""

    def __init__(self, updates: list[TorchUpdate]):
        super().__init__()
        self.updates = updates
        self.automatic_optimization = len(updates) == 1
        self.weights = torch.nn.ParameterList(p for update in updates for p in update.parameters)
        self.losses: list[float] = []

    def configure_optimizers(self) -> list[torch.optim.Optimizer]:
        """One for each update."""
        return [update.optimizer for update in self.updates]

    def training_step(self, batch, batch_index) -> torch.Tensor | None:
        """The loss, or all updates."""
        if not self.automatic_optimization:
            for update, optimizer in zip(self.updates, self.optimizers(), strict=True):
                self._update(update, optimizer, batch)
            return None
        (update,) = self.updates
        loss, predictions = update.loss(*batch)
        update.means.record(batch, loss, predictions)
        return loss

    def _update(self, update: TorchUpdate, optimizer, batch) -> None:
        loss, predictions = update.loss(*batch)
        optimizer.zero_grad()
        self.manual_backward(loss, inputs=update.parameters)
        optimizer.step()
        update.means.record(batch, loss, predictions)

    def on_train_epoch_start(self) -> None:
        """The metrics of the epoch begin."""
        for update in self.updates:
            update.means.reset()

    def on_train_epoch_end(self) -> None:
        """The metrics of the epoch are read."""
        (loss, _), *_ = [update.means.result() for update in self.updates]
        self.losses.append(loss)


def prepare(workload: AbstractWorkload, *, shuffle: bool = True) -> Run:
    """One trainer, whose number of epochs is raised for each run; no checkpoints, no logger, no bar."""
    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    torch.manual_seed(0)
    module = Module(torch_updates(workload))
    dataset = torch.utils.data.TensorDataset(*torch_data(workload))
    loader = torch.utils.data.DataLoader(dataset, batch_size=workload.batch_size, shuffle=shuffle)
    trainer = lightning.Trainer(
        max_epochs=0,
        accelerator="cpu",
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        gradient_clip_val=module.updates[0].max_norm,
    )

    def run(num_epochs: int) -> list[float]:
        trainer.fit_loop.max_epochs += num_epochs
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # That more workers would load faster: not from memory.
            trainer.fit(module, loader)
        return module.losses[-num_epochs:]

    return run


PEER = Peer("Lightning", {"": prepare})
