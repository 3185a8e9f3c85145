"""The bi-encoder: each text through the model once, to one vector."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence, Sized
from functools import cached_property, partial
from typing import TYPE_CHECKING, TypeAlias, get_args

import numpy as np
import numpy.typing as npt
import torch

from sbert_retriever.encoder.adjust import Adjustments, adjusted
from sbert_retriever.encoder.ahead import delayed, mapped_ahead
from sbert_retriever.encoder.checkpoint import Checkpoint, read_checkpoint
from sbert_retriever.encoder.encoding import Encoding, joined
from sbert_retriever.encoder.finite import check_finite
from sbert_retriever.encoder.kinds import refuse_colbert, refuse_cross_encoder
from sbert_retriever.encoder.precision import choose_devices
from sbert_retriever.encoder.progress import progress_bar
from sbert_retriever.encoder.resolve import HubOptions, locate
from sbert_retriever.encoder.spread import FEW_TEXTS, shares, spread
from sbert_retriever.encoder.text_runner import TextRunner
from sbert_retriever.encoder.texts import checked, windows
from sbert_retriever.encoder.tokenizer import Tokens
from sbert_retriever.encoder.vector_file import VectorFile
from sbert_retriever.encoder.weights import fingerprint, stored_precision, weight_files
from sbert_retriever.errors import InputError, TextTooLongError, TruncationWarning
from sbert_retriever.types import ModelIdentity, OnTruncate, Role

if TYPE_CHECKING:
    from sbert_retriever.types import Vectors

Tokenise: TypeAlias = Callable[[list[str]], Tokens]

_AHEAD = 2
"""Windows of texts that are tokenised before a GPU asks for them."""


class BiEncoder:
    """A Sentence-BERT model that turns texts into vectors. Made by `load`.

    One instance may be used from many threads. Weights are read at the first use, once. With
    several devices, texts are dealt out to them, some thousand at a time or an equal share of a
    list; token vectors are made on the first.

    Args:
        checkpoint: What to run.
        name: As it was asked for.
        device: Where it runs; of several each has a copy of the weights.
        dtype: In which floating type; vectors leave as float32.
        prompts: What is put before each text, by role.
        truncate_dim: How many of the first dimensions are kept; None keeps all.
        on_truncate: What happens to a text longer than `max_length`.
        batch_tokens: Tokens in a batch, padding included; None is what was measured to be best.
        cpu_fallback: Whether a text for which a GPU has no memory is encoded on the CPU.
    """

    joins_callers = True
    """Questions of several threads are answered sooner in one batch than one after the other."""

    def __init__(
        self,
        checkpoint: Checkpoint,
        *,
        name: str,
        device: torch.device | Sequence[torch.device],
        dtype: torch.dtype,
        prompts: dict[Role, str],
        truncate_dim: int | None = None,
        on_truncate: OnTruncate = "warn",
        batch_tokens: int | None = None,
        cpu_fallback: bool = False,
    ) -> None:
        weight_files(checkpoint.transformer)
        self.name = name
        self._checkpoint = checkpoint
        self._prompts = prompts
        self._on_truncate = _known(on_truncate)
        self._runners: list[TextRunner] = []
        for each in [device] if isinstance(device, torch.device) else device:
            runner = TextRunner(
                checkpoint,
                device=each,
                dtype=dtype,
                prompts=prompts,
                truncate_dim=truncate_dim,
                batch_tokens=batch_tokens,
                cpu_fallback=cpu_fallback,
                beside=self._runners[0] if self._runners else None,
            )
            self._runners.append(runner)
        self._runner = self._runners[0]

    @classmethod
    def load(
        cls,
        name: str | os.PathLike[str],
        *,
        device: str | Sequence[str] = "auto",
        dtype: str = "auto",
        revision: str | None = None,
        cache_dir: str | os.PathLike[str] | None = None,
        token: str | None = None,
        local_files_only: bool | None = None,
        query_prompt: str | None = None,
        passage_prompt: str | None = None,
        max_length: int | None = None,
        truncate_dim: int | None = None,
        pooling: str | None = None,
        normalize: bool | None = None,
        on_truncate: OnTruncate = "warn",
        batch_tokens: int | None = None,
        cpu_fallback: bool = False,
    ) -> BiEncoder:
        """Load a model by name.

        Args:
            name: A folder, the name of a packaged model, or a hub id, looked for in this order.
            device: "auto", "cpu", "cuda", "cuda:1", "mps"; several, ["cuda:0", "cuda:1"], encode
                at the same time.
            dtype: "auto" (bfloat16 where it pays), "float32", "bfloat16", "float16"; "int8" on a
                CPU is several times faster and a little less exact.
            revision: A branch, tag or commit of the hub.
            cache_dir: The hub's cache.
            token: For private repositories of the hub.
            local_files_only: True never asks the network; None asks HF_HUB_OFFLINE.
            query_prompt: Put before each query; None takes the model's own.
            passage_prompt: Put before each passage; None takes the model's own.
            max_length: Tokens a text may have, special ones included; None takes the model's.
            truncate_dim: Keep this many of the first dimensions (Matryoshka).
            pooling: "mean", "max", "cls", "mean_sqrt_len", "weighted_mean", "last_token", or
                several joined by "+"; None takes the model's.
            normalize: Whether vectors leave with length 1; None takes the model's.
            on_truncate: For a text longer than `max_length`: "warn" once a call, "error" before
                anything is computed, or "ignore".
            batch_tokens: Tokens in a batch, padding included; None suits the device. A batch for
                which there is no memory is halved, with one warning.
            cpu_fallback: Whether a text for which a GPU has no memory even alone is encoded on the
                CPU, in float32, rather than refused.

        Raises:
            ModelNotFoundError: Nothing answers to the name; the message lists where was looked.
            ModelFormatError: The files are there and cannot be used.
            DeviceError: The device is not on this machine.
            MissingExtraError: The weights are ONNX, and onnx is not installed.
            InputError: An argument is out of range.
        """
        chosen, floating = choose_devices(device, dtype, int8=True)
        hub = HubOptions(
            revision=revision, cache_dir=cache_dir, token=token, local_files_only=local_files_only
        )
        found = locate(name, hub)
        wanted = Adjustments(
            max_length=max_length, truncate_dim=truncate_dim, pooling=pooling, normalize=normalize
        )
        checkpoint = adjusted(read_checkpoint(found.folder, found.packaged), wanted)
        if pooling is None:
            refuse_colbert(checkpoint, found.name, expected="a bi-encoder")
            refuse_cross_encoder(checkpoint, found.name)
        return cls(
            checkpoint,
            name=found.name,
            device=chosen,
            dtype=floating,
            prompts={
                "query": checkpoint.prompt("query") if query_prompt is None else query_prompt,
                "passage": (
                    checkpoint.prompt("passage") if passage_prompt is None else passage_prompt
                ),
            },
            truncate_dim=truncate_dim,
            on_truncate=on_truncate,
            batch_tokens=batch_tokens,
            cpu_fallback=cpu_fallback,
        )

    @property
    def dim(self) -> int:
        """Width of the vectors."""
        return self._runner.dim

    @property
    def max_length(self) -> int | None:
        """Tokens a text may have, special ones and the prompt's included; None is without limit."""
        return self._checkpoint.max_length

    @property
    def device(self) -> str:
        """Where it runs: "cpu", "cuda:0", "mps"; several are joined by commas."""
        return ",".join(str(runner.device) for runner in self._runners)

    @property
    def dtype(self) -> str:
        """The type it computes in: "float32", "bfloat16", "float16", "int8"."""
        return str(self._runner.dtype).removeprefix("torch.")

    @property
    def on_truncate(self) -> OnTruncate:
        """What happens to a text longer than `max_length`: "warn", "error" or "ignore"."""
        return self._on_truncate

    @cached_property
    def identity(self) -> ModelIdentity:
        """What a collection remembers of this encoder."""
        return ModelIdentity(
            name=self.name,
            dim=self.dim,
            similarity=self._checkpoint.similarity,
            max_length=self.max_length,
            pooling="+".join(self._checkpoint.pooling),
            normalize=self._checkpoint.normalize,
            query_prompt=self._prompts["query"],
            passage_prompt=self._prompts["passage"],
            weights=fingerprint(self._checkpoint),
            precision=(
                self._checkpoint.precision or stored_precision(self._checkpoint.transformer)
            ),
        )

    def encode_queries(
        self,
        texts: Iterable[str],
        *,
        show_progress: bool = False,
        on_truncate: OnTruncate | None = None,
    ) -> Vectors:
        """Encode questions.

        Args:
            texts: Any iterable of str; a list is checked whole before anything is computed, an
                iterator as it is read.
            show_progress: Whether a progress bar goes to stderr.
            on_truncate: "warn", "error" or "ignore" for this call.

        Returns:
            float32 (n, dim), in the order of the texts; no texts give (0, dim).

        Raises:
            InputTypeError: One str, or an entry that is no str; the message names its position.
            TextTooLongError: `on_truncate` is "error" and a text is longer than `max_length`.
            ModelError: A vector is not finite; the message names its position.
        """
        return self._vectors(texts, "query", show_progress=show_progress, on_truncate=on_truncate)

    def encode_passages(
        self,
        texts: Iterable[str],
        *,
        show_progress: bool = False,
        on_truncate: OnTruncate | None = None,
    ) -> Vectors:
        """Encode passages; arguments, result and errors are those of `encode_queries`."""
        return self._vectors(texts, "passage", show_progress=show_progress, on_truncate=on_truncate)

    def encode_detailed(
        self, texts: Iterable[str], *, role: Role, show_progress: bool = False
    ) -> Encoding:
        """Encode texts of a role, with their lengths. Never warns of truncation.

        Raises:
            InputTypeError: One str, or an entry that is no str; the message names its position.
            ModelError: A vector is not finite; the message names its position.
        """
        parts = list(self._parts(checked(texts), role, show_progress=show_progress))
        return joined(parts, self.dim)

    def encode_to_file(
        self,
        texts: Iterable[str],
        path: str | os.PathLike[str],
        *,
        role: Role = "passage",
        show_progress: bool = False,
    ) -> Vectors:
        """Encode texts into a .npy file, a window at a time: neither texts nor vectors pile up.

        The file is there whole at the end, or not at all. Never warns of truncation.

        Args:
            texts: Any iterable of str; of a generator, some thousand are held at a time.
            path: Where the file goes; one that is there is replaced.
            role: "query" or "passage".
            show_progress: Whether a progress bar goes to stderr.

        Returns:
            float32 (n, dim), read-only, mapped from the file.

        Raises:
            InputTypeError: One str, or an entry that is no str; the message names its position.
            InputError: The file cannot be written.
            ModelError: A vector is not finite; the message names its position.
        """
        texts = checked(texts)
        with VectorFile(path, self.dim) as file:
            for part in self._parts(texts, role, show_progress=show_progress):
                file.append(part.vectors)
        return file.read()

    def warm_up(self) -> None:
        """Read the weights now, so that no text has to wait for them."""
        for runner in self._runners:
            runner.warm_up()

    def encode_tokens(self, texts: Iterable[str], *, role: Role) -> list[Vectors]:
        """Encode texts to one vector a token, for late interaction. Never warns of truncation.

        The transformer's last hidden states, set to length 1: before pooling, Dense layers and
        `truncate_dim`. Special tokens have theirs; the prompt's where pooling counts them.

        Returns:
            For each text float32 (tokens, width), at most `max_length` tokens.

        Raises:
            InputTypeError: One str, or an entry that is no str; the message names its position.
            ModelError: A vector is not finite; the message names its position.
        """
        found: list[Vectors] = []
        for window in windows(checked(texts)):
            tokens = self._runner.tokens(window, role)
            vectors = self._runner.token_vectors(tokens, role)
            sums = np.stack([each.sum(axis=0) for each in vectors])
            check_finite(sums, window, start=len(found), dtype=self.dtype)
            found.extend(vectors)
        return found

    def token_offsets(self, texts: Iterable[str]) -> list[list[tuple[int, int]]]:
        """Character spans (start, end) of each text's tokens; needs no weights.

        Special tokens have none, and nothing is truncated.

        Raises:
            InputTypeError: One str, or an entry that is no str; the message names its position.
        """
        offsets = self._runner.tokenizer.offsets
        return [spans for window in windows(checked(texts)) for spans in offsets(window)]

    def token_counts(self, texts: Iterable[str], *, role: Role) -> npt.NDArray[np.int64]:
        """Tokens of each text as `encode_detailed` counts them, int64 (n,); needs no weights.

        Raises:
            InputTypeError: One str, or an entry that is no str; the message names its position.
        """
        parts = [self._runner.tokens(window, role).counts for window in windows(checked(texts))]
        return np.concatenate([np.empty(0, np.int64), *parts])

    def _vectors(
        self,
        texts: Iterable[str],
        role: Role,
        *,
        show_progress: bool,
        on_truncate: OnTruncate | None,
    ) -> Vectors:
        policy = self._on_truncate if on_truncate is None else _known(on_truncate)
        texts = checked(texts)
        if policy == "error" and isinstance(texts, list | tuple):
            for window in windows(texts):
                self._tokens(window, role=role, refuse_long=True)
        parts = self._parts(texts, role, show_progress=show_progress, refuse_long=policy == "error")
        encoding = joined(list(parts), self.dim)
        if policy == "warn" and encoding.truncated.any():
            warnings.warn(self._too_long(encoding.token_counts), TruncationWarning, stacklevel=3)
        return encoding.vectors

    def _parts(
        self,
        texts: Iterable[str],
        role: Role,
        *,
        show_progress: bool,
        refuse_long: bool = False,
    ) -> Iterator[Encoding]:
        """Encode window by window, so that only a few windows' tokens are held at a time.

        On CUDA other windows are tokenised, and the next one is begun, while the device computes.
        """
        total = len(texts) if isinstance(texts, Sized) else None
        tokenise = partial(self._tokens, role=role, refuse_long=refuse_long)
        few = total is not None and total <= FEW_TEXTS
        made = self._pipelined if few or len(self._runners) == 1 else self._spread
        done = 0
        with progress_bar("Encoding", total=total, shown=show_progress) as advance:
            for window, tokens, vectors in made(texts, role, tokenise, advance):
                check_finite(vectors, window, start=done, dtype=self.dtype)
                done += len(window)
                yield Encoding(vectors, tokens.counts, self._is_long(tokens.counts))

    def _pipelined(
        self, texts: Iterable[str], role: Role, tokenise: Tokenise, advance: Callable[[int], None]
    ) -> Iterator[tuple[list[str], Tokens, Vectors]]:
        """Windows with their tokens and vectors, from one device."""
        runner = self._runner
        early = _AHEAD if runner.device.type == "cuda" else 0
        tokenised = mapped_ahead(lambda w: (w, tokenise(w)), windows(texts), ahead=early)
        begun = ((*each, runner.vectors(each[1], role, advance)) for each in tokenised)
        for window, tokens, results in delayed(begun, by=min(early, 1)):
            yield window, tokens, results.matrix()

    def _spread(
        self, texts: Iterable[str], role: Role, tokenise: Tokenise, advance: Callable[[int], None]
    ) -> Iterator[tuple[list[str], Tokens, Vectors]]:
        """As `_pipelined`, from several; a GPU has two windows, so that it never waits for one."""

        def work(runner: TextRunner, window: list[str]) -> tuple[list[str], Tokens, Vectors]:
            tokens = tokenise(window)
            return window, tokens, runner.vectors(tokens, role, advance).matrix()

        twice = [runner for runner in self._runners if runner.device.type == "cuda"]
        return spread(work, shares(texts, len(self._runners)), [*self._runners, *twice])

    def _tokens(self, texts: list[str], *, role: Role, refuse_long: bool) -> Tokens:
        tokens = self._runner.tokens(texts, role)
        if refuse_long and self._is_long(tokens.counts).any():
            raise TextTooLongError(
                f"{self._too_long(tokens.counts)}; split it, or pass on_truncate='warn'"
            )
        return tokens

    def _is_long(self, counts: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
        limit = self.max_length
        return np.zeros(len(counts), dtype=bool) if limit is None else counts > limit

    def _too_long(self, counts: npt.NDArray[np.int64]) -> str:
        cut = int(self._is_long(counts).sum())
        return (
            f"{cut} of {len(counts)} texts are longer than the {self.max_length} tokens that "
            f"{self.name} reads (the longest: {counts.max()} tokens); the rest of each is not seen"
        )


def _known(policy: OnTruncate) -> OnTruncate:
    if policy not in get_args(OnTruncate):
        raise InputError(f"on_truncate={policy!r}, expected 'warn', 'error' or 'ignore'")
    return policy
