"""One encoder for queries and one for passages (DPR), out of a Router of sentence-transformers."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from sbert_retriever.encoder.adjust import Adjustments, adjusted
from sbert_retriever.encoder.bi_encoder import BiEncoder
from sbert_retriever.encoder.checkpoint import has_routes, read_routes
from sbert_retriever.encoder.encoding import Encoding
from sbert_retriever.encoder.precision import choose_devices
from sbert_retriever.encoder.resolve import HubOptions, locate
from sbert_retriever.errors import InputError, ModelFormatError
from sbert_retriever.types import ModelIdentity, OnTruncate, Role

if TYPE_CHECKING:
    from sbert_retriever.types import Vectors


class TwoEncoders:
    """A pair of bi-encoders whose vectors compare with each other. Made by `load`.

    Args:
        query: For queries.
        passage: For passages.
        name: As it was asked for.

    Raises:
        InputError: Their vectors have different widths.
    """

    joins_callers = True
    """Questions of several threads are answered sooner in one batch than one after the other."""

    def __init__(self, query: BiEncoder, passage: BiEncoder, *, name: str) -> None:
        if query.dim != passage.dim:
            raise InputError(
                f"the query encoder of {name} gives {query.dim} numbers and the passage encoder "
                f"{passage.dim}: they do not compare"
            )
        self.name = name
        self.query = query
        self.passage = passage

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
    ) -> TwoEncoders:
        """Load a Router with a query and a document route; arguments are those of `BiEncoder.load`.

        Raises:
            ModelNotFoundError: Nothing answers to the name.
            ModelFormatError: It is no Router, or its files cannot be used.
            DeviceError: The device is not on this machine.
            MissingExtraError: The weights are ONNX, and onnx is not installed.
            InputError: An argument is out of range.
        """
        chosen, floating = choose_devices(device, dtype, int8=True)
        hub = HubOptions(
            revision=revision, cache_dir=cache_dir, token=token, local_files_only=local_files_only
        )
        found = locate(name, hub)
        if not has_routes(found.folder):
            raise ModelFormatError(
                f"{found.name} has no router_config.json, expected two encoders in a Router: load "
                "it with BiEncoder"
            )
        wanted = Adjustments(
            max_length=max_length, truncate_dim=truncate_dim, pooling=pooling, normalize=normalize
        )
        prompts: dict[Role, str | None] = {"query": query_prompt, "passage": passage_prompt}
        made: dict[Role, BiEncoder] = {}
        for role, read in read_routes(found.folder).items():
            checkpoint = adjusted(read, wanted)
            given = prompts[role]
            prompt = checkpoint.prompt(role) if given is None else given
            made[role] = BiEncoder(
                checkpoint,
                name=found.name,
                device=chosen,
                dtype=floating,
                prompts={"query": prompt, "passage": prompt},
                truncate_dim=truncate_dim,
                on_truncate=on_truncate,
                batch_tokens=batch_tokens,
                cpu_fallback=cpu_fallback,
            )
        return cls(made["query"], made["passage"], name=found.name)

    @property
    def dim(self) -> int:
        """Width of the vectors."""
        return self.passage.dim

    @property
    def max_length(self) -> int | None:
        """Tokens a passage may have, special ones included; None is without limit."""
        return self.passage.max_length

    @property
    def device(self) -> str:
        """Where both run: "cpu", "cuda:0", "mps"; several are joined by commas."""
        return self.passage.device

    @property
    def dtype(self) -> str:
        """The type both compute in: "float32", "bfloat16", "float16", "int8"."""
        return self.passage.dtype

    @property
    def on_truncate(self) -> OnTruncate:
        """What happens to a text that is too long: "warn", "error" or "ignore"."""
        return self.passage.on_truncate

    @cached_property
    def identity(self) -> ModelIdentity:
        """What a collection remembers of them: the passages' encoder, and the weights of both."""
        query, passage = self.query.identity, self.passage.identity
        both = f"{query.weights}{passage.weights}".encode()
        weights = hashlib.sha256(both).hexdigest()[:16]
        return replace(passage, query_prompt=query.query_prompt, weights=weights)

    def encode_queries(
        self,
        texts: Iterable[str],
        *,
        show_progress: bool = False,
        on_truncate: OnTruncate | None = None,
    ) -> Vectors:
        """Encode questions: float32 (n, dim). Arguments and errors are those of `BiEncoder`."""
        return self.query.encode_queries(
            texts, show_progress=show_progress, on_truncate=on_truncate
        )

    def encode_passages(
        self,
        texts: Iterable[str],
        *,
        show_progress: bool = False,
        on_truncate: OnTruncate | None = None,
    ) -> Vectors:
        """Encode passages: float32 (n, dim). Arguments and errors are those of `BiEncoder`."""
        return self.passage.encode_passages(
            texts, show_progress=show_progress, on_truncate=on_truncate
        )

    def encode_detailed(
        self, texts: Iterable[str], *, role: Role, show_progress: bool = False
    ) -> Encoding:
        """Encode texts of a role, with their lengths. Never warns of truncation."""
        return self._of(role).encode_detailed(texts, role=role, show_progress=show_progress)

    def encode_tokens(self, texts: Iterable[str], *, role: Role) -> list[Vectors]:
        """Encode texts to one vector a token: for each text float32 (tokens, width)."""
        return self._of(role).encode_tokens(texts, role=role)

    def token_offsets(self, texts: Iterable[str]) -> list[list[tuple[int, int]]]:
        """Character spans (start, end) of the tokens of passages; needs no weights."""
        return self.passage.token_offsets(texts)

    def token_counts(self, texts: Iterable[str], *, role: Role) -> npt.NDArray[np.int64]:
        """Tokens of each text, int64 (n,); needs no weights."""
        return self._of(role).token_counts(texts, role=role)

    def warm_up(self) -> None:
        """Read the weights now, so that no text has to wait for them."""
        self.query.warm_up()
        self.passage.warm_up()

    def _of(self, role: Role) -> BiEncoder:
        return self.query if role == "query" else self.passage


def holds_two(name: str | os.PathLike[str]) -> bool:
    """Whether a model's folder holds two encoders.

    Raises:
        ModelNotFoundError: Nothing answers to the name.
    """
    return has_routes(locate(name).folder)
