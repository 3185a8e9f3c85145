"""ColBERT checkpoints: a projected vector for each token (Khattab and Zaharia 2020, section 3).

Two layouts are read. That of the authors' code: a BERT whose weights are named `bert.*`, with
`linear.weight` (dim, width) beside them, and `artifact.metadata`. That of sentence-transformers
folders made for late interaction: modules.json with a Transformer and a Dense layer without bias
and activation, and lengths and markers in config_sentence_transformers.json.

Section 3.2: a marker follows [CLS]; a question is filled up with [MASK] to its full length, whose
vectors take part in MaxSim; a passage's punctuation does not.
"""

from __future__ import annotations

import os
import string
import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812 - torch's own customary name
from torch import Tensor

from sbert_retriever.encoder.backbone import Backbone, load_backbone
from sbert_retriever.encoder.batching import TokenIds, token_batches
from sbert_retriever.encoder.checkpoint import Checkpoint, inside, read_transformer_alone
from sbert_retriever.encoder.json_files import load_json, read_json
from sbert_retriever.encoder.kinds import COLBERT_FILE, is_colbert
from sbert_retriever.encoder.precision import choose_device, choose_dtype
from sbert_retriever.encoder.process import settle
from sbert_retriever.encoder.resolve import HubOptions, locate
from sbert_retriever.encoder.texts import checked, windows
from sbert_retriever.encoder.tokenizer import TextTokenizer, load_tokenizer
from sbert_retriever.encoder.weights import load_state
from sbert_retriever.errors import ModelError, ModelFormatError
from sbert_retriever.types import Role

if TYPE_CHECKING:
    from sbert_retriever.types import Vectors

_PROJECTION = "linear.weight"
_BATCH_TOKENS = {"cpu": 1024, "cuda": 65536, "mps": 16384}


@dataclass(frozen=True, kw_only=True)
class ColbertSettings:
    """How a ColBERT checkpoint reads texts.

    Args:
        lengths: Tokens of a text by role, special ones and the marker included.
        markers: The token after [CLS], by role; "" is none.
        expand: Whether questions are filled up with [MASK].
        attend: Whether other tokens attend to those.
        skipped: Words whose vectors are left out of passages.
    """

    lengths: Mapping[Role, int]
    markers: Mapping[Role, str]
    expand: bool = True
    attend: bool = False
    skipped: Sequence[str] = ()


