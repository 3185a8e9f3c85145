"""`Faq.calibrate`: labelled questions to a calibration, and a report of what it is worth."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from sbert_retriever.errors import InputError, InputTypeError
from sbert_retriever.faq.asking import Found
from sbert_retriever.faq.calibration import Calibration, Setup
from sbert_retriever.faq.conversation import Conversation
from sbert_retriever.faq.entries import FaqEntry, Feedback, Labelled
from sbert_retriever.faq.fitting import (
    Floats,
    Numbers,
    Truths,
    auroc,
    calibration_error,
    fitted,
    out_of_fold,
    threshold_for,
)
from sbert_retriever.faq.pairs import said_of
from sbert_retriever.faq.passages import exact_key, normalised
from sbert_retriever.faq.report import CalibrationReport, CurvePoint
from sbert_retriever.types.checks import in_range, whole

LISTED = 3
"""A list holds so many candidates."""
_CHOOSE_AT = 0.5
_BATCH = 256
_LEAST, _LEAST_OF_EACH = 30, 5
# Test questions of clinc150 and banking77 that are phrasings of theirs, and how many of them are of
# the same intent: what is known before a user's own are counted.
_EXACT, _EXACT_RIGHT = 52, 50
_SHARES = (0.05, 0.1, 0.2, 0.3, 0.5)
_CURVE_POINTS = 200


@dataclass(frozen=True, kw_only=True)
class Case:
    """A question, and what is known of its answer.

    Args:
        question: As a user asks it.
        right: The id of its entry; None where there is none, or it is unknown.
        wrong: The id of an entry that is not it, where no more is known.
        kept: Whether it is feedback, which stays when its entry is deleted.
    """

    question: str
    right: str | None
    wrong: str | None = None
    kept: bool = False


@dataclass(frozen=True, kw_only=True)
class Sample:
    """What is learned from.

    Args:
        features: Their names.
        values: (n, features).
        right: (n,): whether the first entry is the one.
        listed: (n,): whether one of the first is.
        in_scope: (n,): whether there is one; not so where that is unknown.
        exact: How many others are phrasings of one entry, of which it is known if it answers them.
        exact_right: How many of those it does.
        unclear: How many others there were of which nothing is known.
        unknown: (n,): whether no more is known than that the first entry is wrong, by feedback;
            None where it is none of them.
        same: (n,): a number that is one for questions which are one but for case, width and
            punctuation; None where all differ.
    """

    features: tuple[str, ...]
    values: Floats
    right: Truths
    listed: Truths
    in_scope: Truths
    exact: int
    exact_right: int
    unclear: int
    unknown: Truths | None = None
    same: Numbers | None = None

    @property
    def outside(self) -> Truths:
        """(n,): whether it is known that there is no entry."""
        return ~self.in_scope if self.unknown is None else ~(self.in_scope | self.unknown)

    def rows(self, chosen: npt.NDArray[np.int64]) -> Sample:
        """Some of the questions."""
        return replace(
            self,
            values=self.values[chosen],
            right=self.right[chosen],
            listed=self.listed[chosen],
            in_scope=self.in_scope[chosen],
            unknown=None if self.unknown is None else self.unknown[chosen],
            same=None if self.same is None else self.same[chosen],
        )


def learned(
    conversation: Conversation,
    labelled: Iterable[Labelled | Feedback | tuple[str, str | None]],
    *,
    target: float,
    share: float | None,
    folds: int,
    seed: int,
) -> CalibrationReport:
    """Learn when to answer; the arguments are those of `Faq.calibrate`.

    Raises:
        InputError: As for `Faq.calibrate`.
    """
    sample = sampled(conversation, cases_of(labelled))
    return calibrated(
        sample,
        conversation.judge.setup,
        target=target,
        share=share,
        folds=folds,
        seed=seed,
    )


def calibrated(
    sample: Sample,
    setup: Setup,
    *,
    target: float,
    share: float | None = None,
    folds: int = 5,
    seed: int = 0,
) -> CalibrationReport:
    """`learned`, of questions that were looked up.

    Raises:
        InputError: As for `Faq.calibrate`.
    """
    in_range("target_precision", target, least=0, most=1, whole=False, of="calibrate")
    if share is not None:
        in_range("out_of_scope_share", share, least=0, most=0.99, whole=False, of="calibrate")
    whole("folds", folds, least=2)
    _check_enough(sample)
    weights = _weights(sample, share)
    chances = out_of_fold(
        sample.values,
        sample.right,
        features=sample.features,
        weights=weights,
        folds=folds,
        seed=seed,
        same=sample.same,
    )
    threshold = threshold_for(chances, sample.right, target=target, weights=weights)
    if threshold is None:
        raise InputError(_out_of_reach(chances, sample, weights, target))
    answered = chances >= threshold
    right, listed = (
        fitted(sample.values, truth, features=sample.features, weights=weights)
        for truth in (sample.right, sample.listed)
    )
    calibration = Calibration(
        right=right,
        listed=listed,
        answer_at=threshold,
        choose_at=_CHOOSE_AT,
        exact=(_EXACT_RIGHT + sample.exact_right) / (_EXACT + sample.exact),
        setup=setup,
        target_precision=target,
        questions=len(sample.right),
        out_of_scope_share=_outside_share(sample, weights),
        precision=_share(sample.right[answered], weights[answered]),
        coverage=_share(answered[sample.in_scope], weights[sample.in_scope]),
    )
    return _reported(sample, chances, weights, calibration)


def sampled(conversation: Conversation, cases: Sequence[Case]) -> Sample:
    """Look every question up.

    Raises:
        InputError: An entry is unknown.
    """
    entries = list(conversation.shelf.all())
    ids = {entry.id for entry in entries}
    cases, given = [case for case in cases if not _is_stale(case, ids)], len(cases)
    stale = given - len(cases)
    _check_known(cases, ids)
    own = _owners(entries)
    said = [
        _exact_right(case, own[key]) for case in cases if (key := exact_key(case.question)) in own
    ]
    exact = [right for right in said if right is not None]
    asked = [case for case in cases if exact_key(case.question) not in own]
    pairs = [
        (case, found)
        for start in range(0, len(asked), _BATCH)
        for case, found in _looked_up(conversation, asked[start : start + _BATCH])
    ]
    known = [(case, found) for case, found in pairs if _is_clear(case, found)]
    names: tuple[str, ...] = tuple(known[0][1].matched.features) if known else ()
    rows = [[found.matched.features[name] for name in names] for _, found in known]
    return Sample(
        features=names,
        values=np.array(rows, dtype=np.float64).reshape(len(known), len(names)),
        right=np.array([_first(found) == case.right for case, found in known], dtype=bool),
        listed=np.array([_among(case, found) for case, found in known], dtype=bool),
        in_scope=np.array([case.right is not None for case, _ in known], dtype=bool),
        exact=len(exact),
        exact_right=sum(exact),
        unclear=len(asked) - len(known) + stale + len(said) - len(exact),
        unknown=np.array([case.wrong is not None for case, _ in known], dtype=bool),
        same=_numbered([case.question for case, _ in known]),
    )


def _owners(entries: Iterable[FaqEntry]) -> dict[str | None, set[str]]:
    """The entries that have a phrasing, by what is the same for its spellings."""
    own: dict[str | None, set[str]] = {}
    for entry in entries:
        for phrasing in entry.phrasings:
            own.setdefault(exact_key(phrasing), set()).add(entry.id)
    return own


def _exact_right(case: Case, owners: set[str]) -> bool | None:
    """Whether a question that is a phrasing gets the right answer; None where that is unknown.

    A phrasing of several entries gets a list, and no answer. Feedback is on one entry and says
    nothing of another; a label names the one that answers.

    Args:
        case: The question.
        owners: The entries that have it as a phrasing.
    """
    if owners == {case.right}:
        return True
    wrong = owners == {case.wrong} or (len(owners) == 1 and not case.kept)
    return False if wrong else None


def _numbered(questions: Sequence[str]) -> Numbers:
    """A number for each question, that of the first one that is the same."""
    numbers: dict[str, int] = {}
    found = [numbers.setdefault(normalised(each) or each, len(numbers)) for each in questions]
    return np.array(found, dtype=np.int64)


def _looked_up(conversation: Conversation, cases: Sequence[Case]) -> Iterable[tuple[Case, Found]]:
    found = conversation.lookup.nearest([case.question for case in cases], condition=None)
    return zip(cases, found, strict=True)


def cases_of(labelled: Iterable[Labelled | Feedback | tuple[str, str | None]]) -> list[Case]:
    """Labelled questions in one form; of several words of feedback on one answer the last.

    Raises:
        InputTypeError: One is none.
    """
    given: dict[object, object] = {}
    for place, item in enumerate(labelled):
        given[said_of(item) if isinstance(item, Feedback) else place] = item
    return [_case(item) for item in given.values()]


def _case(item: object) -> Case:
    if isinstance(item, Labelled):
        return Case(question=item.question, right=item.entry)
    if isinstance(item, Feedback):
        if item.good:
            return Case(question=item.question, right=item.entry, kept=True)
        return Case(question=item.question, right=None, wrong=item.entry, kept=True)
    if isinstance(item, tuple) and len(item) == 2:
        return _case(Labelled(question=item[0], entry=item[1]))
    raise InputTypeError(
        f"a labelled question is {item!r:.80}, expected (question, entry id or None)"
    )


def _is_stale(case: Case, known: set[str]) -> bool:
    """Whether it is feedback on an entry that was deleted: nothing is known of such a question."""
    return case.kept and (case.right or case.wrong) not in known


def _check_known(cases: Sequence[Case], known: set[str]) -> None:
    missing = sorted({case.right for case in cases if case.right is not None} - known)
    if missing:
        raise InputError(
            f"{len(missing)} labelled questions name entries that are not there, such as "
            f"{missing[0][:80]!r}: correct the ids, or add the entries"
        )


def _is_clear(case: Case, found: Found) -> bool:
    """Whether it is known of the first entry if it is right.

    That one entry is wrong says nothing of another, and where nothing matched, nothing is decided.
    """
    if not found.matched.matches or ("logit" not in found.matched.features and found.fallback):
        return False
    return case.wrong is None or _first(found) == case.wrong


def _first(found: Found) -> str:
    return found.matched.matches[0].entry


def _among(case: Case, found: Found) -> bool:
    return any(match.entry == case.right for match in found.matched.matches[:LISTED])


def _check_enough(sample: Sample) -> None:
    same = np.arange(len(sample.right)) if sample.same is None else sample.same
    n, right, wrong = (
        len(np.unique(same[chosen])) for chosen in (slice(None), sample.right, ~sample.right)
    )
    if n < _LEAST or min(right, wrong) < _LEAST_OF_EACH:
        raise InputError(
            f"{n} different questions can be learned from, of which the first entry answers "
            f"{right}: give "
            f"{_LEAST} at least, {_LEAST_OF_EACH} of which it answers and {_LEAST_OF_EACH} of "
            "which it does not (questions that no entry answers among them)"
        )


def _weights(sample: Sample, share: float | None) -> Floats:
    """How much each question counts, mean 1."""
    counts = np.ones(len(sample.right))
    if share is None:
        return counts
    inside, outside = int(sample.in_scope.sum()), int(sample.outside.sum())
    n = inside + outside
    if not outside or not inside:
        raise InputError(
            "out_of_scope_share says how much questions that no entry answers count, and the "
            f"labelled ones have {outside} of {n}: give both kinds"
        )
    counts[sample.in_scope] = (1 - share) * n / inside
    counts[sample.outside] = share * n / outside
    return counts


def _share(part: Truths, weights: Floats) -> float:
    """The weighted share; 0 of nothing, and where nothing counts."""
    return float(np.average(part, weights=weights)) if weights.sum() > 0 else 0.0


def _outside_share(sample: Sample, weights: Floats) -> float:
    """The weighted share that no entry answers, of the questions of which that is known."""
    known = sample.in_scope | sample.outside
    return _share(sample.outside[known], weights[known])


def _out_of_reach(chances: Floats, sample: Sample, weights: Floats, target: float) -> str:
    curve = _curve(chances, sample, weights)
    best = max(curve, key=lambda point: point.precision)
    return (
        f"no confidence gives a precision of {target:g} on these questions, with a standard error "
        f"to spare: the best is {best.precision:.3f} at a coverage of {best.coverage:.3f}. Give "
        "more questions, a lower target_precision, or the entries more phrasings"
    )


def _reported(
    sample: Sample, chances: Floats, weights: Floats, calibration: Calibration
) -> CalibrationReport:
    columns = dict(zip(sample.features, sample.values.T, strict=True))
    known = sample.in_scope | sample.outside
    measured = {
        name: auroc(values[known], sample.in_scope[known])
        for name, values in {**columns, "confidence": chances}.items()
    }
    return CalibrationReport(
        calibration=calibration,
        questions=len(sample.right),
        in_scope=int(sample.in_scope.sum()),
        exact=sample.exact,
        unclear=sample.unclear,
        scope_unknown=int((~known).sum()),
        accuracy=_share(sample.right[sample.in_scope], weights[sample.in_scope]),
        curve=_curve(chances, sample, weights),
        by_share=_by_share(chances >= calibration.answer_at, sample),
        auroc={name: value for name, value in measured.items() if value is not None},
        calibration_error=calibration_error(chances, sample.right, weights),
    )


def _curve(chances: Floats, sample: Sample, weights: Floats) -> tuple[CurvePoint, ...]:
    """Precision and coverage from each of some confidences on, the highest first."""
    levels = np.unique(np.quantile(chances, np.linspace(0, 1, _CURVE_POINTS), method="nearest"))
    inside = sample.in_scope
    points = []
    for level in levels[::-1]:
        answered = chances >= level
        points.append(
            CurvePoint(
                confidence=float(level),
                precision=_share(sample.right[answered], weights[answered]),
                coverage=float(answered[inside].mean()) if inside.any() else 0.0,
            )
        )
    return tuple(points)


def _by_share(answered: Truths, sample: Sample) -> dict[float, float]:
    """The precision, were another share of the questions out of scope."""
    inside, outside = sample.in_scope, sample.outside
    if not inside.any() or not outside.any():
        return {}
    right = float((answered & sample.right)[inside].mean())
    given, false = float(answered[inside].mean()), float(answered[outside].mean())
    shares = {}
    for share in _SHARES:
        answers = (1 - share) * given + share * false
        shares[share] = (1 - share) * right / answers if answers else 0.0
    return shares
