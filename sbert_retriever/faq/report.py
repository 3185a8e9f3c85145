"""What a calibration is worth: as a table, and as a picture."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from os import PathLike
from typing import Any

from sbert_retriever.faq.calibration import Calibration
from sbert_retriever.mining.picture import check_picture

_ROWS = 12


@dataclass(frozen=True, kw_only=True)
class CurvePoint:
    """What answering from one confidence on comes to, cross-validated.

    Args:
        confidence: The least at which an answer is given.
        precision: The share of the answers that are right.
        coverage: The share of the questions in scope that get one.
    """

    confidence: float
    precision: float
    coverage: float


@dataclass(frozen=True, kw_only=True)
class CalibrationReport:
    """What `Faq.calibrate` found; all figures are cross-validated on the labelled questions.

    Args:
        calibration: What is kept.
        questions: How many were learned from.
        in_scope: How many of them an entry answers.
        exact: How many others were phrasings of one entry, of which it is known if it answers them,
            and were left out; the share that it does makes the confidence of exact matches.
        unclear: How many others were left out: feedback on an entry that was deleted, or is not the
            one that comes first; and phrasings of several entries.
        accuracy: The share of the questions in scope whose entry comes first.
        curve: Precision and coverage, the highest confidence first.
        by_share: Precision of the answers were so large a share of the questions out of scope.
        auroc: How well each number tells the questions in scope from the others: the chance that it
            is larger for one in scope.
        calibration_error: The expected calibration error of the confidence, over 15 bins.
        scope_unknown: Of how many of the questions feedback says no more than that the first entry
            is wrong. Another may answer them: they count for the precision and the calibration
            error, and neither as in scope nor as out of it.
    """

    calibration: Calibration
    questions: int
    in_scope: int
    exact: int
    unclear: int
    accuracy: float
    curve: tuple[CurvePoint, ...]
    by_share: Mapping[float, float]
    auroc: Mapping[str, float]
    calibration_error: float
    scope_unknown: int = 0

    def table(self) -> str:
        """All of it as text."""
        kept = self.calibration
        rows = [
            f"questions            {self.questions} ({self.in_scope} in scope, "
            f"{kept.out_of_scope_share:.0%} counted as out of scope)",
            f"left out             {self.exact} phrasings of the FAQ itself, "
            f"{self.unclear} unclear",
            *self._unknown(),
            f"first entry right    {self.accuracy:.3f} of those in scope",
            f"answers from         confidence {kept.answer_at:.3f}",
            f"precision            {kept.precision:.3f} (target {kept.target_precision:g})",
            f"coverage             {kept.coverage:.3f} of the questions in scope",
            f"calibration error    {self.calibration_error:.3f}",
            "AUROC                "
            + (", ".join(f"{name} {value:.3f}" for name, value in self.auroc.items()) or "none")
            + ("" if self.auroc else ": give questions in scope and out of it"),
            "",
            "confidence  precision  coverage",
            *(
                f"{point.confidence:10.3f}  {point.precision:9.3f}  {point.coverage:8.3f}"
                for point in self.thinned(_ROWS)
            ),
        ]
        if self.by_share:
            rows += ["", "out of scope  precision"]
            rows += [f"{share:12.0%}  {value:9.3f}" for share, value in self.by_share.items()]
        return "\n".join(rows)

    def _unknown(self) -> list[str]:
        """What feedback leaves open, where there is such."""
        if not self.scope_unknown:
            return []
        return [
            f"scope unknown        {self.scope_unknown}, whose first entry is wrong by feedback: "
            "they count for",
            "                     the precision and the calibration error alone",
        ]

    def thinned(self, rows: int) -> list[CurvePoint]:
        """Some points of the curve, evenly spread over the coverage, its end among them."""
        if not self.curve:
            return []
        most = self.curve[-1].coverage
        wanted = [most * (n + 1) / rows for n in range(rows)]
        found = [
            next(point for point in self.curve if point.coverage >= least - 1e-12)
            for least in wanted
        ]
        return list(dict.fromkeys(found))

    def plot(self, path: str | PathLike[str]) -> None:
        """Draw precision over coverage into a .png or .svg file.

        Raises:
            InputError: The path has another ending, or its folder is not there.
            MissingExtraError: matplotlib is not installed.
        """
        target = check_picture(path)
        from matplotlib.figure import Figure

        figure = Figure(figsize=(6.4, 4.2), layout="constrained")
        self._draw(figure.subplots())
        figure.savefig(target, dpi=150)

    def _draw(self, axes: Any) -> None:
        kept = self.calibration
        axes.plot(
            [point.coverage for point in self.curve],
            [point.precision for point in self.curve],
            color="#1f6f8b",
        )
        axes.axhline(kept.target_precision, color="#999999", linewidth=1, linestyle="--")
        axes.plot([kept.coverage], [kept.precision], "o", color="#c0392b")
        axes.annotate(
            f"confidence {kept.answer_at:.2f}",
            (kept.coverage, kept.precision),
            textcoords="offset points",
            xytext=(-8, -14),
            ha="right",
        )
        axes.set_xlabel("coverage: questions in scope that get an answer")
        axes.set_ylabel("precision: answers that are right")
        axes.set_xlim(0, 1)
        axes.grid(alpha=0.3)
