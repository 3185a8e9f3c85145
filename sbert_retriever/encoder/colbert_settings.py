"""What the files of a ColBERT checkpoint say of its token vectors (Khattab and Zaharia 2020).

The paper's section 3.2: a marker, [Q] or [D], stands after [CLS]; a query is filled with [MASK]
tokens to a fixed length, which are scored like its own (query augmentation); a passage's
punctuation is left out; a linear layer without bias makes the vectors narrow, and each gets
length 1. Three layouts are read:

- colbert-ai's, as of colbert-ir/colbertv2.0: an HF_ColBERT in config.json, whose weights hold the
  projection as `linear.weight` (dim, hidden), and the settings in artifact.metadata.
- PyLate's: modules.json with a Transformer and Dense layers, the settings in
  config_sentence_transformers.json.
- sentence-transformers' own since release 6: the settings beside the Transformer and in a
  MultiVectorMask module; its markers are prompts.
"""

from __future__ import annotations

import string
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from sbert_retriever.encoder.adjust import check_length
from sbert_retriever.encoder.checkpoint import Checkpoint, inside, position_limit
from sbert_retriever.encoder.json_files import load_json, read_json
from sbert_retriever.errors import ModelFormatError
from sbert_retriever.types import Role

_ROLES: dict[str, Role] = {"query": "query", "document": "passage"}
_PUNCTUATION = tuple(string.punctuation)


@dataclass(frozen=True, kw_only=True)
class Expansion:
    """How short queries are filled.

    Args:
        length: Tokens up to which, special ones included.
        attended: Whether the query's own tokens see those that fill it; these see the query's
            in any case.
        token: With what; None is the tokenizer's mask token.
    """

    length: int
    attended: bool = False
    token: str | None = None


@dataclass(frozen=True, kw_only=True)
class ColbertSettings:
    """How texts become token vectors.

    Args:
        markers: By role, the token that is put after the first one; "" is none.
        prompts: By role, what is put before each text.
        lengths: By role, tokens that are read, special ones and the marker included; None is
            without limit.
        expansion: How queries are filled; None leaves them as they are.
        skipped: Tokens that give no vector, as the vocabulary writes them.
        skipped_in: The roles that this holds for.
    """

    markers: Mapping[Role, str]
    prompts: Mapping[Role, str]
    lengths: Mapping[Role, int | None]
    expansion: Expansion | None
    skipped: tuple[str, ...] = ()
    skipped_in: tuple[Role, ...] = ("passage",)


def read_colbert(checkpoint: Checkpoint) -> ColbertSettings:
    """The settings of a checkpoint, in whichever layout; lengths end where the model's do.

    Raises:
        ModelFormatError: A file cannot be read, or asks for something that is not supported.
    """
    try:
        settings = _read(checkpoint)
    except (TypeError, ValueError, KeyError, AttributeError) as error:
        raise ModelFormatError(
            f"the settings of {checkpoint.folder} as a ColBERT model cannot be read "
            f"({type(error).__name__}: {error}): get the whole model again"
        ) from error
    return _within(settings, position_limit(checkpoint.config))


def with_lengths(
    settings: ColbertSettings,
    checkpoint: Checkpoint,
    *,
    query_length: int | None,
    passage_length: int | None,
) -> ColbertSettings:
    """The settings with the caller's lengths; None keeps the checkpoint's.

    Raises:
        InputError: The model cannot read so many tokens, or it is too few.
    """
    limit = position_limit(checkpoint.config)
    lengths, expansion = dict(settings.lengths), settings.expansion
    if passage_length is not None:
        check_length("passage_length", passage_length, limit)
        lengths["passage"] = passage_length
    if query_length is not None:
        check_length("query_length", query_length, limit)
        if expansion is not None:
            fixed = expansion.length == lengths["query"]
            filled = query_length if fixed else min(expansion.length, query_length)
            expansion = replace(expansion, length=filled)
        lengths["query"] = query_length
    return replace(settings, lengths=lengths, expansion=expansion)


def _read(checkpoint: Checkpoint) -> ColbertSettings:
    if not (checkpoint.folder / "modules.json").is_file():
        return _from_metadata(read_json(checkpoint.folder / "artifact.metadata"), checkpoint)
    whole = read_json(checkpoint.folder / "config_sentence_transformers.json")
    if whole.get("model_type") == "MultiVectorEncoder" and "query_prefix" not in whole:
        return _from_modules(checkpoint)
    return _from_pylate(whole, checkpoint)


