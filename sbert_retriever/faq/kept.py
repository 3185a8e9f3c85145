"""The calibration that is kept with a collection: written, and followed where another makes it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from time import monotonic
from typing import Any

from sbert_retriever.errors import ContractError
from sbert_retriever.faq.calibration import FORMAT_VERSION, Calibration, Setup
from sbert_retriever.faq.deciding import Judge
from sbert_retriever.forks import Lock

EVERY_S = 5.0
"""Seconds from one look at what is kept to the next: questions are many, calibrations few."""


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What is kept of an FAQ with its collection.

    Args:
        answers: Whether answers are passages too.
        calibration: What `Faq.calibrate` learned, as plain JSON.
    """

    answers: bool
    calibration: Mapping[str, Any] | None = None

    def to_metadata(self) -> dict[str, Any]:
        """As plain JSON."""
        return {"format": FORMAT_VERSION, **vars(self)}

    @classmethod
    def from_metadata(cls, raw: Mapping[str, Any]) -> Settings:
        """Read them back.

        Raises:
            ContractError: They were written by a newer version.
        """
        if raw.get("format", 0) > FORMAT_VERSION:
            raise ContractError(
                f"the FAQ has format {raw.get('format')!r}, and this version reads up to "
                f"{FORMAT_VERSION}: upgrade sbert-retriever"
            )
        return cls(answers=bool(raw.get("answers")), calibration=raw.get("calibration"))


def fitting(raw: Mapping[str, Any] | None, setup: Setup) -> tuple[Calibration | None, str | None]:
    """The calibration that was kept, or why it does not hold for this setup.

    Raises:
        ContractError: It has settings that this version does not know, or is damaged.
    """
    if raw is None:
        return None, None
    kept = Calibration.from_metadata(raw)
    if kept.setup == setup:
        return kept, None
    differs = ", ".join(
        f"{name} was {getattr(kept.setup, name)!r} and is {value!r}"
        for name, value in vars(setup).items()
        if getattr(kept.setup, name) != value
    )
    return None, (
        f"the FAQ was calibrated with other settings ({differs}): it goes by thresholds, without "
        "a confidence. Open it as it was, or calibrate it anew"
    )


@dataclass
class Kept:
    """A calibration where every process that has the FAQ open finds it.

    Args:
        judge: Goes by it.
        settings: As they were when the FAQ was opened.
        read: Reads them again; None where nothing is kept any more.
        write: Puts others in their place.
    """

    judge: Judge
    settings: Settings
    read: Callable[[], Mapping[str, Any] | None]
    write: Callable[[Settings], None]
    _due: float = field(default_factory=lambda: monotonic() + EVERY_S)
    _guard: Lock = field(default_factory=Lock)

    def __post_init__(self) -> None:
        self._seen: Mapping[str, Any] = self.settings.to_metadata()

    def keep(self, calibration: Calibration) -> None:
        """Put a calibration in the place of the one before, and go by it from now on."""
        kept = calibration.to_metadata()
        self.write(Settings(answers=self.settings.answers, calibration=kept))
        self.judge.learn(calibration)

    def follow(self) -> None:
        """Go by what another process calibrated meanwhile, as if the FAQ was opened anew.

        Asks the engine once in some seconds, however many questions there are.
        """
        if not self._is_due():
            return
        raw = self.read()
        if raw is not None and raw != self._seen:
            self._seen = raw
            self._take(raw)

    def _take(self, raw: Mapping[str, Any]) -> None:
        try:
            found = Settings.from_metadata(raw)
            known, outdated = fitting(found.calibration, self.judge.setup)
        except ContractError as error:
            # Whoever asks is no worse off than before it was kept.
            self.judge.outdated = f"{error}; until then the FAQ goes by what it knew"
        else:
            self.judge.calibration, self.judge.outdated = known, outdated

    def _is_due(self) -> bool:
        """Whether it is this caller's turn to look."""
        with self._guard:
            now = monotonic()
            if now < self._due:
                return False
            self._due = now + EVERY_S
            return True
