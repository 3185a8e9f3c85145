"""What `sbert-retriever evaluate` does between its options and its output."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from sbert_retriever.cli.opening import open_existing
from sbert_retriever.cli.output import say
from sbert_retriever.counting import counted
from sbert_retriever.encoder.cross_encoder import CrossEncoder
from sbert_retriever.errors import InputError
from sbert_retriever.evaluation.bootstrap import PairedDifference
from sbert_retriever.evaluation.models import ModelOptions, load_model
from sbert_retriever.evaluation.results import SetResult, TaskResult, shown
from sbert_retriever.evaluation.significance import Test, compare, sentences
from sbert_retriever.evaluation.tasks import Plan

_COLLECTION = "default"


class Runner:
    """Measures models by one plan.

    Args:
        plan: A task whose data is read.
        how: How models are loaded.
        label: Of a cross-encoder with several.
        index: The location of a live collection; None searches exactly.
        live: Its name as `collection`, its `tenant`, and the server's `api_key`.
        quiet: Whether nothing is said meanwhile.
    """

    def __init__(
        self,
        plan: Plan,
        how: ModelOptions,
        *,
        label: str | None,
        index: str | None,
        live: Mapping[str, Any],
        quiet: bool,
    ) -> None:
        if index is not None and plan.task != "retrieval":
            raise InputError(f"--index is for the task retrieval, and the task is {plan.task}")
        for name, usual in (("collection", _COLLECTION), ("tenant", None)):
            if index is None and live[name] != usual:
                raise InputError(f"--{name} is of a live collection: name that with --index")
        if index is not None and (label is not None or how.pooling is not None):
            raise InputError(
                "--pooling and --label say how a model is loaded, and a live collection says that "
                "itself: leave them out, or leave --index out"
            )
        self._plan, self._how = plan, how
        self._label = int(label) if label is not None and label.isdigit() else label
        self._index, self._live_settings = index, live
        self._quiet = quiet
        self.saw_cross_encoder = False

    def measured(self, name: str, *, beside: bool = False) -> TaskResult:
        """What a model is worth.

        Args:
            name: Of a model, or of a TREC run where rankings are measured.
            beside: Whether it is loaded as it is, though another was given a pooling.
        """
        if self._index is not None:
            return self._live(name)
        if self._plan.task == "retrieval" and Path(name).is_file():
            return self._plan.run(Path(name), name=name, on_set=self._say)
        how = replace(self._how, pooling=None) if beside else self._how
        model = load_model(name, how, label=self._label, all_labels=self._plan.all_labels)
        self.saw_cross_encoder |= isinstance(model, CrossEncoder)
        return self._plan.run(model, name=name, on_set=self._say)

    def _live(self, name: str) -> TaskResult:
        with open_existing(
            self._index or "",
            **self._live_settings,
            model=name,
            device=self._how.device,
            dtype=self._how.dtype,
        ) as retriever:
            return self._plan.run(retriever, name=name, on_set=self._say)

    def _say(self, one: SetResult) -> None:
        if not self._quiet:
            figure = shown(one.figures[one.headline])
            say(
                f"{one.name}: {one.headline} {figure} ({counted(one.items, 'item')}, "
                f"{one.seconds:.0f} s)"
            )


class Report:
    """The results of one, two or three models.

    Args:
        found: The first is the one that was asked about.
        compared: Whether the second is what it is compared with.
        test: Where p comes from.
        draws: How often items are drawn.
        seed: Of the draws.
    """

    def __init__(
        self, found: Sequence[TaskResult], *, compared: bool, test: Test, draws: int, seed: int
    ) -> None:
        self._found = found
        self._test = test
        self._differences: dict[str, PairedDifference] = {}
        if compared:
            self._differences = compare(found[0], found[1], test=test, draws=draws, seed=seed)

    def to_dict(self) -> dict[str, Any]:
        """For JSON: the first model's figures; others under `others`."""
        made = self._found[0].to_dict()
        if len(self._found) > 1:
            made["others"] = [other.to_dict() for other in self._found[1:]]
        if self._differences:
            made["against"] = {
                "model": self._found[1].model,
                "test": self._test,
                "differences": {
                    name: {"clear": d.clear, **asdict(d)} for name, d in self._differences.items()
                },
            }
        return made

    def text(self) -> str:
        """A table a model, and a sentence for each difference."""
        parts = [f"{one.task}, {one.model}\n{one.table()}" for one in self._found]
        if self._differences:
            against = self._found[1].model
            parts.append("\n".join(sentences(self._differences, against=against)))
        return "\n\n".join(parts)

    def draw(self, path: str) -> None:
        """Bars of every model's headline."""
        from sbert_retriever.evaluation.plots import write_comparison

        write_comparison(self._found, path)
