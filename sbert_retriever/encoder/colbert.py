"""A ColBERT model: texts to one vector a token, for late interaction."""

from __future__ import annotations

import os
from collections.abc import Iterable
from functools import cached_property, partial
from typing import TYPE_CHECKING

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812 - torch's own customary name
from torch import Tensor, nn

from sbert_retriever.encoder.backbone import Backbone, check_tokens, load_backbone
from sbert_retriever.encoder.batching import TokenBatch, batch_sizes, token_batches
from sbert_retriever.encoder.checkpoint import Checkpoint, read_checkpoint
from sbert_retriever.encoder.colbert_settings import ColbertSettings, read_colbert, with_lengths
from sbert_retriever.encoder.colbert_tokens import Counts, RoleTokens, role_tokens
from sbert_retriever.encoder.finite import check_finite
from sbert_retriever.encoder.halving import HalvingRunner
from sbert_retriever.encoder.head import load_dense
from sbert_retriever.encoder.kinds import expect_colbert
from sbert_retriever.encoder.precision import choose_device, choose_dtype
from sbert_retriever.encoder.process import settle
from sbert_retriever.encoder.resolve import HubOptions, locate
from sbert_retriever.encoder.teams import team
from sbert_retriever.encoder.texts import checked, windows
from sbert_retriever.encoder.tokenizer import load_tokenizer
from sbert_retriever.encoder.weights import load_tensor, weight_files
from sbert_retriever.errors import ModelFormatError
from sbert_retriever.forks import Lock
from sbert_retriever.types import Role

if TYPE_CHECKING:
    from sbert_retriever.types import Vectors

_ROLES: tuple[Role, ...] = ("query", "passage")


