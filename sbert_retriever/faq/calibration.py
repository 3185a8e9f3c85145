"""When an FAQ answers, and how sure it is: thresholds, and what `Faq.calibrate` learned."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from sbert_retriever.errors import ContractError
from sbert_retriever.faq.entries import Outcome
from sbert_retriever.types.checks import in_range

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

KEY = "sbert_retriever_faq"
"""In the collection's metadata."""
FORMAT_VERSION = 1
_OF_CHOOSE = 0.3


@dataclass(frozen=True, kw_only=True)
class Thresholds:
    """When to answer, where nothing was calibrated.

    Args:
        score: An answer's entry has at least this score.
        margin: And is at least so far above the next entry.
        choose: A list to choose from begins with an entry of at least this score.
        follow_up: What is found for a follow-up and the last question together counts only where
            the follow-up by itself scores at least this with the entry that comes first. None is
            three tenths of `choose`, or `choose` where that is below zero.

    Raises:
        InputError: A value is not finite.
        InputTypeError: A value is no number.
    """

    score: float
    margin: float = 0.0
    choose: float
    follow_up: float | None = None

    def __post_init__(self) -> None:
        for name in ("score", "margin", "choose", "follow_up"):
            value = getattr(self, name)
            if name != "follow_up" or value is not None:
                in_range(name, value, least=-math.inf, whole=False, of=type(self).__name__)

    @property
    def said_by_itself(self) -> float:
        """`follow_up`, or what None stands for."""
        if self.follow_up is not None:
            return self.follow_up
        return min(self.choose, _OF_CHOOSE * self.choose)

    def outcome(self, *, score: float, margin: float) -> Outcome:
        """What to do with a question.

        Args:
            score: Of the best entry.
            margin: How far the next entry is below.
        """
        if score >= self.score and margin >= self.margin:
            return "answer"
        return "choose" if score >= self.choose else "abstain"


@dataclass(frozen=True, kw_only=True)
class Logistic:
    """A chance between 0 and 1 from some features.

    Args:
        features: Their names.
        means: What each is on average.
        scales: Its deviation.
        weights: What each weighs, in deviations.
        intercept: Added to the weighted sum.
    """

    features: tuple[str, ...]
    means: tuple[float, ...]
    scales: tuple[float, ...]
    weights: tuple[float, ...]
    intercept: float

    def chance(self, values: Mapping[str, float]) -> float:
        """The chance, from features by their names."""
        return float(self.chances([[values[name] for name in self.features]])[0])

    def chances(self, rows: Sequence[Sequence[float]] | npt.NDArray[np.float64]) -> Any:
        """The chances, float64 (n,), from rows of features (n, features)."""
        import numpy as np

        values = np.asarray(rows, dtype=np.float64).reshape(-1, len(self.features))
        centred = (values - np.array(self.means)) / np.array(self.scales)
        sums = centred @ np.array(self.weights) + self.intercept
        return 1 / (1 + np.exp(-np.clip(sums, -30, 30)))


@dataclass(frozen=True, kw_only=True)
class Setup:
    """What scores depend on: a calibration holds for the setup that it was made with.

    Args:
        model: Of the encoder: the hash of its weights, else its name.
        mode: "dense", "sparse" or "hybrid".
        answers: Whether answers are matched too.
        reranker: The cross-encoder's name; None where there is none.
    """

    model: str | None
    mode: str
    answers: bool = False
    reranker: str | None = None


@dataclass(frozen=True, kw_only=True)
class Calibration:
    """What `Faq.calibrate` learned; it is kept with the collection.

    Args:
        right: The chance that the first candidate answers the question.
        listed: The chance that one of the first candidates does.
        answer_at: The least chance by `right` at which the answer is given.
        choose_at: The least chance by `listed` at which a list is given.
        exact: The chance that a question which is a phrasing is answered rightly.
        setup: What it was made with.
        target_precision: The share of answers that should be right.
        questions: How many labelled questions it was made of.
        out_of_scope_share: The share of them that no entry answers; precision holds for that.
        precision: Of the answers, cross-validated.
        coverage: The share of the questions in scope that got an answer, cross-validated.
    """

    right: Logistic
    listed: Logistic
    answer_at: float
    choose_at: float
    exact: float
    setup: Setup
    target_precision: float
    questions: int
    out_of_scope_share: float
    precision: float
    coverage: float

    def decided(self, features: Mapping[str, float]) -> tuple[Outcome, float]:
        """What to do with a question, and the chance that its first candidate answers it."""
        chance = self.right.chance(features)
        if chance >= self.answer_at:
            return "answer", chance
        listed = self.listed.chance(features) >= self.choose_at
        return ("choose" if listed else "abstain"), chance

    def to_metadata(self) -> dict[str, Any]:
        """As plain JSON."""
        return asdict(self)

    @classmethod
    def from_metadata(cls, raw: Mapping[str, Any]) -> Calibration:
        """Read it back.

        Raises:
            ContractError: It has settings that this version does not know, or is damaged.
        """
        try:
            models = {name: _logistic(raw[name]) for name in ("right", "listed")}
            return cls(**{**raw, **models, "setup": Setup(**raw["setup"])})
        except (KeyError, TypeError, ValueError) as error:
            raise ContractError(
                f"the FAQ's saved calibration cannot be used ({error}): make one anew with "
                "`sbert-retriever faq calibrate`, or upgrade sbert-retriever"
            ) from error


def _logistic(raw: Mapping[str, Any]) -> Logistic:
    lists = {name: tuple(raw[name]) for name in ("features", "means", "scales", "weights")}
    return Logistic(**{**raw, **lists})