class ColbertEncoder:
    """A ColBERT model that turns texts into one vector a token. Made by `load`.

    One instance may be used from many threads. Weights are read at the first use, once. It gives
    token vectors for late interaction alone: no single vector a text, so no collection is built
    with it.

    Args:
        checkpoint: Its transformer.
        settings: How it reads texts.
        projection: The folder whose weights have the projection.
        name: As it was asked for.
        device: Where it runs.
        dtype: In which floating type; vectors leave as float32.
    """

    def __init__(
        self,
        checkpoint: Checkpoint,
        settings: ColbertSettings,
        projection: Path,
        *,
        name: str,
        device: torch.device,
        dtype: torch.dtype,
    ) -> None:
        self.name = name
        self._checkpoint = checkpoint
        self._settings = settings
        self._projection = projection
        self._device, self._dtype = device, dtype
        self._tokenizers = {role: self._tokenizer(role) for role in ("query", "passage")}
        some = self._tokenizers["query"]
        self._mask_id = _known(some, "[MASK]", name) if settings.expand else 0
        self._marker_ids = {
            role: _known(some, marker.strip() if some.token_id(marker) is None else marker, name)
            for role, marker in settings.markers.items()
            if marker
        }
        self._skipped = np.array(
            sorted({t for word in settings.skipped if (t := some.token_id(word)) is not None}),
            dtype=np.int32,
        )
        self._lock = threading.Lock()
        self._model: tuple[Backbone, Tensor] | None = None

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
    ) -> ColbertEncoder:
        """Load a ColBERT checkpoint by name.

        Args:
            name: A folder or a hub id.
            device: "auto", "cpu", "cuda", "cuda:1", "mps".
            dtype: "auto" (bfloat16 where it pays), "float32", "bfloat16", "float16".
            revision: A branch, tag or commit of the hub.
            cache_dir: The hub's cache.
            token: For private repositories of the hub.
            local_files_only: True never asks the network; None asks HF_HUB_OFFLINE.

        Raises:
            ModelNotFoundError: Nothing answers to the name.
            ModelFormatError: It is no ColBERT checkpoint, or its files cannot be used.
            DeviceError: The device is not on this machine.
        """
        chosen = choose_device(device)
        hub = HubOptions(
            revision=revision, cache_dir=cache_dir, token=token, local_files_only=local_files_only
        )
        found = locate(name, hub)
        checkpoint, settings, projection = _read(found.folder, found.name)
        return cls(
            checkpoint,
            settings,
            projection,
            name=found.name,
            device=chosen,
            dtype=choose_dtype(dtype, chosen),
        )

    def warm_up(self) -> None:
        """Read the weights now, so that no text has to wait for them."""
        self._loaded()

    def encode_tokens(self, texts: Iterable[str], *, role: Role) -> list[Vectors]:
        """Encode texts to one vector a token.

        Returns:
            For each text float32 (tokens, dim), each row of length 1. A question has as many as its
            full length where it is filled up; a passage has none for punctuation.

        Raises:
            InputTypeError: One str, or an entry that is no str; the message names its position.
            ModelError: A vector is not finite.
        """
        found: list[Vectors] = []
        for window in windows(checked(texts)):
            found += self._encode(
                [self._marked(ids, role) for ids in self._ids(window, role)], role
            )
        return found

    # Inside -----------------------------------------------------------------------------

    def _tokenizer(self, role: Role) -> TextTokenizer:
        """Leaves one token of the full length for the marker."""
        room = self._settings.lengths[role] - bool(self._settings.markers[role])
        limits = [limit for limit in (self._checkpoint.max_length, room) if limit is not None]
        return load_tokenizer(
            self._checkpoint.transformer,
            self._checkpoint.config,
            max_length=min(limits),
            lowercase=self._checkpoint.lowercase,
        )

    def _ids(self, texts: list[str], role: Role) -> list[TokenIds]:
        return self._tokenizers[role].encode(texts).ids

    def _marked(self, ids: TokenIds, role: Role) -> TokenIds:
        marker = self._marker_ids.get(role)
        return ids if marker is None else np.insert(ids, 1, marker).astype(np.int32)

    def _encode(self, texts: list[TokenIds], role: Role) -> list[Vectors]:
        """Token vectors of the texts of one window."""
        expanded = role == "query" and self._settings.expand
        found: list[Vectors] = [np.empty((0, 0), np.float32)] * len(texts)
        with torch.inference_mode():
            for batch in token_batches(texts, max_tokens=_BATCH_TOKENS[self._device.type]):
                vectors = self._vectors(batch.token_ids, expanded=expanded).cpu().numpy()
                for row, ids, rows in zip(batch.rows, batch.token_ids, vectors, strict=True):
                    found[row] = rows.copy() if expanded else self._counted(ids, rows)
        if any(not np.isfinite(rows).all() for rows in found):
            raise ModelError(f"{self.name} gave NaN or infinity: try dtype='float32'")
        return found

    def _vectors(self, texts: Sequence[TokenIds], *, expanded: bool) -> Tensor:
        """Projected, of length 1: float32 (batch, length, dim)."""
        backbone, projection = self._loaded()
        length = self._settings.lengths["query"] if expanded else max(map(len, texts))
        fill = self._mask_id if expanded else self._tokenizers["passage"].pad_id
        grid = np.full((len(texts), length), fill, dtype=np.int64)
        mask = np.zeros((len(texts), length), dtype=bool)
        for row, ids in enumerate(texts):
            grid[row, : len(ids)], mask[row, : len(ids)] = ids, True
        whole = mask.all() or (expanded and self._settings.attend)
        seen = None if whole else torch.from_numpy(mask).to(self._device)
        hidden = backbone(torch.from_numpy(grid).to(self._device), seen)
        return F.normalize(hidden.float() @ projection.T, dim=2)

    def _counted(self, ids: TokenIds, rows: Vectors) -> Vectors:
        """A passage's vectors without those of skipped words; all of them where none is left."""
        kept = ~np.isin(ids, self._skipped)
        own: Vectors = rows[: len(ids)]
        return own[kept] if kept.any() else own.copy()

    def _loaded(self) -> tuple[Backbone, Tensor]:
        settle(self._device)
        if self._model is None:
            with self._lock:
                if self._model is None:
                    self._model = self._load()
        return self._model

    def _load(self) -> tuple[Backbone, Tensor]:
        backbone = load_backbone(self._checkpoint, device=self._device, dtype=self._dtype)
        projection = load_state(self._projection).get(_PROJECTION)
        width = self._checkpoint.config.get("hidden_size")
        if projection is None or projection.ndim != 2 or projection.shape[1] != width:
            shape = None if projection is None else tuple(projection.shape)
            raise ModelFormatError(
                f"{self._projection} has {_PROJECTION} of shape {shape}, expected (dim, {width})"
            )
        return backbone, projection.float().to(self._device)


