"""How good rankings are: the field's measures by name, query by query, through ir-measures.

| name | measure |
|---|---|
| `nDCG@10` | normalised discounted cumulative gain, the grade itself as gain |
| `nDCG_exp@10` | the same with 2^grade - 1 as gain (Burges et al. 2005) |
| `MAP`, `MAP@100` | mean average precision |
| `MRR`, `MRR@10` | one over the rank of the first relevant passage |
| `recall@10` | share of the relevant passages that were found |
| `precision@10` | relevant passages among the first 10, over 10 however few were found |

Grades above 0 are relevant. A judged query without an answer counts as 0; an answer to a query
that nobody judged does not count.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sbert_retriever.errors import InputError, MissingExtraError
from sbert_retriever.evaluation.read_ranking import Qrels, Run

DEFAULT_MEASURES = ("nDCG@10", "recall@10", "MRR@10")
_NAME = re.compile(r"(\w+?)(?:@(\d+))?")
# 2^30 is where the gains would leave what the reference program counts in.
_HIGHEST_GRADE = 30


@dataclass(frozen=True)
class RankingResult:
    """The values of some measures.

    Args:
        per_query: {measure: {query id: value}}, each in 0 to 1.
    """

    per_query: Mapping[str, Mapping[str, float]]

    @property
    def means(self) -> dict[str, float]:
        """{measure: its mean over the judged queries}."""
        return {name: sum(v.values()) / len(v) for name, v in self.per_query.items()}

    @property
    def queries(self) -> int:
        """How many queries were judged."""
        return len(next(iter(self.per_query.values())))

    def table(self) -> str:
        """Names and means, one a line."""
        width = max(map(len, self.per_query))
        lines = [f"{name:<{width}}  {mean:.4f}" for name, mean in self.means.items()]
        return "\n".join([*lines, f"{'queries':<{width}}  {self.queries}"])

    def to_json(self) -> str:
        """Means and the values of every query."""
        values = {name: dict(by_query) for name, by_query in self.per_query.items()}
        return json.dumps({"queries": self.queries, "means": self.means, "per_query": values})


def evaluate(
    run: Mapping[str, Mapping[str, float]],
    qrels: Qrels,
    *,
    measures: Iterable[str] = DEFAULT_MEASURES,
) -> RankingResult:
    """Measure a run against judgements.

    Args:
        run: {query id: {passage id: score}}. Where scores tie, the reference program orders by
            passage id; `run_of` makes a run whose order is exactly that of a list.
        qrels: {query id: {passage id: grade}}.
        measures: Names, see the module.

    Raises:
        InputError: A measure is unknown, nothing is judged, or a grade is too high.
        MissingExtraError: ir-measures is not installed.

    Examples:
        >>> run = run_of({"q": ["b", "a"]})
        >>> evaluate(run, {"q": {"a": 1}}, measures=["MRR", "recall@1"]).means
        {'MRR': 0.5, 'recall@1': 0.0}
    """
    names = [spelt(name) for name in measures]
    if not names:
        raise InputError("no measure was named: give at least one, such as 'nDCG@10'")
    if not qrels:
        raise InputError("nothing is judged: the qrels are empty")
    made = {foreign_measure(name, qrels): name for name in names}
    values: dict[str, dict[str, float]] = {name: {} for name in names}
    given = {query: dict(scores) for query, scores in run.items() if query in qrels}
    library = _ir_measures()
    for measure, name in made.items():
        # One at a time: asked for nDCG@2 with two kinds of gains at once, it gives 0 for one.
        for metric in library.iter_calc([measure], qrels, given):
            values[name][metric.query_id] = float(metric.value)
    # ir-measures leaves queries out that it was given no answer to at all.
    return RankingResult(
        {name: {query: found.get(query, 0.0) for query in qrels} for name, found in values.items()}
    )


def run_of(rankings: Mapping[str, Sequence[str]]) -> Run:
    """A run out of passage ids, best first; its scores count down to 1.

    Raises:
        InputError: A passage answers a query twice.
    """
    run: Run = {}
    for query, ids in rankings.items():
        run[query] = {passage: float(len(ids) - rank) for rank, passage in enumerate(ids)}
        if len(run[query]) != len(ids):
            raise InputError(f"query {query[:80]!r} is answered with one passage twice")
    return run


def spelt(measure: str) -> str:
    """A measure's name as this module writes it.

    Raises:
        InputError: It is unknown.

    Examples:
        >>> spelt("ndcg@10"), spelt("RECALL@5")
        ('nDCG@10', 'recall@5')
    """
    match = _NAME.fullmatch(measure) if isinstance(measure, str) else None
    kind = {name.lower(): name for name in _KINDS}.get(match[1].lower()) if match else None
    cut = int(match[2]) if match and match[2] else None
    if kind is None or cut == 0 or (cut is None and kind in {"recall", "precision"}):
        raise InputError(
            f"the measure {measure!r} is unknown: write nDCG@10, nDCG_exp@10, MAP, MRR@10, "
            "recall@10 or precision@10, with any number"
        )
    return kind if cut is None else f"{kind}@{cut}"


def foreign_measure(name: str, qrels: Qrels) -> Any:
    """The ir-measures object of a name that `spelt` gave.

    Args:
        name: Of the measure.
        qrels: Whose grades need a gain, for nDCG_exp.

    Raises:
        InputError: A grade is over 30, so that its exponential gain cannot be counted.
        MissingExtraError: ir-measures is not installed.
    """
    library = _ir_measures()
    kind, _, cut = name.partition("@")
    measure = _KINDS[kind](library, qrels)
    return measure @ int(cut) if cut else measure


_KINDS: dict[str, Callable[[Any, Qrels], Any]] = {
    "nDCG": lambda library, _: library.nDCG,
    "nDCG_exp": lambda library, qrels: library.nDCG(gains=_exponential_gains(qrels)),
    "MAP": lambda library, _: library.AP,
    "MRR": lambda library, _: library.RR,
    "recall": lambda library, _: library.R,
    "precision": lambda library, _: library.P,
}


def _exponential_gains(qrels: Qrels) -> dict[int, int]:
    """{grade: 2^grade - 1} of every grade that is there; none below 0."""
    grades = {grade for judged in qrels.values() for grade in judged.values()}
    highest = max(grades, default=0)
    if highest > _HIGHEST_GRADE:
        raise InputError(
            f"a grade is {highest}, and nDCG_exp takes up to {_HIGHEST_GRADE}: use nDCG"
        )
    return {grade: 2**grade - 1 if grade > 0 else 0 for grade in sorted({*grades, 0, 1})}


def _ir_measures() -> Any:
    try:
        import ir_measures
    except ImportError as error:
        raise MissingExtraError("ir_measures", extra="eval", purpose="measure rankings") from error
    return ir_measures
