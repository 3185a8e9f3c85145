"""The paper made plain on this machine: both ways to the most similar pair, and three poolings."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from time import perf_counter
from typing import Any

import numpy as np

from sbert_retriever.encoder.micro_batch import MicroBatchedEncoder
from sbert_retriever.errors import InputError, ModelError
from sbert_retriever.index.vectors import unit_rows
from sbert_retriever.serve.models import SharedModels
from sbert_retriever.serve.scorer import SharedScorer

_SENTENCES = 500
_SAMPLE = 64
_POOLINGS = ("mean", "max", "cls")


class Turns:
    """Turns of the models, and a clock that stands still while they are waited for.

    Args:
        turn: As for `MicroBatchedEncoder`.
    """

    def __init__(self, turn: Callable[..., Any]) -> None:
        self._turn, self._waited_s = turn, 0.0

    def __call__(self, function: Callable[..., Any], *args: Any) -> Any:
        """Run a function when it is its turn."""
        asked = perf_counter()
        found, taken_s = self._turn(_timed, function, *args)
        self._waited_s += perf_counter() - asked - taken_s
        return found

    def clock(self) -> float:
        """Seconds, without those that were waited."""
        return perf_counter() - self._waited_s


def _timed(function: Callable[..., Any], *args: Any) -> tuple[Any, float]:
    """What a function gives, and its seconds."""
    began = perf_counter()
    return function(*args), perf_counter() - began


class Paper:
    """What the page's second tab shows; measured or loaded when first asked for.

    Args:
        models: Those of the service.
        report: What `paper-efficiency --json` printed, to show it in the place of a measurement.
    """

    def __init__(self, models: SharedModels, *, report: dict[str, Any] | None = None) -> None:
        self._models = models
        self._guard, self._measuring = threading.Lock(), threading.Lock()
        self.report = report
        self._pooled: Any = None

    def efficiency(self) -> dict[str, Any]:
        """The report on 500 sentences and 64 pairs, or the one that was given.

        Others have their turns between its batches.
        """
        with self._measuring:
            if self.report is None:
                self.report = self._measured()
            return self.report

    def _measured(self) -> dict[str, Any]:
        from sbert_retriever.tradeoff.efficiency import described, paper_efficiency
        from sbert_retriever.tradeoff.sentences import python_sentences

        encoder, scorer = self._models.raw()
        turns = Turns(self._models.turn)
        report = paper_efficiency(
            python_sentences(_SENTENCES),
            MicroBatchedEncoder(encoder, wait_s=0.0, turn=turns),
            SharedScorer(scorer, turn=turns),
            sample=_SAMPLE,
            clock=turns.clock,
        )
        named = {"bi_encoder": described(encoder), "cross_encoder": described(scorer)}
        return {**json.loads(report.to_json()), **named}

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
