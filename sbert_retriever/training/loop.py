"""transformers' own training loop over our batches: checkpoints, resuming, precision, devices."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader

from sbert_retriever.encoder.precision import choose_device, choose_dtype
from sbert_retriever.errors import InputError, MissingExtraError, ModelError
from sbert_retriever.training.collating import Collate
from sbert_retriever.training.config import TrainConfig, TrainStep
from sbert_retriever.training.development import StepDev
from sbert_retriever.training.sampling import Batches

try:
    import accelerate as _accelerate
    from transformers import Trainer as _HuggingFaceTrainer
    from transformers import TrainerCallback, TrainingArguments
except ImportError as _error:
    raise MissingExtraError("accelerate", extra="train", purpose="train a model") from _error
del _accelerate

OnLog = Callable[[Mapping[str, Any]], None]


def arguments_of(config: TrainConfig, step: TrainStep, folder: Path) -> TrainingArguments:
    """A run's settings in the words of transformers.

    Raises:
        InputError: The device and the precision do not go together.
        DeviceError: The device is absent.
    """
    device = choose_device(config.device)
    if device.type == "cuda" and device.index:
        raise InputError(
            f"device={config.device!r}: training takes the first GPU it sees; choose another with "
            f"CUDA_VISIBLE_DEVICES={device.index}, or all of them with torchrun"
        )
    dtype = choose_dtype(config.precision, device)
    if dtype == torch.float16 and device.type == "cpu":
        raise InputError("precision='float16' trains on GPUs only: use 'bfloat16' or 'float32'")
    arguments = TrainingArguments(
        output_dir=str(folder),
        num_train_epochs=step.epochs,
        max_steps=step.max_updates or -1,
        per_device_train_batch_size=step.batch_size,
        gradient_accumulation_steps=step.accumulate,
        learning_rate=step.learning_rate,
        warmup_steps=step.warmup,
        weight_decay=step.weight_decay,
        max_grad_norm=step.max_grad_norm,
        lr_scheduler_type="linear",
        # On a CPU a fifth of an update of a small model was the optimiser's, one operation after
        # the other over all weights; fused it is a twentieth.
        optim="adamw_torch_fused",
        seed=config.seed,
        bf16=dtype == torch.bfloat16,
        fp16=dtype == torch.float16,
        use_cpu=device.type == "cpu",
        logging_steps=config.log_every,
        logging_first_step=True,
        save_steps=config.save_every,
        save_total_limit=config.keep_checkpoints,
        remove_unused_columns=False,
        dataloader_pin_memory=device.type == "cuda",
        report_to=list(config.report_to) or "none",
        disable_tqdm=True,
    )
    # Several GPUs in one process would each see a part of a batch: torchrun gives each its own.
    if arguments.n_gpu > 1:
        arguments._n_gpu = 1
    return arguments


def check_reports(names: Sequence[str]) -> None:
    """Refuse integrations of transformers that are unknown, or whose library is absent.

    Raises:
        InputError: One is.
    """
    if not names:
        return
    from transformers import integrations

    # Typed in part only.
    module: Any = integrations
    there = module.get_available_reporting_integrations()
    if unknown := [name for name in names if name not in there]:
        raise InputError(
            f"report_to names {unknown[0]!r}, which transformers does not know or which is not "
            f"installed; installed: {', '.join(there) or 'none'}"
        )


class Loop(_HuggingFaceTrainer):
    """The loop of one step.

    Args:
        learning: Model and objective.
        arguments: Of transformers.
        batches: What makes a batch.
        collate: Examples to a batch.
        on_log: Called with each entry of the log.
        dev: What is measured meanwhile, if anything is.
    """

    def __init__(
        self,
        learning: nn.Module,
        arguments: TrainingArguments,
        *,
        batches: Batches,
        collate: Collate,
        on_log: OnLog,
        dev: StepDev | None = None,
    ) -> None:
        self._batches = batches
        self._dev = dev
        super().__init__(
            model=learning,
            args=arguments,
            train_dataset=batches.examples,
            data_collator=collate,
            callbacks=[_Log(on_log)],
        )
        if dev is not None:
            self.add_callback(_Measure(dev.every, self.evaluate))
        self.remove_callback(_printer())

    def get_train_dataloader(self) -> DataLoader[Any]:
        """Our batches, moved to the device, shared out among processes."""
        loader: DataLoader[Any] = DataLoader(
            self._batches.examples,
            batch_sampler=self._batches,
            collate_fn=self.data_collator,
            pin_memory=self.args.dataloader_pin_memory,
        )
        prepared: DataLoader[Any] = self.accelerator.prepare(loader)
        return prepared

    def compute_loss(
        self,
        model: nn.Module,
        inputs: dict[str, Any],
        return_outputs: bool = False,
        num_items_in_batch: Tensor | int | None = None,
    ) -> Any:
        """The loss of a batch, which must be finite."""
        del num_items_in_batch
        loss: Tensor = model(**inputs)
        if not torch.isfinite(loss):
            raise ModelError(
                f"the loss is {loss.item()} after {self.state.global_step} updates: lower the "
                "learning rate, or use precision = float32"
            )
        return (loss, {}) if return_outputs else loss

    def evaluate(self, *unused: Any, **unused_too: Any) -> dict[str, float]:
        """Measure on the development set, and log it.

        Every process does, for the same value: none has to wait for another.
        """
        del unused, unused_too
        if self._dev is None:
            return {}
        # At the end of an epoch transformers would ask again.
        self.control.should_evaluate = False
        figures = self._dev.measured(self.state.global_step)
        self.log(dict(figures))
        return figures

    def _prepare_inputs(self, inputs: dict[str, Any]) -> dict[str, Any]:
        """They are on the device already, where accelerate's loader put them."""
        return inputs


class _Log(TrainerCallback):
    """Hands each entry of the log on, in the process that reports."""

    def __init__(self, on_log: OnLog) -> None:
        self._on_log = on_log

    def on_train_begin(self, args: Any, state: Any, control: Any, **more: Any) -> None:
        """How often to log and to save is what is asked now: a checkpoint brings its own back."""
        del control, more
        state.compute_steps(args, state.max_steps)

    def on_step_end(self, args: Any, state: Any, control: Any, **more: Any) -> None:
        """The last update has an entry too."""
        del args, more
        if state.global_step >= state.max_steps:
            control.should_log = True

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **more: Any) -> None:
        """An entry: its update and its numbers."""
        del args, control, more
        if state.is_world_process_zero and logs and any(map(_is_ours, logs)):
            self._on_log({"update": state.global_step, "updates": state.max_steps, **logs})


def _is_ours(figure: str) -> bool:
    return figure == "loss" or figure.startswith("eval_")


class _Measure(TrainerCallback):
    """Says when the development set is measured: before the first update, every so many, after."""

    def __init__(self, every: int, measure: Callable[[], object]) -> None:
        self._every = every
        self._measure = measure

    def on_train_begin(self, args: Any, state: Any, control: Any, **more: Any) -> None:
        """The model as it came; a run that is gone on with has that."""
        del args, control, more
        if state.global_step == 0:
            self._measure()

    def on_step_end(self, args: Any, state: Any, control: Any, **more: Any) -> None:
        """Before the checkpoint of this update, which then has the value."""
        del args, more
        if state.global_step % self._every == 0 or state.global_step >= state.max_steps:
            control.should_evaluate = True


def _printer() -> Any:
    from transformers.trainer_callback import PrinterCallback

    return PrinterCallback
