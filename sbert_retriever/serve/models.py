"""The models of a service: one thread runs them, so that they do not fight for the processor."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from sbert_retriever.encoder.micro_batch import MicroBatchedEncoder
from sbert_retriever.errors import InputError, ModelNotFoundError
from sbert_retriever.rerank import Reranker
from sbert_retriever.serve.scorer import SharedScorer
from sbert_retriever.types import DEFAULT_RERANKER, Encoder

if TYPE_CHECKING:
    from sbert_retriever.encoder.cross_encoder import CrossEncoder


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

    def reranker(self) -> Reranker:
        """The second stage, loaded once.

        Raises:
            InputError: There is no such model on this machine.
        """
        with self._guard:
            if self._reranker is None:
                self._scorer = self._loaded()
                self._reranker = Reranker(SharedScorer(self._scorer, turn=self.turn))
            return self._reranker

    def scorer(self) -> SharedScorer:
        """The cross-encoder, loaded once.

        Raises:
            InputError: There is no such model on this machine.
        """
        scorer = self.reranker().scorer
        if not isinstance(scorer, SharedScorer):
            raise TypeError(f"expected a SharedScorer, found {type(scorer).__name__}")
        return scorer

    def raw(self) -> tuple[Encoder, CrossEncoder]:
        """Both models themselves, for `turn` alone.

        Raises:
            InputError: There is no such cross-encoder on this machine.
        """
        self.reranker()
        if self._scorer is None:
            raise TypeError("the cross-encoder is not loaded")
        return self.encoder.encoder, self._scorer

    def close(self) -> None:
        """Wait for what is under way."""
        self._thread.shutdown(wait=True)

    def _loaded(self) -> CrossEncoder:
        from sbert_retriever.encoder.cross_encoder import CrossEncoder

        try:
            return CrossEncoder.load(self.reranker_name, device=self._device, dtype=self._dtype)
        except ModelNotFoundError as error:
            raise InputError(
                f"a rerank was asked for, and this service has no cross-encoder "
                f"{self.reranker_name!r}: leave budget_ms, candidates and profile out"
            ) from error
