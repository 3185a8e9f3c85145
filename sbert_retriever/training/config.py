"""What to train, from what, for what: checked when made, before anything is loaded."""

from __future__ import annotations

from dataclasses import dataclass
from typing import get_args

from sbert_retriever.encoder.adjust import check_length, pooling_modes
from sbert_retriever.encoder.precision import DTYPES
from sbert_retriever.errors import InputError, InputTypeError
from sbert_retriever.training.data import TrainData
from sbert_retriever.training.dev import TrainDev
from sbert_retriever.training.kinds import DataKind, ModelKind, Precision, View, Weights
from sbert_retriever.training.objectives.registry import OBJECTIVES, Objective
from sbert_retriever.training.objectives.settings import one_of, positive, switch
from sbert_retriever.types.checks import expect, in_range

_MOST = 1_000_000_000


@dataclass(frozen=True, kw_only=True)
class TrainStep:
    """One objective over some data; a configuration may have several, one after the other.

    Args:
        name: Of its folder under checkpoints.
        objective: What is learned; `read_objective` makes one by name.
        data: Where from; several are put together.
        epochs: How often each example is seen.
        max_updates: Make so many updates of the weights, whatever `epochs` says: the data is gone
            through again where it ends before. None is when the epochs are over.
        batch_size: Examples at once on each device.
        accumulate: Batches an update is made of.
        learning_rate: Of AdamW, at its highest.
        warmup: Share of the updates over which it rises from 0; then it falls to 0, both linearly.
        weight_decay: Of AdamW.
        max_grad_norm: Gradients longer than this are shortened.
        smart_batching: Put examples of like length together: less padding.
        chunk_size: Keep the activations of so many examples at a time (GradCache): a large batch
            fits into memory and is computed twice. None keeps all.
        negatives: Hard negatives each example of a ranking has.
        view: Makes pairs of single texts: "crops" (Contriever) or "twice" (SimCSE).
        crop: The least and the most share of a text's words in a crop.
        teacher: A model's name: for distil-vectors a bi-encoder, for distil-margins and
            pair-distillation a cross-encoder.
        matryoshka: Widths at which the objective holds as well as at the full one.
        matryoshka_weights: Of each, the full one's last; empty weighs all as 1.

    Raises:
        InputError: A value is out of range, or two do not go together.
        InputTypeError: A value is of another kind, such as an objective's name for the objective.
    """

    name: str = "train"
    objective: Objective
    data: tuple[TrainData, ...]
    epochs: float = 1.0
    max_updates: int | None = None
    batch_size: int = 16
    accumulate: int = 1
    learning_rate: float = 2e-5
    warmup: float = 0.1
    weight_decay: float = 0.0
    max_grad_norm: float = 1.0
    smart_batching: bool = False
    chunk_size: int | None = None
    negatives: int = 1
    view: View | None = None
    crop: tuple[float, float] = (0.1, 0.5)
    teacher: str | None = None
    matryoshka: tuple[int, ...] = ()
    matryoshka_weights: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        self._check_kinds()
        self._check_numbers()
        if not self.name or not self.name.replace("-", "").replace("_", "").isalnum():
            raise InputError(f"a step's name is {self.name!r}, expected letters, digits, - and _")
        if not self.data:
            raise InputError(f"step {self.name!r} has no data: give it one or more")
        self._check_data()
        self._check_teacher()
        self._check_matryoshka()

    def _check_kinds(self) -> None:
        expect(self.name, str, "a step's name")
        if not isinstance(self.objective, tuple(OBJECTIVES.values())):
            raise InputTypeError(
                f"step {self.name!r}: the objective is {self.objective!r:.60}, expected one of "
                "sbert_retriever.training, as read_objective makes it of a name"
            )
        data = (self.data,) if isinstance(self.data, TrainData) else tuple(self.data)
        object.__setattr__(self, "data", data)
        for one in self.data:
            expect(one, TrainData, f"step {self.name!r}: data")
        switch("smart_batching", self.smart_batching)

    def _check_numbers(self) -> None:
        for name in ("batch_size", "accumulate"):
            in_range(name, getattr(self, name), least=1, most=_MOST, of="TrainStep")
        for name in ("max_updates", "chunk_size"):
            if getattr(self, name) is not None:
                in_range(name, getattr(self, name), least=1, most=_MOST, of="TrainStep")
        in_range("negatives", self.negatives, least=0, most=_MOST, of="TrainStep")
        for name in ("epochs", "learning_rate", "max_grad_norm"):
            in_range(name, getattr(self, name), least=1e-12, whole=False, of="TrainStep")
        in_range("weight_decay", self.weight_decay, least=0, whole=False, of="TrainStep")
        in_range("warmup", self.warmup, least=0, most=0.999, whole=False, of="TrainStep")
        shares = len(self.crop) == 2 and 0 < self.crop[0] <= self.crop[1] <= 1
        if not shares:
            raise InputError(f"crop is {list(self.crop)}, expected two shares of a text, 0 to 1")

    def _check_data(self) -> None:
        kinds = {data.kind for data in self.data}
        if strange := sorted(kinds - self.objective.data):
            raise InputError(
                f"step {self.name!r}: {self.objective.name} does not learn from {strange[0]} data, "
                f"expected {', '.join(sorted(self.objective.data))}"
            )
        if self.view is not None:
            one_of("view", self.view, get_args(View))
        paired = self.objective.name == "in-batch" and "texts" in kinds
        if paired and self.view is None:
            raise InputError(
                f"step {self.name!r}: in-batch over texts needs a view: crops, or twice"
            )
        if self.view is not None and not (paired and kinds == {"texts"}):
            raise InputError(f"step {self.name!r}: a view is for in-batch over texts alone")
        if len(kinds) > 1 and len({_columns(kind, self.negatives) for kind in kinds}) > 1:
            raise InputError(
                f"step {self.name!r}: {' and '.join(sorted(kinds))} data have another number of "
                "texts an example: give each a step of its own"
            )
        if self.objective.name == "pair-binary" and "sts" in kinds and len(kinds) > 1:
            raise InputError(
                f"step {self.name!r}: sts data has scores and {', '.join(sorted(kinds - {'sts'}))} "
                "data has none: give each a step of its own"
            )
        self._check_others(kinds)
        needs_negative = self.objective.name in {"triplet", "distil-margins"}
        if needs_negative and "ranking" in kinds and self.negatives < 1:
            raise InputError(f"step {self.name!r}: {self.objective.name} needs negatives = 1 up")

    def _check_others(self, kinds: set[DataKind]) -> None:
        """Refuse batches with nothing in them to tell an example from."""
        name = self.objective.name
        hard = "triplets" in kinds or ("ranking" in kinds and self.negatives > 0)
        least = 3 if name == "batch-triplet" else 2 if name == "in-batch" and not hard else 1
        if self.batch_size < least:
            raise InputError(
                f"step {self.name!r}: batch_size is {self.batch_size}, and {name} tells an example "
                f"from the others of its batch: give {least} or more"
            )

    def _check_teacher(self) -> None:
        name = self.objective.name
        needs = name in {"distil-vectors", "pair-distillation"}
        own = {data.kind == "margins" for data in self.data}
        if len(own) > 1:
            raise InputError(
                f"step {self.name!r}: some data has margins of its own and some needs a teacher's: "
                "give each a step of its own"
            )
        may = needs or (name == "distil-margins" and own == {False})
        if may and self.teacher is None:
            raise InputError(f"step {self.name!r}: {name} needs a teacher: name a model")
        if self.teacher is not None and not may:
            raise InputError(f"step {self.name!r}: {name} takes no teacher here")

    def _check_matryoshka(self) -> None:
        for name in ("matryoshka", "matryoshka_weights"):
            given = getattr(self, name)
            if not isinstance(given, list | tuple):
                raise InputTypeError(f"{name} is {given!r:.60}, expected a list of numbers")
            object.__setattr__(self, name, tuple(given))
        widths = self.matryoshka
        if widths and self.objective.model == "cross-encoder":
            raise InputError(f"step {self.name!r}: matryoshka is for vectors, not cross-encoders")
        if any(not isinstance(w, int) or w < 1 for w in widths) or len(set(widths)) < len(widths):
            raise InputError(f"matryoshka is {list(widths)}, expected widths, each once")
        weights = self.matryoshka_weights
        if weights and (not widths or len(weights) != len(widths) + 1):
            raise InputError(
                f"matryoshka_weights has {len(weights)} numbers, expected {len(widths) + 1}: one "
                "a width and the full one's"
            )
        for weight in weights:
            positive("a weight of matryoshka_weights", weight)


