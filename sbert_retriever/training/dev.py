"""A development set: what a model is measured on while it is trained, and how often."""

from __future__ import annotations

from dataclasses import dataclass

from sbert_retriever.errors import InputError
from sbert_retriever.training.data import TrainData
from sbert_retriever.training.kinds import ModelKind
from sbert_retriever.training.objectives.settings import switch
from sbert_retriever.types.checks import expect, in_range

_RANKED = ("pairs", "triplets", "ranking")
_CORRELATIONS = ("spearman", "pearson")
_MOST = 1_000_000_000


@dataclass(frozen=True, kw_only=True)
class TrainDev:
    """A development set, measured before the first update of a step, every so many, and after.

    | kind of data | measured | of |
    |---|---|---|
    | sts | correlation with the scores, times 100 | bi-encoders, cross-encoders |
    | pairs, triplets, ranking | rankings of all passages in the data, 0 to 1 | both bi-encoders |

    Args:
        data: What is measured on; it should have nothing in common with what is trained on.
        every: Updates between two measurements.
        measure: For sts "spearman" (also where None is given), "pearson", or one of a similarity,
            such as "spearman_dot"; else "nDCG@10" (for None), "MRR@10", "recall@10" and so on.
        keep_best: Whether a step ends with the best model that was measured in it, of equal ones
            the earliest, and not with the last.
        steps: Names of the steps in which it is measured; none means all.

    Raises:
        InputError: The data is of another kind, or a value is out of range.
        InputTypeError: The data is none.
    """

    data: TrainData
    every: int = 100
    measure: str | None = None
    keep_best: bool = False
    steps: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        expect(self.data, TrainData, "dev: data")
        if self.data.kind not in ("sts", *_RANKED):
            raise InputError(
                f"dev has {self.data.kind} data, which nothing is measured on, expected sts, "
                f"{', '.join(_RANKED)}"
            )
        in_range("every", self.every, least=1, most=_MOST, of="TrainDev")
        switch("keep_best", self.keep_best)
        steps = (self.steps,) if isinstance(self.steps, str) else tuple(self.steps)
        object.__setattr__(self, "steps", steps)

    @property
    def ranks(self) -> bool:
        """Whether rankings are measured, not correlations."""
        return self.data.kind != "sts"

    def measures(self, step: str) -> bool:
        """Whether it is measured in a step of this name."""
        return not self.steps or step in self.steps

    def figure(self, kind: ModelKind) -> str:
        """The evaluation's name of what is measured of a kind of model: "spearman_cosine".

        Raises:
            InputError: The measure is unknown, or is none of that kind of model and data.
        """
        if self.ranks:
            from sbert_retriever.evaluation.ranking import spelt

            return spelt("nDCG@10" if self.measure is None else self.measure)
        from sbert_retriever.evaluation.similarity import SIMILARITIES

        scores = ("score",) if kind == "cross-encoder" else tuple(SIMILARITIES)
        short = {name: f"{name}_{scores[0]}" for name in _CORRELATIONS}
        known = [f"{name}_{score}" for name in _CORRELATIONS for score in scores]
        name = "spearman" if self.measure is None else self.measure
        if name not in short and name not in known:
            raise InputError(
                f"dev: measure is {name!r}, expected one of {', '.join([*short, *known])}"
            )
        return short.get(name, name)
