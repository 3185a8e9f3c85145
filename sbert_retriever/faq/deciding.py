"""What to do with what a question matched."""

from __future__ import annotations

import warnings
from dataclasses import dataclass

from sbert_retriever.errors import FallbackWarning
from sbert_retriever.faq.calibration import Calibration, Setup, Thresholds
from sbert_retriever.faq.entries import Outcome
from sbert_retriever.faq.matching import Matched


@dataclass
class Judge:
    """Decides by what was calibrated, else by thresholds.

    Args:
        thresholds: Of the caller, or the model's; None where the model was not measured.
        calibration: Comes before them.
        setup: What scores depend on.
        outdated: Why a calibration that was kept does not hold; None where it does or none was.
    """

    thresholds: Thresholds | None
    calibration: Calibration | None
    setup: Setup
    outdated: str | None = None
    _told: bool = False

    def decided(self, found: Matched) -> tuple[Outcome, float | None]:
        """What to do, and the calibrated chance that the first entry is right."""
        if not found.matches:
            return "abstain", None
        # Taken once: another thread may put another in its place.
        features, known = found.features, self.calibration
        # Without the cross-encoder's word (no time, or it failed) what goes by it does not hold.
        if known is not None and set(known.right.features) <= set(features):
            return known.decided(features)
        if self.thresholds is None:
            self._tell()
            return "choose", None
        return self.thresholds.outcome(score=features["score"], margin=features["margin"]), None

    def learn(self, calibration: Calibration) -> None:
        """Go by a calibration from now on."""
        self.calibration, self.outdated = calibration, None

    def tell_outdated(self) -> None:
        """Warn once, where answers are due, that the calibration that was kept does not hold."""
        if self.outdated is not None:
            reason, self.outdated = self.outdated, None
            warnings.warn(reason, FallbackWarning, stacklevel=4)

    def _tell(self) -> None:
        if not self._told:
            self._told = True
            warnings.warn(
                f"no thresholds are known for an FAQ with {self.setup}, "
                "so questions get a list to choose from and never an answer: calibrate the FAQ, "
                "or open it with thresholds=Thresholds(...)",
                FallbackWarning,
                stacklevel=4,
            )
