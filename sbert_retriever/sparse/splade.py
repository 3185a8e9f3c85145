"""SPLADE (Formal, Piwowarski and Clinchant 2021): a masked language model names a text's terms.

Each token votes for every word of the vocabulary, log(1 + relu(logit)), and the strongest vote
counts: words that are not in the text get weight too, if they could stand there. A folder of
sentence-transformers may say that votes are summed, or the logarithm taken twice.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from sbert_retriever.encoder.adjust import Adjustments, adjusted
from sbert_retriever.encoder.batching import TokenBatch, token_batches
from sbert_retriever.encoder.checkpoint import Checkpoint
from sbert_retriever.encoder.halving import HalvingRunner
from sbert_retriever.encoder.known_tokens import check_token_ids, words_of
from sbert_retriever.encoder.precision import choose_device, choose_dtype
from sbert_retriever.encoder.pretrained import read_pretrained
from sbert_retriever.encoder.process import settle
from sbert_retriever.encoder.resolve import HubOptions, locate
from sbert_retriever.encoder.teams import team
from sbert_retriever.encoder.tokenizer import load_tokenizer
from sbert_retriever.encoder.weights import fingerprint
from sbert_retriever.errors import ModelFormatError
from sbert_retriever.forks import Lock
from sbert_retriever.sparse.splade_files import Votes, read_splade
from sbert_retriever.types import SparseIdentity, SparseVector

# A row of logits has the vocabulary's width: batches are small.
_BATCH_TOKENS = 2048
_FULL_TOKENS = 512


class Splade:
    """Texts to sparse vectors over a vocabulary. Made by `load`.

    Questions and passages are encoded alike. One instance may be used from many threads.
    Weights are read at the first text.
    """

    def __init__(
        self,
        checkpoint: Checkpoint,
        votes: Votes,
        *,
        name: str,
        device: torch.device,
        dtype: torch.dtype,
    ) -> None:
        self.name = name
        self._checkpoint, self._said = checkpoint, votes
        self._device, self._dtype = device, dtype
        self._tokenizer = load_tokenizer(
            checkpoint.transformer,
            checkpoint.config,
            max_length=checkpoint.max_length,
            lowercase=checkpoint.lowercase,
        )
        self._in_halves = HalvingRunner(device, _BATCH_TOKENS, adjustable=False)
        self._guard = Lock()
        self._model: Any = None

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
    ) -> Splade:
        """Load a masked language model that was trained as a SPLADE.

        Args:
            name: A folder or a hub id.
            device: "auto", "cpu", "cuda", "cuda:1", "mps".
            dtype: "auto", "float32", "bfloat16", "float16".
            revision: A branch, tag or commit of the hub.
            cache_dir: The hub's cache.
            token: For private repositories of the hub.
            local_files_only: True never asks the network; None asks HF_HUB_OFFLINE.
            max_length: Tokens that are read of a text; None takes the model's.

        Raises:
            ModelNotFoundError: Nothing answers to the name.
            ModelFormatError: The files are of no masked language model.
            DeviceError: The device is not on this machine.
        """
        hub = HubOptions(
            revision=revision, cache_dir=cache_dir, token=token, local_files_only=local_files_only
        )
        found = locate(name, hub)
        checkpoint, votes = read_splade(found.folder, found.packaged)
        chosen = choose_device(device)
        return cls(
            adjusted(checkpoint, Adjustments(max_length=max_length)),
            votes,
            name=found.name,
            device=chosen,
            dtype=choose_dtype(dtype, chosen),
        )

    @property
    def identity(self) -> SparseIdentity:
        """What the collection remembers."""
        return SparseIdentity(
            name=self.name,
            score_kind="dot",
            idf=False,
            weights=fingerprint(self._checkpoint),
            settings={"max_length": self._checkpoint.max_length, **self._said.settings},
        )

    def encode_queries(self, texts: Iterable[str]) -> list[SparseVector]:
        """A vector for each question."""
        return self.encode_passages(texts)

    def encode_passages(self, texts: Iterable[str]) -> list[SparseVector]:
        """A vector for each passage.

        Raises:
            ModelError: The tokenizer is another model's; or one text alone finds no memory.
        """
        given = list(texts)
        ids = self._tokenizer.encode(given).ids
        found: list[SparseVector | None] = [None] * len(given)
        batches = token_batches(
            ids, max_tokens=self._in_halves.batch_tokens, full_tokens=_FULL_TOKENS
        )
        with torch.inference_mode(), team(self._device):
            for batch in batches:
                for part, votes in self._in_halves(batch, self._votes):
                    vectors = _sparse(votes.cpu().numpy())
                    for row, vector in zip(part.rows, vectors, strict=True):
                        found[row] = vector
        return [vector for vector in found if vector is not None]

    def warm_up(self) -> None:
        """Read the weights now."""
        self._loaded()

    def _votes(self, batch: TokenBatch) -> Tensor:
        """The pooled votes for each word (batch, vocabulary) float32, on the device."""
        model = self._loaded()
        check_token_ids(batch.token_ids, known=words_of(model))
        longest = max(map(len, batch.token_ids))
        ids = torch.zeros((len(batch.token_ids), longest), dtype=torch.long)
        mask = torch.zeros_like(ids)
        for row, tokens in enumerate(batch.token_ids):
            ids[row, : len(tokens)] = torch.from_numpy(np.asarray(tokens, dtype=np.int64))
            mask[row, : len(tokens)] = 1
        ids, mask = ids.to(self._device), mask.to(self._device)
        logits: Tensor = model(input_ids=ids, attention_mask=mask).logits.float()
        votes = torch.log1p(torch.relu(logits)).masked_fill(mask[..., None] == 0, 0.0)
        if self._said.activation == "log1p_relu":
            votes = torch.log1p(votes)
        return votes.sum(dim=1) if self._said.pooled == "sum" else votes.amax(dim=1)

    def _loaded(self) -> Any:
        settle(self._device)
        with self._guard:
            if self._model is None:
                self._model = _read(self._checkpoint, self._dtype).to(self._device).eval()
            return self._model


def _sparse(rows: np.ndarray[Any, Any]) -> list[SparseVector]:
    """Rows (n, vocabulary) as the numbers that are not 0."""
    made = []
    for row in rows:
        there = np.flatnonzero(row)
        made.append(SparseVector(there.tolist(), row[there].tolist()))
    return made


def _read(checkpoint: Checkpoint, dtype: torch.dtype) -> Any:
    from transformers import AutoModelForMaskedLM

    folder = checkpoint.transformer
    model, missing = read_pretrained(AutoModelForMaskedLM, folder, dtype)
    if missing:
        named = ", ".join(missing[:3])
        raise ModelFormatError(f"the weights in {folder} hold no {named}, which SPLADE needs")
    return model