def _from_metadata(metadata: Mapping[str, Any], checkpoint: Checkpoint) -> ColbertSettings:
    """colbert-ai's; a file that leaves a thing out has colbert-ai's own default."""
    kind = metadata.get("interaction", "colbert")
    if kind != "colbert":
        raise ModelFormatError(
            f"{checkpoint.folder / 'artifact.metadata'} asks for the interaction {kind!r}, "
            "expected 'colbert' (MaxSim): use another model"
        )
    query_length = int(metadata.get("query_maxlen") or 32)
    return ColbertSettings(
        markers={
            "query": metadata.get("query_token_id") or "[unused0]",
            "passage": metadata.get("doc_token_id") or "[unused1]",
        },
        prompts={"query": "", "passage": ""},
        lengths={"query": query_length, "passage": int(metadata.get("doc_maxlen") or 220)},
        expansion=Expansion(
            length=query_length, attended=bool(metadata.get("attend_to_mask_tokens"))
        ),
        skipped=_PUNCTUATION if metadata.get("mask_punctuation", True) else (),
    )


def _from_pylate(whole: Mapping[str, Any], checkpoint: Checkpoint) -> ColbertSettings:
    """PyLate's; a key that is absent or null has PyLate's own default."""
    markers = {
        role: _said(whole, f"{name}_prefix", f"[{name[0].upper()}] ")
        for name, role in _ROLES.items()
    }
    query_length = int(_said(whole, "query_length", 32))
    expansion = None
    if _said(whole, "do_query_expansion", True):
        attended = bool(whole.get("attend_to_expansion_tokens"))
        expansion = Expansion(length=query_length, attended=attended)
    return ColbertSettings(
        markers=markers,
        prompts={r: checkpoint.prompt(r).removeprefix(marker) for r, marker in markers.items()},
        lengths={"query": query_length, "passage": int(_said(whole, "document_length", 180))},
        expansion=expansion,
        skipped=tuple(_said(whole, "skiplist_words", _PUNCTUATION)),
    )


def _from_modules(checkpoint: Checkpoint) -> ColbertSettings:
    """sentence-transformers' own."""
    transformer = read_json(checkpoint.transformer / "sentence_bert_config.json")
    lengths = {
        role: _said(transformer, f"{name}_length", checkpoint.max_length)
        for name, role in _ROLES.items()
    }
    expansion = _read_expansion(transformer.get("query_expansion"))
    if expansion is not None:
        filled = transformer["query_expansion"].get("strategy") == "fixed"
        longest = lengths["query"]
        shortest = None if longest is None else max(longest, expansion.length)
        lengths["query"] = expansion.length if filled else shortest
    mask = _mask_config(checkpoint.folder)
    if mask.get("keep_only_token_ids"):
        raise ModelFormatError(
            f"{checkpoint.folder} keeps the vectors of some tokens only (keep_only_token_ids), as "
            "models of images do, expected a model of texts"
        )
    return ColbertSettings(
        markers={"query": "", "passage": ""},
        prompts={role: checkpoint.prompt(role) for role in _ROLES.values()},
        lengths=lengths,
        expansion=expansion,
        skipped=tuple(mask.get("skiplist_words") or ()),
        skipped_in=tuple(
            _ROLES[task] for task in _said(mask, "skiplist_tasks", ["document"]) if task in _ROLES
        ),
    )


def _read_expansion(said: Mapping[str, Any] | None) -> Expansion | None:
    """The Transformer's `query_expansion`: a strategy, a length, a token, and who sees it."""
    if said is None:
        return None
    return Expansion(
        length=int(said["length"]),
        attended=bool(said.get("attend")),
        token=said.get("token"),
    )


def _mask_config(folder: Path) -> dict[str, Any]:
    """The settings of the module that says which token vectors count; {} where there is none."""
    for module in load_json(folder / "modules.json"):
        if str(module.get("type", "")).endswith(".MultiVectorMask"):
            return read_json(inside(folder, str(module.get("path", ""))) / "config.json")
    return {}


def _said(values: Mapping[str, Any], key: str, default: Any) -> Any:
    """A value, or the default where it is absent or null."""
    value = values.get(key)
    return default if value is None else value


def _within(settings: ColbertSettings, limit: int | None) -> ColbertSettings:
    """The settings with no length beyond the model's position embeddings."""
    if limit is None:
        return settings
    lengths = {role: min(length or limit, limit) for role, length in settings.lengths.items()}
    expansion = settings.expansion
    if expansion is not None:
        expansion = replace(expansion, length=min(expansion.length, limit))
    return replace(settings, lengths=lengths, expansion=expansion)
