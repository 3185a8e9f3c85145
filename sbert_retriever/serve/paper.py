"""The paper made plain on this machine: both ways to the most similar pair, and three poolings."""

from __future__ import annotations

import json
import threading
from typing import Any

import numpy as np

from sbert_retriever.errors import InputError, ModelError
from sbert_retriever.index.vectors import unit_rows
from sbert_retriever.serve.models import SharedModels

_SENTENCES = 500
_SAMPLE = 64
_POOLINGS = ("mean", "max", "cls")


class Paper:
    """What the page's second tab shows; measured or loaded when first asked for.

    Args:
        models: Those of the service.
        report: What `paper-efficiency --json` printed, to show it in the place of a measurement.
    """

    def __init__(self, models: SharedModels, *, report: dict[str, Any] | None = None) -> None:
        self._models = models
        self._guard = threading.Lock()
        self.report = report
        self._pooled: Any = None

    def efficiency(self) -> dict[str, Any]:
        """The report on 500 sentences and 64 pairs, or the one that was given."""
        with self._guard:
            if self.report is None:
                self.report = self._models.turn(self._measured, *self._models.raw())
            return self.report

    @staticmethod
    def _measured(encoder: Any, scorer: Any) -> dict[str, Any]:
        from sbert_retriever.tradeoff.efficiency import paper_efficiency
        from sbert_retriever.tradeoff.sentences import python_sentences

        sentences = python_sentences(_SENTENCES)
        report = paper_efficiency(sentences, encoder, scorer, sample=_SAMPLE)
        found: dict[str, Any] = json.loads(report.to_json())
        return found

    def pooling(self, sentences: list[str]) -> dict[str, Any]:
        """Cosines of all pairs by mean, max and CLS pooling of the same token vectors.

        Raises:
            InputError: The service's model is no transformer whose pooling can be changed.
        """
        with self._guard:
            if self._pooled is None:
                self._pooled = self._models.turn(self._load)
        vectors = self._models.turn(self._pooled.encode_passages, sentences)
        parts = np.split(vectors, len(_POOLINGS), axis=1)
        identity = self._models.encoder.identity
        return {
            "model": identity.name or "an encoder of its own",
            "trained_with": identity.pooling or "unknown",
            "cosines": {name: _cosines(part) for name, part in zip(_POOLINGS, parts, strict=True)},
        }

    def _load(self) -> Any:
        """The service's model once more, giving all three poolings side by side."""
        from sbert_retriever.encoder.bi_encoder import BiEncoder

        own = self._models.encoder.encoder
        if not isinstance(own, BiEncoder):
            raise InputError(f"{type(own).__name__} has no pooling to change")
        try:
            return BiEncoder.load(
                own.name,
                device=own.device,
                dtype=own.dtype,
                pooling="+".join(_POOLINGS),
                normalize=False,
                on_truncate="ignore",
            )
        except ModelError as error:
            raise InputError(f"the pooling of {own.name} cannot be changed: {error}") from error


def _cosines(vectors: Any) -> list[list[float]]:
    unit = unit_rows(vectors)
    matrix: list[list[float]] = np.round(unit @ unit.T, 4).astype(float).tolist()
    return matrix
