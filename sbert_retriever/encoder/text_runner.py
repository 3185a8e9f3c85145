"""Texts through the tokenizer and the model, batch by batch."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812 - torch's own customary name
from torch import Tensor

from sbert_retriever.encoder.adjust import output_width
from sbert_retriever.encoder.backbone import Backbone, hidden_states, load_backbone
from sbert_retriever.encoder.batching import TokenBatch, batch_sizes, token_batches
from sbert_retriever.encoder.checkpoint import Checkpoint
from sbert_retriever.encoder.giving_up import check_wanted
from sbert_retriever.encoder.halving import HalvingRunner
from sbert_retriever.encoder.head import Head, load_head
from sbert_retriever.encoder.process import settle
from sbert_retriever.encoder.results import Results
from sbert_retriever.encoder.teams import team
from sbert_retriever.encoder.tokenizer import Tokens, load_tokenizer
from sbert_retriever.forks import Lock
from sbert_retriever.types import Role

if TYPE_CHECKING:
    from sbert_retriever.types import Vectors


class TextRunner:
    """What a bi-encoder computes with. Many threads may use it; weights are read once.

    Args:
        checkpoint: What to run.
        device: Where it runs.
        dtype: In which floating type; vectors leave as float32.
        prompts: What is put before each text, by role.
        truncate_dim: How many of the first dimensions are kept; None keeps all.
        batch_tokens: Tokens in a batch, padding included; None suits the device.
        cpu_fallback: Whether a text for which the device has no memory is encoded on the CPU.
        beside: The same model on another device, whose copy on the CPU serves both.

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
        prompts: Mapping[Role, str],
        truncate_dim: int | None = None,
        batch_tokens: int | None = None,
        cpu_fallback: bool = False,
        beside: TextRunner | None = None,
    ) -> None:
        self.device, self.dtype = device, dtype
        self.dim = truncate_dim or output_width(checkpoint)
        self._checkpoint = checkpoint
        self._prompts = prompts
        self._truncate_dim = truncate_dim
        most, self._full_tokens = batch_sizes(batch_tokens, device, dtype)
        self._in_halves = HalvingRunner(device, most)
        self._cpu_fallback = cpu_fallback
        self._beside = beside
        self.tokenizer = load_tokenizer(
            checkpoint.transformer,
            checkpoint.config,
            max_length=checkpoint.max_length,
            lowercase=checkpoint.lowercase,
        )
        self._lock = Lock()
        self._model: tuple[Backbone, Head] | None = None
        self._on_cpu: TextRunner | None = None

    def tokens(self, texts: Sequence[str], role: Role) -> Tokens:
        """Token ids of texts with their role's prompt, cut to the model's length; no weights."""
        return self.tokenizer.encode(texts, prompt=self._prompts[role])

    def warm_up(self) -> None:
        """Read the weights now."""
        self._loaded()

    def vectors(self, tokens: Tokens, role: Role, advance: Callable[[int], None]) -> Results:
        """Vectors (n, dim) of the texts of one window; on CUDA they may still be on their way.

        Args:
            tokens: The window's.
            role: "query" or "passage".
            advance: Told how many texts are done.

        Raises:
            ModelError: One text alone finds no memory, and nothing runs it on the CPU.
            GivenUpError: Nobody waits for them any more.
        """
        run = partial(self._pooled, role=role)
        on_cpu = partial(self._pooled_on_cpu, role=role) if self._cpu_fallback else None
        results = Results((len(tokens.ids), self.dim), self.device)
        self._loaded()
        with torch.inference_mode(), team(self.device):
            for batch in self._batches(tokens):
                for part, pooled in self._in_halves(batch, run, on_cpu=on_cpu):
                    results.add(part.rows, pooled)
                    advance(len(part.rows))
                check_wanted()
        return results

    def token_vectors(self, tokens: Tokens, role: Role) -> list[Vectors]:
        """Token vectors of each text of one window: float32 (tokens, width), each of length 1.

        Raises:
            ModelError: One text alone finds no memory, and nothing runs it on the CPU.
        """
        self._loaded()
        skipped = self._skipped_tokens(role)
        on_cpu = self._states_on_cpu if self._cpu_fallback else None
        found: list[Vectors] = [np.empty((0, 0), np.float32)] * len(tokens.ids)
        with torch.inference_mode(), team(self.device):
            for batch in self._batches(tokens):
                for part, made in self._in_halves(batch, self._states, on_cpu=on_cpu):
                    states = made.cpu().numpy()
                    for row, ids, text in zip(part.rows, part.token_ids, states, strict=True):
                        # A copy, so that the padded batch is let go.
                        found[row] = text[skipped : len(ids)].copy()
        return found

    def _pooled(self, batch: TokenBatch, *, role: Role) -> Tensor:
        """Vectors (batch, dim) float32, on the device."""
        backbone, head = self._loaded()
        hidden, mask = self._hidden(backbone, batch)
        return head(hidden, _without_prompt(hidden, mask, self._skipped_tokens(role)))

    def _pooled_on_cpu(self, batch: TokenBatch, *, role: Role) -> Tensor:
        return self._spare()._pooled(batch, role=role)

    def _spare(self) -> TextRunner:
        """The same model on the CPU, for what the device has no memory for; one for all."""
        if self._beside is not None:
            return self._beside._spare()
        with self._lock:
            if self._on_cpu is None:
                self._on_cpu = TextRunner(
                    self._checkpoint,
                    device=torch.device("cpu"),
                    dtype=torch.float32,
                    prompts=self._prompts,
                    truncate_dim=self._truncate_dim,
                )
            return self._on_cpu

    def _states(self, batch: TokenBatch) -> Tensor:
        """Token vectors (batch, length, width) float32 of length 1, on the device."""
        backbone, _ = self._loaded()
        hidden, _ = self._hidden(backbone, batch)
        return F.normalize(hidden.float(), dim=2)

    def _states_on_cpu(self, batch: TokenBatch) -> Tensor:
        return self._spare()._states(batch)

    def _hidden(self, backbone: Backbone, batch: TokenBatch) -> tuple[Tensor, Tensor | None]:
        return hidden_states(backbone, batch, pad_id=self.tokenizer.pad_id, device=self.device)

    def _batches(self, tokens: Tokens) -> Iterator[TokenBatch]:
        return token_batches(
            tokens.ids, max_tokens=self._in_halves.batch_tokens, full_tokens=self._full_tokens
        )

    def _loaded(self) -> tuple[Backbone, Head]:
        """The model, read from disk by the first thread that asks."""
        settle(self.device)
        if self._model is None:
            with self._lock:
                if self._model is None:
                    self._model = (
                        load_backbone(self._checkpoint, device=self.device, dtype=self.dtype),
                        load_head(
                            self._checkpoint, truncate_dim=self._truncate_dim, device=self.device
                        ),
                    )
        return self._model

    def _skipped_tokens(self, role: Role) -> int:
        """Tokens at the start of a text that take no part in pooling."""
        if self._checkpoint.include_prompt:
            return 0
        return self.tokenizer.prompt_length(self._prompts[role])


def _without_prompt(hidden: Tensor, mask: Tensor | None, skipped: int) -> Tensor | None:
    """The mask (batch, length) for pooling, with the prompt's tokens left out."""
    if not skipped:
        return mask
    counts = hidden.new_ones(hidden.shape[:2], dtype=torch.bool) if mask is None else mask.clone()
    counts[:, :skipped] = False
    return counts