def _columns(kind: str, negatives: int) -> int:
    """How many texts an example of a kind has."""
    return {"texts": 1, "labelled": 1, "triplets": 3, "margins": 3}.get(
        kind, 2 + negatives if kind == "ranking" else 2
    )


@dataclass(frozen=True, kw_only=True)
class TrainConfig:
    """A training run.

    Args:
        model: What to start from: a folder, a packaged name or a hub id.
        steps: What is done, in order.
        kind: "bi-encoder"; "two-encoders", one for queries and one for passages (DPR), both
            starting from the model; "cross-encoder".
        weights: "pretrained", or "random" for the model's architecture alone.
        pooling: How token vectors become one, several joined by "+"; None is the model's own.
        normalize: Whether vectors leave with length 1; None is the model's own.
        max_length: Tokens a text, or a pair, may have; None is the model's own.
        dropout: Of the transformer while training; None is the model's own.
        seed: Of all that is drawn: weights, order, dropout, crops.
        device: "auto", "cpu", "cuda", "mps".
        precision: "float32", "bfloat16", "float16" (mixed, weights stay in float32), or "auto".
        save_every: Updates between checkpoints.
        keep_checkpoints: How many of a step are kept.
        log_every: Updates between two entries of the log.
        dev: What is measured meanwhile, and whether the best model is kept.
        report_to: Where transformers' loop logs beside `training.jsonl`: names of its
            integrations, such as "tensorboard" and "wandb", whose libraries are installed.

    Raises:
        InputError: A value is out of range, or an objective is for another kind of model.
        InputTypeError: A value is of another kind.
    """

    model: str
    steps: tuple[TrainStep, ...]
    kind: ModelKind = "bi-encoder"
    weights: Weights = "pretrained"
    pooling: str | None = None
    normalize: bool | None = None
    max_length: int | None = None
    dropout: float | None = None
    seed: int = 0
    device: str = "auto"
    precision: Precision = "float32"
    save_every: int = 500
    keep_checkpoints: int = 2
    log_every: int = 50
    dev: TrainDev | None = None
    report_to: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        one_of("kind", self.kind, get_args(ModelKind))
        one_of("weights", self.weights, get_args(Weights))
        one_of("precision", self.precision, ("auto", *DTYPES))
        if self.normalize is not None:
            switch("normalize", self.normalize)
        expect(self.device, str, "device")
        self._check_reports()
        if self.pooling is not None:
            pooling_modes(self.pooling)
        if self.max_length is not None:
            in_range("max_length", self.max_length, least=1, of="TrainConfig")
            check_length("max_length", self.max_length, None)
        if not isinstance(self.model, str) or not self.model:
            raise InputError(f"model is {self.model!r}, expected a folder, a name or a hub id")
        in_range("seed", self.seed, least=0, most=2**32 - 1, of="TrainConfig")
        for name in ("save_every", "keep_checkpoints", "log_every"):
            in_range(name, getattr(self, name), least=1, most=_MOST, of="TrainConfig")
        if self.dropout is not None:
            in_range("dropout", self.dropout, least=0, most=0.99, whole=False, of="TrainConfig")
        self._check_steps()
        if self.dropout == 0 and (twice := [s.name for s in self.steps if s.view == "twice"]):
            raise InputError(
                f"step {twice[0]!r}: the two views of a text differ by dropout alone, and dropout "
                "is 0: give 0.1, or leave it out"
            )
        if self.dev is not None:
            expect(self.dev, TrainDev, "dev")
            self._check_dev(self.dev)
        if self.kind == "cross-encoder" and (self.pooling or self.normalize is not None):
            raise InputError("pooling and normalize are for bi-encoders: leave them out")

    def _check_reports(self) -> None:
        given = (self.report_to,) if isinstance(self.report_to, str) else self.report_to
        if not isinstance(given, list | tuple) or not all(isinstance(name, str) for name in given):
            raise InputTypeError(f"report_to is {given!r:.60}, expected a name or a list of names")
        object.__setattr__(self, "report_to", tuple(given))

    def _check_steps(self) -> None:
        steps = (self.steps,) if isinstance(self.steps, TrainStep) else tuple(self.steps)
        object.__setattr__(self, "steps", steps)
        for step in self.steps:
            expect(step, TrainStep, "a step")
        names = [step.name for step in self.steps]
        if not names or len(set(names)) < len(names):
            raise InputError(f"steps are {names}, expected one or more, each with its own name")
        wanted = "cross-encoder" if self.kind == "cross-encoder" else "bi-encoder"
        for step in self.steps:
            if step.objective.model != wanted:
                raise InputError(
                    f"step {step.name!r}: {step.objective.name} trains a {step.objective.model}, "
                    f"and kind is {self.kind!r}"
                )
            if self.kind == "two-encoders":
                _check_both_learn(step)

    def _check_dev(self, dev: TrainDev) -> None:
        dev.figure(self.kind)
        names = [step.name for step in self.steps]
        if unknown := [name for name in dev.steps if name not in names]:
            raise InputError(f"dev names the step {unknown[0]!r}, expected {', '.join(names)}")
        if dev.ranks and self.kind == "cross-encoder":
            raise InputError(f"dev has {dev.data.kind} data, and a cross-encoder takes sts")
        if not dev.ranks and self.kind == "two-encoders":
            raise InputError("dev has sts data, and two encoders take pairs, triplets, ranking")
        for step in self.steps:
            several = len(getattr(step.objective, "outputs", ("score",))) > 1
            if several and dev.measures(step.name):
                raise InputError(
                    f"step {step.name!r}: {step.objective.name} gives labels and no score that dev "
                    "could measure: name under dev.steps those that give one"
                )


def _check_both_learn(step: TrainStep) -> None:
    """The second column is what the passages' encoder learns from."""
    for data in step.data:
        if step.view is None and _columns(data.kind, step.negatives) == 1:
            raise InputError(
                f"step {step.name!r}: {step.objective.name} over {data.kind} data has one text an "
                "example, so that of two encoders only the queries' would learn: give data of "
                "pairs, or set kind to 'bi-encoder'"
            )