def _read(folder: Path, name: str) -> tuple[Checkpoint, ColbertSettings, Path]:
    """Transformer, settings, and the folder with the projection."""
    if (folder / "modules.json").is_file():
        return _read_modules(folder, name)
    if not is_colbert(folder):
        raise _no_colbert(name)
    said = read_json(folder / COLBERT_FILE)
    settings = ColbertSettings(
        lengths={
            "query": int(said.get("query_maxlen", 32)),
            "passage": int(said.get("doc_maxlen", 220)),
        },
        markers={
            "query": str(said.get("query_token_id", "[unused0]")),
            "passage": str(said.get("doc_token_id", "[unused1]")),
        },
        attend=bool(said.get("attend_to_mask_tokens", False)),
        skipped=tuple(string.punctuation) if said.get("mask_punctuation", True) else (),
    )
    return read_transformer_alone(folder, folder), settings, folder


def _read_modules(folder: Path, name: str) -> tuple[Checkpoint, ColbertSettings, Path]:
    entries = load_json(folder / "modules.json")
    modules = [(str(entry.get("type", "")).rsplit(".", 1)[-1], entry) for entry in entries]
    said = read_json(folder / "config_sentence_transformers.json")
    if [kind for kind, _ in modules] != ["Transformer", "Dense"] or "query_length" not in said:
        raise _no_colbert(name)
    transformer, dense = (inside(folder, str(module.get("path", ""))) for _, module in modules)
    _check_linear(dense)
    settings = ColbertSettings(
        lengths={
            "query": int(said["query_length"]),
            "passage": int(said.get("document_length", 180)),
        },
        markers={
            "query": str(said.get("query_prefix") or ""),
            "passage": str(said.get("document_prefix") or ""),
        },
        expand=bool(said.get("do_query_expansion", True)),
        attend=bool(said.get("attend_to_expansion_tokens", False)),
        skipped=tuple(map(str, said.get("skiplist_words") or ())),
    )
    return read_transformer_alone(folder, transformer), settings, dense


def _check_linear(dense: Path) -> None:
    """Refuse a layer that is more than a projection."""
    config: dict[str, Any] = read_json(dense / "config.json")
    activation = str(config.get("activation_function", "torch.nn.modules.linear.Identity"))
    if config.get("bias", False) or not activation.endswith(".Identity"):
        raise ModelFormatError(
            f"{dense} has a bias or the activation {activation}, expected a projection with neither"
        )


def _no_colbert(name: str) -> ModelFormatError:
    return ModelFormatError(
        f"{name} is no ColBERT checkpoint (no artifact.metadata, and no modules.json with a "
        "Transformer, a Dense layer and query_length): load it with BiEncoder or CrossEncoder"
    )


def _known(tokenizer: TextTokenizer, token: str, name: str) -> int:
    found = tokenizer.token_id(token)
    if found is None:
        raise ModelFormatError(
            f"the tokenizer of {name} has no token {token!r}, which it marks with"
        )
    return found
