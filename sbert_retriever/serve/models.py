"""The models of a service: one thread runs them, so that they do not fight for the processor."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from enum import Enum
from typing import TYPE_CHECKING, Any

from sbert_retriever.encoder.micro_batch import MicroBatchedEncoder
from sbert_retriever.errors import InputError, ModelNotFoundError
from sbert_retriever.rerank import Reranker
from sbert_retriever.serve.scorer import SharedScorer
from sbert_retriever.types import DEFAULT_RERANKER, Encoder

if TYPE_CHECKING:
    from sbert_retriever.encoder.cross_encoder import CrossEncoder


class Wanted(Enum):
    """What a cross-encoder is wanted for, and what to do where there is none."""

    REQUEST = (
        "the request asks for a rerank",
        "leave budget_ms, candidates, rerank_mode, rerank_threshold and profile out",
    )
    PROFILE = (
        "the collection's profile asks for a rerank",
        "save one with the collection that does not",
    )
    FAQ = ("the FAQ is to be reranked", "leave --faq-rerank out")
    ROUTE = ("/rerank takes a cross-encoder", "do without it")
    MEASURE = ("the measurement takes a cross-encoder", "do without it")


class SharedModels:
    """An encoder and a cross-encoder that take turns.

    Args:
        encoder: What makes vectors.
        reranker: The cross-encoder's name or folder, loaded when first needed; None is the one of
            the package.
        device: For the cross-encoder.
        dtype: For the cross-encoder.
    """

    def __init__(
        self,
        encoder: Encoder,
        *,
        reranker: str | None = None,
        device: str = "auto",
        dtype: str = "auto",
    ) -> None:
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="models")
        self._guard = threading.Lock()
        self._device, self._dtype = device, dtype
        self._scorer: CrossEncoder | None = None
        self._reranker: Reranker | None = None
        self.reranker_name = reranker or DEFAULT_RERANKER
        self.encoder = MicroBatchedEncoder(encoder, turn=self.turn)

    def turn(self, function: Callable[..., Any], *args: Any) -> Any:
        """Run a function in the models' thread, after those that asked before."""
        return self._thread.submit(function, *args).result()

    def reranker(self, wanted: Wanted) -> Reranker:
        """The second stage, loaded once.

        Args:
            wanted: What it is for.

        Raises:
            InputError: There is no such model on this machine.
        """
        with self._guard:
            if self._reranker is None:
                self._scorer = self._loaded(wanted)
                self._reranker = Reranker(SharedScorer(self._scorer, turn=self.turn))
            return self._reranker

    def scorer(self) -> SharedScorer:
        """The cross-encoder, loaded once.

        Raises:
            InputError: There is no such model on this machine.
        """
        scorer = self.reranker(Wanted.ROUTE).scorer
        if not isinstance(scorer, SharedScorer):
            raise TypeError(f"expected a SharedScorer, found {type(scorer).__name__}")
        return scorer

    def raw(self) -> tuple[Encoder, CrossEncoder]:
        """Both models themselves, for `turn` alone.

        Raises:
            InputError: There is no such cross-encoder on this machine.
        """
        self.reranker(Wanted.MEASURE)
        if self._scorer is None:
            raise TypeError("the cross-encoder is not loaded")
        return self.encoder.encoder, self._scorer

    def close(self) -> None:
        """Wait for what is under way."""
        self._thread.shutdown(wait=True)

    def _loaded(self, wanted: Wanted) -> CrossEncoder:
        from sbert_retriever.encoder.cross_encoder import CrossEncoder

        try:
            return CrossEncoder.load(self.reranker_name, device=self._device, dtype=self._dtype)
        except ModelNotFoundError as error:
            why, instead = wanted.value
            raise InputError(
                f"{why}, and there is no {self.reranker_name!r} on this machine: {instead}, or "
                "start the service with --reranker and a model that is there"
            ) from error
