"""`wb.watch` as a callback of PyTorch Lightning, under both of its names (`pytorch_lightning`, `lightning.pytorch`).

Lightning calls `on_before_optimizer_step` after all backward passes of a step, when gradients are unscaled and not yet
clipped: once per optimizer step, however many batches are accumulated.
"""

from collections.abc import Sequence
from typing import Any

from walkback.adapters.hosts import Followed, imported
from walkback.errors import BadValue
from walkback.probes.backward_listener import COMPILED

NAMES = ("pytorch_lightning", "lightning.pytorch")
SHARDED = ("FSDPStrategy", "DeepSpeedStrategy", "ModelParallelStrategy")


def lightning_callback(
    blocks: str | Sequence[str], *, probe: Any, model: str | None = None, optimizer: int | None = None, **options: Any
) -> Any:
    """A callback for `Trainer(callbacks=[...])`; its `.watch` is the watch.

    blocks, probe, options   as `wb.watch` takes them; with stop_when_fired=True the trainer stops after that step
    model       the attribute of your LightningModule that gives the logits, if its own forward does not
    optimizer   which optimizer's steps are counted, if there are several: 0, 1, …
    """
    bases = tuple(module.Callback for module in imported(NAMES, "PyTorch Lightning", "lightning"))
    kind = type("WatchCallback", (_LightningWatch, *bases), {"__module__": __name__})
    return kind(blocks, probe, model, optimizer, options)


class _LightningWatch:
    """The callback's methods; the class given to Lightning also derives from Lightning's own."""

    def __init__(
        self, blocks: str | Sequence[str], probe: Any, model: str | None, optimizer: int | None, options: dict[str, Any]
    ):
        self._given = (blocks, probe, model, optimizer, options)
        self._followed, self._model, self._optimizer = Followed(blocks, probe, options), model, optimizer
        self._counted: int | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        """For strategies that start processes: the callback starts again in each."""
        return _again, self._given

    @property
    def watch(self) -> Any:
        """The watch; None before the training."""
        return self._followed.watch

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        """Begin: weights are restored, and the model is where it trains."""
        strategy = type(trainer.strategy).__name__
        if strategy in SHARDED:
            raise BadValue(f"{strategy} splits the parameters between processes, and a look needs them whole",
                           "watch a training with another strategy, such as ddp")  # fmt: skip
        count = len(trainer.optimizers)
        if self._optimizer is None and count > 1:
            raise BadValue(f"there are {count} optimizers, and it is not clear whose steps are the training's",
                           "say which, as in optimizer=0")  # fmt: skip
        if self._optimizer is not None and not 0 <= self._optimizer < count:
            raise BadValue(f"optimizer is {self._optimizer}, and there are {count}", "count from 0")
        inside = pl_module
        if self._model is not None:
            try:
                inside = pl_module.get_submodule(self._model)
            except AttributeError as error:
                names = ", ".join(name for name, _ in pl_module.named_children())
                raise BadValue(f"the LightningModule has no part {self._model!r}; it has {names}",
                               "name one of these") from error  # fmt: skip
        self._counted = None
        compiled = getattr(pl_module, "_compiler_ctx", None) is not None
        self._followed.begin(inside, int(trainer.global_step), COMPILED if compiled else "")

    def on_before_optimizer_step(self, trainer: Any, pl_module: Any, optimizer: Any) -> None:
        """Count a step once: an optimizer that repeats its closure (LBFGS) calls this each time."""
        del pl_module
        if self._optimizer is not None and trainer.optimizers[self._optimizer] is not optimizer:
            return
        if self._counted == trainer.global_step:
            return
        self._counted = trainer.global_step
        if self._followed.step():
            trainer.should_stop = True

    def on_train_end(self, trainer: Any, pl_module: Any) -> None:
        """Look a last time."""
        del trainer, pl_module
        self._followed.end()

    def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:
        """Finish the log and stop looking."""
        del trainer, pl_module, exception
        self._followed.end("stopped")


def _again(blocks: Any, probe: Any, model: str | None, optimizer: int | None, options: dict[str, Any]) -> Any:
    return lightning_callback(blocks, probe=probe, model=model, optimizer=optimizer, **options)
