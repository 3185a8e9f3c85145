"""Pairs through the tokenizer and the model, batch by batch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from sbert_retriever.encoder.batching import TokenBatch, batch_sizes, token_batches
from sbert_retriever.encoder.checkpoint import Checkpoint
from sbert_retriever.encoder.classifier import Classifier, load_classifier
from sbert_retriever.encoder.halving import HalvingRunner
from sbert_retriever.encoder.labels import Logits, Scoring
from sbert_retriever.encoder.pairs import Pair, PairTokenizer, PairTokens, pair_template
from sbert_retriever.encoder.process import settle
from sbert_retriever.encoder.results import Results
from sbert_retriever.encoder.teams import team
from sbert_retriever.encoder.tokenizer import load_tokenizer
from sbert_retriever.errors import InputError, ModelError
from sbert_retriever.forks import Lock


def _silent(count: int) -> None:
    del count


class PairRunner:
    """What a cross-encoder computes with. Many threads may use it; weights are read once.

    Args:
        checkpoint: What to run.
        device: Where it runs.
        dtype: In which floating type the body runs.
        scoring: From logits to scores.
        windowed: Whether a passage that does not fit is read in windows.
        batch_tokens: Tokens in a batch, padding included; None suits the device.
        query_prompt: Put before each query.
        cpu_fallback: Whether a pair for which the device has no memory is scored on the CPU.

    Raises:
        ModelFormatError: There is no tokenizer.
        InputError: `batch_tokens` is below 1.
    """

    def __init__(
        self,
        checkpoint: Checkpoint,
        *,
        device: torch.device,
        dtype: torch.dtype,
        scoring: Scoring,
        windowed: bool,
        batch_tokens: int | None,
        query_prompt: str = "",
        cpu_fallback: bool = False,
    ) -> None:
        self.device, self.dtype = device, dtype
        self._checkpoint = checkpoint
        self._scoring = scoring
        self._query_prompt = query_prompt
        most, self._full_tokens = batch_sizes(batch_tokens, device, dtype)
        self._in_halves = HalvingRunner(device, most)
        self._cpu_fallback = cpu_fallback
        texts = load_tokenizer(
            checkpoint.transformer,
            checkpoint.config,
            max_length=checkpoint.max_length,
            lowercase=checkpoint.lowercase,
        )
        template = pair_template(texts.example_pair())
        self._tokenizer = PairTokenizer(texts, template, windowed=windowed)
        self._lock = Lock()
        self._model: Classifier | None = None

    def tokens(self, pairs: Sequence[Pair], max_length: int | None = None) -> PairTokens:
        """Token ids of pairs, cut to the model's length and to `max_length`.

        Raises:
            InputError: The length leaves no room for two texts, or a text is no text.
        """
        lengths = [x for x in (max_length, self._checkpoint.max_length) if x is not None]
        limit = min(lengths, default=None)
        specials = self._tokenizer.template.specials
        if limit is not None and limit < specials + 2:
            raise InputError(
                f"max_length={limit} leaves no room for two texts beside the {specials} special "
                "tokens of a pair: give more"
            )
        if self._query_prompt:
            pairs = [(self._query_prompt + query, passage) for query, passage in pairs]
        return self._tokenizer.encode(pairs, max_length=limit)

    def scores(self, tokens: PairTokens, indexes: Sequence[int]) -> Logits:
        """Scores (len(indexes),) of some pairs."""
        return self._scoring(self.logits(tokens, indexes))

    def logits(
        self,
        tokens: PairTokens,
        indexes: Sequence[int],
        *,
        start: int = 0,
        advance: Callable[[int], None] = _silent,
    ) -> Logits:
        """Logits (len(indexes), labels) of some pairs.

        Args:
            tokens: Pairs.
            indexes: Which of them.
            start: The number of the first pair, for messages.
            advance: Told how many rows are done.

        Raises:
            ModelError: A logit is not finite.
        """
        rows = tokens.rows_of(indexes)
        logits = self._forward(tokens, rows, advance)
        self._check_finite(logits, tokens.pairs[rows] + start)
        if len(rows) == len(indexes):
            return logits
        return self._best(logits, tokens.row_counts[list(indexes)])

    def _best(self, logits: Logits, windows: npt.NDArray[np.int64]) -> Logits:
        """Of each pair, so many windows of which follow each other, the logits of the best."""
        ends = np.cumsum(windows)
        starts = ends - windows
        scores = np.split(self._scoring(logits), ends[:-1])
        return logits[[start + int(s.argmax()) for start, s in zip(starts, scores, strict=True)]]

    def _forward(
        self, tokens: PairTokens, rows: Sequence[int], advance: Callable[[int], None]
    ) -> Logits:
        """Logits (len(rows), labels) of some rows of token ids.

        Equal rows go through the model once. In two places of a batch a product may round them
        otherwise, and what is equal would no longer tie.
        """
        places: dict[bytes, int] = {}
        same = [places.setdefault(_content(tokens, row), len(places)) for row in rows]
        if len(places) < len(rows):
            once = list(dict(zip(same, rows, strict=True)).values())
            found: Logits = self._forward(tokens, once, advance)[same]
            advance(len(rows) - len(once))
            return found
        model = self._loaded()
        results = Results((len(rows), len(self._scoring.labels)), self.device)
        batches = token_batches(
            [tokens.ids[row] for row in rows],
            max_tokens=self._in_halves.batch_tokens,
            full_tokens=self._full_tokens,
        )

        def run(batch: TokenBatch, classifier: Classifier | None = None) -> Tensor:
            types = None
            if tokens.type_ids is not None:
                types = [tokens.type_ids[rows[i]] for i in batch.rows]
            return (classifier or model)(batch.token_ids, types)

        on_cpu = (lambda batch: run(batch, self._spare)) if self._cpu_fallback else None
        with torch.inference_mode(), team(self.device):
            for batch in batches:
                for part, logits in self._in_halves(batch, run, on_cpu=on_cpu):
                    results.add(part.rows, logits)
                    advance(len(part.rows))
        return results.matrix()

    def warm_up(self) -> None:
        """Read the weights now."""
        self._loaded()

    def _loaded(self) -> Classifier:
        """The model, read from disk by the first thread that asks."""
        settle(self.device)
        if self._model is None:
            with self._lock:
                if self._model is None:
                    self._model = self._classifier(self.device, self.dtype)
        return self._model

    @cached_property
    def _spare(self) -> Classifier:
        """The same model on the CPU, for what the device has no memory for."""
        return self._classifier(torch.device("cpu"), torch.float32)

    def _classifier(self, device: torch.device, dtype: torch.dtype) -> Classifier:
        return load_classifier(
            self._checkpoint,
            labels=len(self._scoring.labels),
            pad_id=self._tokenizer.texts.pad_id,
            device=device,
            dtype=dtype,
        )

    def _check_finite(self, logits: Logits, pairs: npt.NDArray[np.int64]) -> None:
        bad = np.flatnonzero(~np.isfinite(logits).all(axis=1))
        if len(bad):
            dtype = str(self.dtype).removeprefix("torch.")
            raise ModelError(
                f"the score of pairs[{pairs[bad[0]]}] is not finite, and {len(bad) - 1} more: the "
                f"model overflows in {dtype} or its weights are damaged; try dtype='float32'"
            )


class PreparedPairs:
    """Pairs that are tokenised, so that their cost is known before they are scored.

    Args:
        runner: What scores them.
        tokens: Their token ids.
    """

    def __init__(self, runner: PairRunner, tokens: PairTokens) -> None:
        self._runner, self._tokens = runner, tokens
        self.lengths = tokens.lengths
        """Tokens that the model reads of each pair: int64 (n,)."""
        self.truncated = tokens.truncated
        """Which pairs were cut to fit: bool (n,)."""

    def score(self, indexes: Sequence[int]) -> Logits:
        """Scores of some of the pairs: float32 (len(indexes),).

        Raises:
            ModelError: A score is not finite.
        """
        return self._runner.scores(self._tokens, indexes)


def _content(tokens: PairTokens, row: int) -> bytes:
    """What the model sees of a row."""
    types = b"" if tokens.type_ids is None else np.asarray(tokens.type_ids[row]).tobytes()
    return np.asarray(tokens.ids[row]).tobytes() + b"|" + types
