"""`wb.watch` as a callback of Hugging Face's `Trainer`.

The trainer calls `on_pre_optimizer_step` once per optimizer step, after all accumulated backward passes and
after it clipped the gradients by their norm. Clipping changes the size of an update, not its direction.
"""

from collections.abc import Sequence
from typing import Any

from walkback.adapters.hosts import Followed, imported
from walkback.errors import BadValue, MissingPackage
from walkback.probes.backward_listener import COMPILED


def transformers_callback(blocks: str | Sequence[str], *, probe: Any, **options: Any) -> Any:
    """A callback for `Trainer(callbacks=[...])`; its `.watch` is the watch.

    blocks, options   as `wb.watch` takes them; with stop_when_fired=True the trainer stops after that step
    probe   as `wb.watch` takes it, or a batch as the model takes it: {"input_ids": …, "attention_mask": …, "labels": …}
    """
    (module,) = imported(("transformers",), "transformers", "transformers")
    try:
        base = module.TrainerCallback  # loaded on first use
    except (ImportError, AttributeError) as error:
        raise MissingPackage("transformers has no Trainer here", "pip install 'walkback[transformers]'") from error
    if not hasattr(base, "on_pre_optimizer_step"):
        raise MissingPackage(f"transformers {module.__version__} has no callback between backward and update",
                             "pip install 'walkback[transformers]'")  # fmt: skip
    return type("WatchCallback", (_TransformersWatch, base), {"__module__": __name__})(blocks, probe, options)


class _TransformersWatch:
    """The callback's methods; the class given to the trainer also derives from its own."""

    def __init__(self, blocks: str | Sequence[str], probe: Any, options: dict[str, Any]):
        self._followed = Followed(blocks, probe, options)

    @property
    def watch(self) -> Any:
        """The watch; None before the training."""
        return self._followed.watch

    def on_train_begin(self, args: Any, state: Any, control: Any, model: Any = None, **others: Any) -> None:
        """Begin: a checkpoint has been loaded."""
        del control, others
        for name in ("deepspeed", "fsdp"):
            if getattr(args, name, None):
                raise BadValue(f"{name} splits the parameters between processes, and a look needs them whole",
                               f"watch a training without {name}")  # fmt: skip
        self._followed.begin(model, int(state.global_step), COMPILED if getattr(args, "torch_compile", False) else "")

    def on_pre_optimizer_step(self, args: Any, state: Any, control: Any, **others: Any) -> None:
        """Count a step."""
        del args, state, others
        if self._followed.step():
            control.should_training_stop = True

    def on_train_end(self, args: Any, state: Any, control: Any, **others: Any) -> None:
        """Look a last time."""
        del args, state, control, others
        self._followed.end()