class ColbertEncoder:
    """A ColBERT model (Khattab and Zaharia 2020). Made by `load`.

    `maxsim` of `late_interaction` compares what it gives. One instance may be used from many
    threads. Weights are read at the first use, once.

    Args:
        checkpoint: What to run.
        settings: How texts become token vectors.
        name: As it was asked for.
        device: Where it runs.
        dtype: In which floating type the transformer runs; the projection runs in float32.
        batch_tokens: Tokens in a batch, padding included; None suits the device.
        cpu_fallback: Whether a text for which a GPU has no memory is encoded on the CPU.
    """

    def __init__(
        self,
        checkpoint: Checkpoint,
        settings: ColbertSettings,
        *,
        name: str,
        device: torch.device,
        dtype: torch.dtype,
        batch_tokens: int | None = None,
        cpu_fallback: bool = False,
    ) -> None:
        weight_files(checkpoint.transformer)
        self.name = name
        self._checkpoint = checkpoint
        self._settings = settings
        self._device, self._dtype = device, dtype
        most, self._full_tokens = batch_sizes(batch_tokens, device, dtype)
        self._in_halves = HalvingRunner(device, most)
        self._cpu_fallback = cpu_fallback
        texts = load_tokenizer(
            checkpoint.transformer,
            checkpoint.config,
            max_length=None,
            lowercase=checkpoint.lowercase,
        )
        self._pad_id = texts.pad_id
        self._roles = {role: role_tokens(role, texts, settings, checkpoint) for role in _ROLES}
        self._lock = Lock()
        self._model: tuple[Backbone, nn.Module] | None = None

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
        query_length: int | None = None,
        passage_length: int | None = None,
        batch_tokens: int | None = None,
        cpu_fallback: bool = False,
    ) -> ColbertEncoder:
        """Load a ColBERT model by name, as colbert-ai, PyLate or sentence-transformers saved it.

        Args:
            name: A folder or a hub id.
            device: "auto", "cpu", "cuda", "cuda:1", "mps".
            dtype: "auto" (bfloat16 where it pays), "float32", "bfloat16", "float16".
            revision: A branch, tag or commit of the hub.
            cache_dir: The hub's cache.
            token: For private repositories of the hub.
            local_files_only: True never asks the network; None asks HF_HUB_OFFLINE.
            query_length: Tokens of a query, special ones and those that fill it included; None
                takes the model's.
            passage_length: Tokens of a passage that are read, special ones included; None takes the
                model's, which is often less than a bi-encoder reads (180, 220).
            batch_tokens: Tokens in a batch, padding included; None suits the device.
            cpu_fallback: Whether a text for which a GPU has no memory even alone is encoded on the
                CPU, in float32, rather than refused.

        Raises:
            ModelNotFoundError: Nothing answers to the name; the message lists where was looked.
            ModelFormatError: The files cannot be used, or are of another kind of model.
            DeviceError: The device is not on this machine.
            InputError: An argument is out of range.
        """
        chosen = choose_device(device)
        floating = choose_dtype(dtype, chosen)
        hub = HubOptions(
            revision=revision, cache_dir=cache_dir, token=token, local_files_only=local_files_only
        )
        found = locate(name, hub)
        checkpoint = read_checkpoint(found.folder, found.packaged)
        expect_colbert(checkpoint, found.name)
        settings = with_lengths(
            read_colbert(checkpoint),
            checkpoint,
            query_length=query_length,
            passage_length=passage_length,
        )
        return cls(
            checkpoint,
            settings,
            name=found.name,
            device=chosen,
            dtype=floating,
            batch_tokens=batch_tokens,
            cpu_fallback=cpu_fallback,
        )

    @property
    def query_length(self) -> int | None:
        """Tokens of a query, special ones included; None is without limit."""
        return self._settings.lengths["query"]

    @property
    def passage_length(self) -> int | None:
        """Tokens of a passage that are read, special ones included; None is without limit."""
        return self._settings.lengths["passage"]

    @property
    def device(self) -> str:
        """Where it runs: "cpu", "cuda:0", "mps"."""
        return str(self._device)

    @property
    def dtype(self) -> str:
        """The floating type its transformer computes in: "float32", "bfloat16", "float16"."""
        return str(self._dtype).removeprefix("torch.")

    def warm_up(self) -> None:
        """Read the weights now, so that no text has to wait for them."""
        self._loaded()

    def encode_tokens(self, texts: Iterable[str], *, role: Role) -> list[Vectors]:
        """Encode texts to one vector a token. Never warns of truncation.

        Args:
            texts: Any iterable of str.
            role: "query" or "passage".

        Returns:
            For each text float32 (tokens, width), each row of length 1. A query has the vectors of
            the tokens that fill it too; a passage none of its punctuation.

        Raises:
            InputTypeError: One str, or an entry that is no str; the message names its position.
            ModelError: A vector is not finite; the message names its position.
        """
        found: list[Vectors] = []
        for window in windows(checked(texts)):
            vectors = self._encoded(window, self._roles[role])
            sums = np.stack([each.sum(axis=0) for each in vectors])
            check_finite(sums, window, start=len(found), dtype=self.dtype)
            found.extend(vectors)
        return found

    def _encoded(self, texts: list[str], tokens: RoleTokens) -> list[Vectors]:
        """Token vectors (tokens, width) of each text of one window."""
        self._loaded()
        ids, seen = tokens.encode(texts)
        found: list[Vectors] = [np.empty((0, 0), np.float32)] * len(texts)
        batches = token_batches(
            ids, max_tokens=self._in_halves.batch_tokens, full_tokens=self._full_tokens
        )
        run = partial(self._states, seen=seen)
        on_cpu = partial(self._states_on_cpu, seen=seen) if self._cpu_fallback else None
        with torch.inference_mode(), team(self._device):
            for batch in batches:
                for part, made in self._in_halves(batch, run, on_cpu=on_cpu):
                    states = made.cpu().numpy()
                    for row, own, text in zip(part.rows, part.token_ids, states, strict=True):
                        found[row] = text[: len(own)][tokens.kept(own)]
        return found

    def _states(self, batch: TokenBatch, *, seen: Counts) -> Tensor:
        """Token vectors (batch, length, dim) float32 of length 1, on the device."""
        backbone, projection = self._loaded()
        check_tokens(backbone, batch)
        grid, mask = self._padded(batch, seen)
        return F.normalize(projection(backbone(grid, mask).float()), dim=2)

    def _states_on_cpu(self, batch: TokenBatch, *, seen: Counts) -> Tensor:
        return self._spare._states(batch, seen=seen)

    @cached_property
    def _spare(self) -> ColbertEncoder:
        """The same encoder on the CPU, for what the device has no memory for."""
        return ColbertEncoder(
            self._checkpoint,
            self._settings,
            name=self.name,
            device=torch.device("cpu"),
            dtype=torch.float32,
        )

    def _padded(self, batch: TokenBatch, seen: Counts) -> tuple[Tensor, Tensor | None]:
        """Token ids (batch, length), and which of them are attended to; None where all are."""
        grid, _ = batch.padded(self._pad_id, device=self._device)
        counts = seen[list(batch.rows)]
        if counts.min() == grid.shape[1]:
            return grid, None
        mask = np.arange(grid.shape[1]) < counts[:, None]
        return grid, torch.from_numpy(mask).to(self._device)

    def _loaded(self) -> tuple[Backbone, nn.Module]:
        """The model, read from disk by the first thread that asks."""
        settle(self._device)
        if self._model is None:
            with self._lock:
                if self._model is None:
                    self._model = (
                        load_backbone(self._checkpoint, device=self._device, dtype=self._dtype),
                        _load_projection(self._checkpoint).to(self._device),
                    )
        return self._model


def _load_projection(checkpoint: Checkpoint) -> nn.Module:
    """What makes token vectors narrow: Dense layers, or colbert-ai's `linear.weight` (dim, hidden).

    Raises:
        ModelFormatError: There is none in the weights, or it does not fit.
    """
    if (checkpoint.folder / "modules.json").is_file():
        return nn.Sequential(*(load_dense(spec) for spec in checkpoint.denses))
    weight = load_tensor(checkpoint.transformer, "linear.weight").float()
    width = checkpoint.config.get("hidden_size")
    if weight.ndim != 2 or weight.shape[1] != width:
        raise ModelFormatError(
            f"{checkpoint.transformer} has a linear.weight of shape {tuple(weight.shape)}, "
            f"expected (dim, {width}): get the whole model again"
        )
    linear = nn.Linear(weight.shape[1], weight.shape[0], bias=False)
    linear.weight = nn.Parameter(weight, requires_grad=False)
    return linear.eval()
