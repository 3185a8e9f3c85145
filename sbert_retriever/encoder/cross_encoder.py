"""The cross-encoder: a query and a passage through the model together, to one score."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable, Iterator, Sized
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, TypeAlias, get_args

import numpy as np
import numpy.typing as npt
import torch

from sbert_retriever.encoder.adjust import Adjustments, adjusted
from sbert_retriever.encoder.checkpoint import Checkpoint, read_checkpoint
from sbert_retriever.encoder.kinds import expect_cross_encoder
from sbert_retriever.encoder.labels import Logits, Scale, Scoring, read_scoring
from sbert_retriever.encoder.pair_runner import PairRunner, PreparedPairs
from sbert_retriever.encoder.pairs import Pair, PairTokens, checked_pairs, pair_windows
from sbert_retriever.encoder.precision import choose_device, choose_dtype
from sbert_retriever.encoder.progress import progress_bar
from sbert_retriever.encoder.resolve import HubOptions, locate
from sbert_retriever.encoder.texts import checked
from sbert_retriever.encoder.weights import fingerprint, stored_precision, weight_files
from sbert_retriever.errors import (
    InputError,
    InputTypeError,
    ModelFormatError,
    TextTooLongError,
    TruncationWarning,
)
from sbert_retriever.types import OnTruncate, ScorerIdentity

LongPassages: TypeAlias = Literal["truncate", "windows"]


@dataclass(frozen=True)
class PairScores:
    """Scores, and how long the pairs were.

    Args:
        scores: float32 (n,), on the encoder's scale.
        token_counts: Tokens of each pair before anything was cut, special ones included: int64
            (n,).
        truncated: Which pairs were cut to fit: bool (n,).
    """

    scores: Logits
    token_counts: npt.NDArray[np.int64]
    truncated: npt.NDArray[np.bool_]


class CrossEncoder:
    """A model that reads a query and a passage together and scores the pair. Made by `load`.

    One instance may be used from many threads. Weights are read at the first use, once.

    Args:
        checkpoint: What to run.
        name: As it was asked for.
        device: Where it runs.
        dtype: In which floating type; the head runs in float32, and scores leave as float32.
        scoring: From logits to scores.
        long_passages: What happens to a pair longer than `max_length`.
        on_truncate: Whether that is said.
        batch_tokens: Tokens in a batch, padding included; None suits the device.
        query_prompt: Put before each query.
        cpu_fallback: Whether a pair for which a GPU has no memory is scored on the CPU.
    """

    def __init__(
        self,
        checkpoint: Checkpoint,
        *,
        name: str,
        device: torch.device,
        dtype: torch.dtype,
        scoring: Scoring,
        long_passages: LongPassages = "truncate",
        on_truncate: OnTruncate = "warn",
        batch_tokens: int | None = None,
        query_prompt: str = "",
        cpu_fallback: bool = False,
    ) -> None:
        _known("long_passages", long_passages, get_args(LongPassages))
        _known("on_truncate", on_truncate, get_args(OnTruncate))
        weight_files(checkpoint.transformer)
        self.name = name
        self._checkpoint = checkpoint
        self._scoring = scoring
        self._on_truncate = on_truncate
        self._query_prompt = query_prompt
        self._runner = PairRunner(
            checkpoint,
            device=device,
            dtype=dtype,
            scoring=scoring,
            windowed=long_passages == "windows",
            batch_tokens=batch_tokens,
            query_prompt=query_prompt,
            cpu_fallback=cpu_fallback,
        )

    @classmethod
    def load(
        cls,
        name: str | os.PathLike[str],
        *,
        device: str = "auto",
        dtype: str = "auto",
        revision: str | None = None,
        cache_dir: str | os.PathLike[str] | None = None,
        token: str | None = None,
        local_files_only: bool | None = None,
        max_length: int | None = None,
        label: int | str | None = None,
        scale: Scale = "logit",
        long_passages: LongPassages = "truncate",
        on_truncate: OnTruncate = "warn",
        batch_tokens: int | None = None,
        query_prompt: str | None = None,
        cpu_fallback: bool = False,
    ) -> CrossEncoder:
        """Load a sequence-classification model by name.

        Args:
            name: A folder, the name of a packaged model, or a hub id, looked for in this order.
            device: "auto", "cpu", "cuda", "cuda:1", "mps".
            dtype: "auto" (bfloat16 where it pays), "float32", "bfloat16", "float16"; "int8" on a
                CPU is several times faster and a little less exact.
            revision: A branch, tag or commit of the hub.
            cache_dir: The hub's cache.
            token: For private repositories of the hub.
            local_files_only: True never asks the network; None asks HF_HUB_OFFLINE.
            max_length: Tokens a pair may have, special ones included; None takes the model's.
            label: Index or name of the label that is scored; needed where a model has several.
            scale: "logit" (unbounded, log(p / (1 - p))) or "probability" (p, in 0 to 1); the order
                is the same on both.
            long_passages: A pair longer than `max_length` loses the end of its passage
                ("truncate"), or its passage is read in overlapping windows and the best one counts
                ("windows").
            on_truncate: For a pair that was cut: "warn" once a call, "error" before anything is
                computed, or "ignore".
            batch_tokens: Tokens in a batch, padding included; None suits the device.
            query_prompt: Put before each query, an instruction perhaps; None takes the model's
                own default prompt, as sentence-transformers does.
            cpu_fallback: Whether a pair for which a GPU has no memory even alone is scored on the
                CPU, in float32, rather than refused.

        Raises:
            ModelNotFoundError: Nothing answers to the name; the message lists where was looked.
            ModelFormatError: The files cannot be used, or are of a bi-encoder.
            DeviceError: The device is not on this machine.
            MissingExtraError: The weights are ONNX, and onnx is not installed.
            InputError: An argument is out of range, or a model of several labels got no `label`.
        """
        chosen = choose_device(device)
        floating = choose_dtype(dtype, chosen, int8=True)
        hub = HubOptions(
            revision=revision, cache_dir=cache_dir, token=token, local_files_only=local_files_only
        )
        found = locate(name, hub)
        checkpoint = read_checkpoint(found.folder, found.packaged)
        expect_cross_encoder(checkpoint, found.name)
        return cls(
            adjusted(checkpoint, Adjustments(max_length=max_length)),
            name=found.name,
            device=chosen,
            dtype=floating,
            scoring=read_scoring(checkpoint.config, name=found.name, label=label, scale=scale),
            long_passages=long_passages,
            on_truncate=on_truncate,
            batch_tokens=batch_tokens,
            query_prompt=_default_prompt(checkpoint) if query_prompt is None else query_prompt,
            cpu_fallback=cpu_fallback,
        )

    @property
    def score_kind(self) -> Scale:
        """The scale of its scores: "logit" or "probability"."""
        return self._scoring.scale

    @property
    def labels(self) -> tuple[str, ...]:
        """The names of the model's labels, in the order of its logits."""
        return self._scoring.labels

    @property
    def max_length(self) -> int | None:
        """Tokens a pair may have, special ones included; None is without limit."""
        return self._checkpoint.max_length

    @property
    def device(self) -> str:
        """Where it runs: "cpu", "cuda:0", "mps"."""
        return str(self._runner.device)

    @property
    def dtype(self) -> str:
        """The type its body computes in: "float32", "bfloat16", "float16", "int8"."""
        return str(self._runner.dtype).removeprefix("torch.")

    @cached_property
    def identity(self) -> ScorerIdentity:
        """What a measurement remembers of this encoder."""
        stored = self._checkpoint.precision or stored_precision(self._checkpoint.transformer)
        return ScorerIdentity(
            name=self.name,
            score_kind=self.score_kind,
            label=self.labels[self._scoring.label],
            max_length=self.max_length,
            weights=fingerprint(self._checkpoint, self._query_prompt),
            precision=stored,
            dtype=self.dtype,
        )

    def warm_up(self) -> None:
        """Read the weights now, so that no pair has to wait for them."""
        self._runner.warm_up()

    def score(self, pairs: Iterable[Pair], *, show_progress: bool = False) -> Logits:
        """Score pairs of a query and a passage; bigger is better.

        Args:
            pairs: Any iterable of (query, passage); a list is checked whole before anything is
                computed, an iterator as it is read.
            show_progress: Whether a progress bar goes to stderr.

        Returns:
            float32 (n,), in the order of the pairs, on the scale of `score_kind`.

        Raises:
            InputTypeError: One str, or an entry that is no pair of str; its position is named.
            TextTooLongError: `on_truncate` is "error" and a pair is too long.
            ModelError: A score is not finite; the message names its position.
        """
        pairs = checked_pairs(pairs)
        return self._scoring(self._logits(pairs, show_progress=show_progress))

    def predict_logits(self, pairs: Iterable[Pair], *, show_progress: bool = False) -> Logits:
        """The model's own logits: float32 (n, labels).

        Of a passage read in windows, those of the window that scores best. Arguments and errors
        are those of `score`.
        """
        pairs = checked_pairs(pairs)
        return self._logits(pairs, show_progress=show_progress)

    def score_detailed(self, pairs: Iterable[Pair], *, show_progress: bool = False) -> PairScores:
        """Score pairs, with their lengths. Never warns of truncation, and never refuses for it.

        Arguments and errors are otherwise those of `score`.
        """
        logits, counts, truncated = self._all(
            checked_pairs(pairs), show_progress=show_progress, refuse_long=False
        )
        return PairScores(self._scoring(logits), counts, truncated)

    def rank(
        self, query: str, passages: Iterable[str], *, top_k: int | None = None
    ) -> list[tuple[int, float]]:
        """Put passages in the order in which they answer a query.

        Args:
            query: One question.
            passages: Any iterable of str.
            top_k: How many to return; None is all.

        Returns:
            The position among the passages and the score of each, best first; ties keep the order
            of the passages.

        Raises:
            InputTypeError: The query or a passage is no str.
            InputError: `top_k` is below 0.
        """
        if not isinstance(query, str):
            raise InputTypeError(f"query is {type(query).__name__}, expected str")
        if top_k is not None and top_k < 0:
            raise InputError(f"top_k={top_k}, expected 0 or more, or None for all")
        texts = list(checked(passages))
        scores = self.score([(query, text) for text in texts])
        order = np.argsort(-scores, kind="stable")[:top_k]
        return [(int(i), float(scores[i])) for i in order]

    def prepare(self, pairs: Iterable[Pair], *, max_length: int | None = None) -> PreparedPairs:
        """Tokenise pairs, so that some of them can be scored at a time.

        Args:
            pairs: As for `score`.
            max_length: Tokens a pair may have here; the encoder's own limit holds as well.

        Raises:
            InputTypeError: One str, or an entry that is no pair of str; its position is named.
            InputError: `max_length` leaves no room beside the special tokens.
        """
        windows = pair_windows(checked_pairs(pairs))
        taken = [pair for window in windows for pair in window]
        return PreparedPairs(self._runner, self._runner.tokens(taken, max_length))

    def _logits(self, pairs: Iterable[Pair], *, show_progress: bool) -> Logits:
        """Logits (n, labels), with what `on_truncate` asks for."""
        refuse = self._on_truncate == "error"
        if refuse and isinstance(pairs, list | tuple):
            for window in pair_windows(pairs):
                self._refuse_long(self._runner.tokens(window))
        logits, counts, truncated = self._all(
            pairs, show_progress=show_progress, refuse_long=refuse
        )
        if self._on_truncate == "warn" and truncated.any():
            warnings.warn(self._too_long(counts, truncated), TruncationWarning, stacklevel=3)
        return logits

    def _all(
        self, pairs: Iterable[Pair], *, show_progress: bool, refuse_long: bool
    ) -> tuple[Logits, npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
        """Logits (n, labels), token counts (n,), and which pairs were cut (n,)."""
        parts = self._parts(pairs, show_progress=show_progress, refuse_long=refuse_long)
        empty = (
            np.empty((0, len(self.labels)), np.float32),
            np.empty(0, np.int64),
            np.empty(0, np.bool_),
        )
        logits, counts, truncated = zip(empty, *parts, strict=True)
        return np.concatenate(logits), np.concatenate(counts), np.concatenate(truncated)

    def _parts(
        self, pairs: Iterable[Pair], *, show_progress: bool, refuse_long: bool
    ) -> Iterator[tuple[Logits, npt.NDArray[np.int64], npt.NDArray[np.bool_]]]:
        """Score window by window, so that only one window's tokens are held at a time."""
        total = len(pairs) if isinstance(pairs, Sized) else None
        done = 0
        with progress_bar("Scoring", total=total, shown=show_progress) as advance:
            for window in pair_windows(pairs):
                tokens = self._runner.tokens(window)
                if refuse_long:
                    self._refuse_long(tokens)
                logits = self._runner.logits(
                    tokens, range(len(window)), start=done, advance=advance
                )
                done += len(window)
                yield logits, tokens.counts, tokens.truncated

    def _refuse_long(self, tokens: PairTokens) -> None:
        if tokens.truncated.any():
            raise TextTooLongError(
                f"{self._too_long(tokens.counts, tokens.truncated)}; split the passages, or load "
                "with long_passages='windows' or on_truncate='warn'"
            )

    def _too_long(self, counts: npt.NDArray[np.int64], truncated: npt.NDArray[np.bool_]) -> str:
        return (
            f"{truncated.sum()} of {len(counts)} pairs are longer than the {self.max_length} "
            f"tokens that {self.name} reads (the longest: {counts.max()} tokens); the rest of each "
            "is not seen"
        )


def _default_prompt(checkpoint: Checkpoint) -> str:
    """What sentence-transformers puts before the first text of a pair where nobody says.

    Its CrossEncoder takes the prompt that `default_prompt_name` names, and no other by itself.

    Raises:
        ModelFormatError: There is none of that name.
    """
    name = checkpoint.default_prompt
    if name is None:
        return ""
    if name not in checkpoint.prompts:
        known = ", ".join(map(repr, checkpoint.prompts)) or "no prompts"
        raise ModelFormatError(
            f"{checkpoint.folder} names the default prompt {name!r}, and has {known}: give "
            "query_prompt, '' for none"
        )
    return checkpoint.prompts[name]


def _known(name: str, value: str, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise InputError(f"{name}={value!r}, expected one of {', '.join(map(repr, allowed))}")
