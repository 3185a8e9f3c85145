"""Texts to the token ids that a ColBERT model reads: markers, and what fills queries."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from sbert_retriever.encoder.batching import TokenIds
from sbert_retriever.encoder.checkpoint import Checkpoint
from sbert_retriever.encoder.colbert_settings import ColbertSettings
from sbert_retriever.encoder.json_files import read_json
from sbert_retriever.encoder.tokenizer import TextTokenizer
from sbert_retriever.errors import ModelFormatError
from sbert_retriever.types import Role

Counts: TypeAlias = npt.NDArray[np.int64]


@dataclass(frozen=True)
class RoleTokens:
    """How the texts of one role become token ids.

    Args:
        tokenizer: Cuts to the role's length, less the marker.
        prompt: Before each text.
        marker: The id that is put after the first token; None is none.
        filled: Tokens up to which a text is filled; 0 fills none.
        filler: With which id.
        attended: Whether a text's own tokens see those that fill it.
        skipped: Ids that give no vector.
    """

    tokenizer: TextTokenizer
    prompt: str
    marker: int | None
    filled: int
    filler: int
    attended: bool
    skipped: TokenIds

    def encode(self, texts: list[str]) -> tuple[list[TokenIds], Counts]:
        """Token ids of each text, and how many of them the text's own tokens see: int64 (n,)."""
        found = self.tokenizer.encode(texts, prompt=self.prompt).ids
        if self.marker is not None:
            found = [_after_first(ids, self.marker) for ids in found]
        own = [len(ids) for ids in found]
        ids = [self._filled(each) for each in found]
        seen = [len(each) for each in ids] if self.attended else own
        return ids, np.array(seen, dtype=np.int64)

    def kept(self, ids: TokenIds) -> npt.NDArray[np.bool_]:
        """Which tokens of a text give a vector: bool (length,)."""
        return ~np.isin(ids, self.skipped)

    def _filled(self, ids: TokenIds) -> TokenIds:
        missing = max(self.filled - len(ids), 0)
        return np.pad(ids, (0, missing), constant_values=self.filler) if missing else ids


def role_tokens(
    role: Role, texts: TextTokenizer, settings: ColbertSettings, checkpoint: Checkpoint
) -> RoleTokens:
    """How the texts of a role become token ids.

    Raises:
        ModelFormatError: The tokenizer lacks the marker, or what fills queries.
    """
    marker = _marker_id(settings.markers[role], texts, checkpoint)
    length = settings.lengths[role]
    if length is not None and marker is not None:
        length -= 1
    expansion = settings.expansion if role == "query" else None
    words = settings.skipped if role in settings.skipped_in else ()
    known = [found for word in words if (found := texts.token_id(word)) is not None]
    return RoleTokens(
        tokenizer=texts.to_length(length),
        prompt=settings.prompts[role],
        marker=marker,
        filled=expansion.length if expansion else 0,
        filler=_filler_id(expansion.token, texts, checkpoint) if expansion else 0,
        attended=expansion.attended if expansion else False,
        skipped=np.array(known, dtype=np.int32),
    )


def _marker_id(marker: str, texts: TextTokenizer, checkpoint: Checkpoint) -> int | None:
    """The id of a marker, which PyLate writes with a space after it."""
    if not marker:
        return None
    for token in (marker, marker.strip()):
        if (found := texts.token_id(token)) is not None:
            return found
    raise ModelFormatError(
        f"the marker {marker!r} of {checkpoint.folder} is no token of its tokenizer: get the whole "
        "model again"
    )


def _filler_id(named: str | None, texts: TextTokenizer, checkpoint: Checkpoint) -> int:
    """The id of the token that fills queries."""
    tokens = [named] if named is not None else _special_tokens(checkpoint)
    for token in tokens:
        if (found := texts.token_id(token)) is not None:
            return found
    raise ModelFormatError(
        f"{checkpoint.folder} fills queries with {named or 'mask tokens'}, and its tokenizer has "
        "none: get the whole model again"
    )


def _special_tokens(checkpoint: Checkpoint) -> list[str]:
    """The mask token, then what stands in for it, as the tokenizer's files name them."""
    files = [
        read_json(checkpoint.transformer / name)
        for name in ("tokenizer_config.json", "special_tokens_map.json")
    ]
    masks, ends = ([file.get(f"{kind}_token") for file in files] for kind in ("mask", "eos"))
    named = [*masks, "[MASK]", "<mask>", *ends]
    contents = [token.get("content") if isinstance(token, dict) else token for token in named]
    return [token for token in contents if token]


def _after_first(ids: TokenIds, marker: int) -> TokenIds:
    return np.concatenate([ids[:1], np.array([marker], dtype=np.int32), ids[1:]])
