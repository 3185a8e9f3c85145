"""From records to figures: a table, the Pareto front, JSON, CSV."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from os import PathLike
from typing import Any

import numpy as np

from sbert_retriever.errors import InputError
from sbert_retriever.evaluation.bootstrap import PairedDifference, paired_bootstrap
from sbert_retriever.evaluation.ranking import evaluate, run_of
from sbert_retriever.tradeoff.layout import TIME_HEADS, aligned, cells, row
from sbert_retriever.tradeoff.points import BASELINE, OperatingPoint
from sbert_retriever.tradeoff.records import STAGES, Records, Setting, Timing, read_records

_AGAINST = (
    "There are no judgements: this shows how far each point is from {reference}, whose first {k} "
    "passages count as relevant, the first most. It does not show how good any answer is."
)
_TRUTHS = {
    "qrels": "Accuracy is measured against the judgements given.",
    "rerank": _AGAINST.replace("{reference}", "the deepest rerank, {point}"),
    "exact": _AGAINST.replace("{reference}", "exact search"),
}


@dataclass(frozen=True, kw_only=True)
class PointReport:
    """The figures of one operating point.

    Args:
        point: What was measured.
        accuracy: {measure: mean over the queries}; empty where the times were extrapolated.
        gain: Of the first measure over the bi-encoder alone; None for that itself.
        latency_ms: {stage: (median, 95th percentile)} of one query asked alone.
        pairs: How many passages a query the cross-encoder scored, on average.
        per_second: Queries a second, one after the other.
        memory_mb: Memory of the process while it was timed, models and Python included; None
            where it was not timed alone.
        vectors_mb: What the float32 vectors searched take.
        on_front: Whether no other point is both as fast and as accurate, and better in one.
        extrapolated: Whether the time was computed from a sample of the pairs.
    """

    point: OperatingPoint
    accuracy: Mapping[str, float]
    gain: PairedDifference | None
    latency_ms: Mapping[str, tuple[float, float]]
    pairs: float
    per_second: float
    memory_mb: float | None
    vectors_mb: float
    on_front: bool
    extrapolated: bool

    @property
    def p50_ms(self) -> float:
        """Median time of a query, all stages."""
        return self.latency_ms["total"][0]

    @property
    def p95_ms(self) -> float:
        """95th percentile of it."""
        return self.latency_ms["total"][1]


@dataclass(frozen=True, kw_only=True)
class TradeoffReport:
    """What accuracy costs, point by point.

    Args:
        setting: What was measured on.
        measures: Names, the one that points are chosen by first.
        queries: How many were answered.
        timed: How many were timed, one by one.
        sampled_pairs: Pairs a query that the extrapolation rests on.
        points: In the order in which they were asked for.
    """

    setting: Setting
    measures: tuple[str, ...]
    queries: int
    timed: int
    sampled_pairs: int
    points: tuple[PointReport, ...]

    @property
    def front(self) -> list[PointReport]:
        """The Pareto front, fastest first."""
        return sorted((p for p in self.points if p.on_front), key=lambda p: p.p50_ms)

    def __getitem__(self, name: str) -> PointReport:
        for point in self.points:
            if point.point.name == name:
                return point
        known = ", ".join(repr(p.point.name) for p in self.points)
        raise InputError(f"no point is named {name!r}; there are: {known}")

    @property
    def truth(self) -> str:
        """What accuracy means here, in words."""
        deepest = max(
            (p.point for p in self.points), key=lambda point: point.in_full * point.rerank
        )
        return _TRUTHS[self.setting.truth].format(point=repr(deepest.name), k=self.setting.k)

    def rows(self) -> list[dict[str, Any]]:
        """One flat mapping a point."""
        return [row(point, self.measures) for point in self.points]

    def to_json(self) -> str:
        """The setting and every figure."""
        whole = {
            "setting": asdict(self.setting),
            "truth": self.truth,
            "queries": self.queries,
            "timed": self.timed,
            "sampled_pairs": self.sampled_pairs,
            "front": [p.point.name for p in self.front],
            "points": [{**flat, "settings": asdict(p.point)} for flat, p in self._paired()],
        }
        return json.dumps(whole, indent=2, ensure_ascii=False)

    def _paired(self) -> list[tuple[dict[str, Any], PointReport]]:
        return list(zip(self.rows(), self.points, strict=True))

    def to_csv(self) -> str:
        """One line a point, under a header."""
        buffer = io.StringIO()
        rows = self.rows()
        writer = csv.DictWriter(buffer, fieldnames=list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
        return buffer.getvalue()

    def table(self) -> str:
        """For reading; the front is marked with *."""
        first = self.measures[0]
        head = [
            "",
            "point",
            *self.measures,
            f"{first} gain (95 %)",
            *TIME_HEADS,
            "pairs",
            "q/s",
            "MB",
        ]
        rows = [head, *(cells(point, self.measures) for point in self.points)]
        lines = aligned(rows)
        return "\n".join([*lines, "", *self._legend()])

    def _legend(self) -> list[str]:
        setting = self.setting
        lines = [
            self.truth,
            f"{self.queries} queries over {setting.passages:,} passages; times of {self.timed} "
            "queries asked one by one, median / 95th percentile in ms. * is on the Pareto front. "
            "A gain in brackets may be the luck of the queries.",
        ]
        if any(p.extrapolated for p in self.points):
            lines.append(
                f"~ is extrapolated from {self.sampled_pairs} pairs a query; nobody has measured "
                "how accurate it is."
            )
        if any(p.point.fitted for p in self.points):
            lines.append(
                "Where a weight is fitted, each half of the queries was answered with the weight "
                "that is best on the other half; the settings have the one that is best on all."
            )
        lines.extend(setting.notes)
        models = [setting.encoder, *([setting.scorer] if setting.scorer else []), setting.machine]
        return [*lines, "; ".join(models)]


def recompute(path: str | PathLike[str]) -> TradeoffReport:
    """Compute every figure again from a per-query file.

    Raises:
        ReadError: It is no such file.
        MissingExtraError: ir-measures is not installed.
    """
    return summarise(read_records(path))


def summarise(records: Records) -> TradeoffReport:
    """Compute every figure from what was measured.

    Raises:
        MissingExtraError: ir-measures is not installed.
    """
    measures = measure_names(records.setting)
    values = {
        point.name: _values(records, point.name, measures)
        for point in records.points
        if point.name in records.answers
    }
    drafts = [_point_report(records, point, values) for point in records.points]
    front = _front(drafts, measures[0])
    return TradeoffReport(
        setting=records.setting,
        measures=measures,
        queries=len(records.grades),
        timed=len(records.timings.get(BASELINE, [])),
        sampled_pairs=records.sampled_pairs,
        points=tuple(
            PointReport(**{**vars(draft), "on_front": draft.point.name in front})
            for draft in drafts
        ),
    )


def measure_names(setting: Setting) -> tuple[str, ...]:
    """What is measured, the measure that points are chosen by first."""
    k = setting.k
    if setting.truth == "qrels":
        return (f"nDCG@{k}", f"recall@{k}", f"MRR@{k}")
    return (f"nDCG@{k}", f"overlap@{k}")


def _values(
    records: Records, point: str, measures: tuple[str, ...]
) -> dict[str, Mapping[str, float]]:
    """{measure: {query: value}}. The overlap with k relevant passages is the recall at k."""
    asked = {name.replace("overlap", "recall"): name for name in measures}
    result = evaluate(run_of(records.answers[point]), records.grades, measures=list(asked))
    return {asked[name]: by_query for name, by_query in result.per_query.items()}


def _point_report(
    records: Records, point: OperatingPoint, values: Mapping[str, Mapping[str, Mapping[str, float]]]
) -> PointReport:
    timings = records.timings[point.name]
    found = values.get(point.name)
    totals = [timing.total for timing in timings]
    setting = records.setting
    return PointReport(
        point=point,
        accuracy={name: float(np.mean(list(v.values()))) for name, v in (found or {}).items()},
        gain=_gain(records, found, values[BASELINE]) if point.name != BASELINE else None,
        latency_ms={stage: _percentiles(timings, stage) for stage in STAGES},
        pairs=float(np.mean([timing.pairs for timing in timings])),
        per_second=1e3 / float(np.mean(totals)),
        memory_mb=records.memory_mb.get(point.name),
        vectors_mb=setting.passages * (point.profile.truncate_dim or setting.dim) * 4 / 1e6,
        on_front=False,
        extrapolated=point.everything,
    )


def _gain(
    records: Records,
    found: Mapping[str, Mapping[str, float]] | None,
    baseline: Mapping[str, Mapping[str, float]],
) -> PairedDifference | None:
    first = measure_names(records.setting)[0]
    if found is None:
        return None
    return paired_bootstrap(found[first], baseline[first], seed=records.setting.seed)


def _percentiles(timings: list[Timing], stage: str) -> tuple[float, float]:
    low, high = np.percentile([getattr(timing, stage) for timing in timings], [50, 95])
    return float(low), float(high)


def _front(points: list[PointReport], measure: str) -> set[str]:
    """Names of the points that no other beats in one of time and accuracy and equals in both."""
    shown = [(p.point.name, p.p50_ms, p.accuracy[measure]) for p in points if p.accuracy]
    return {
        name
        for name, ms, value in shown
        if not any(
            other_ms <= ms and other >= value and (other_ms < ms or other > value)
            for _, other_ms, other in shown
        )
    }
