"""Read the description of a SPLADE: a masked language model, or a folder of sentence-transformers.

In the latter the first module is the language model and the second says how votes are pooled.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

from sbert_retriever.encoder.checkpoint import (
    Checkpoint,
    inside,
    read_checkpoint,
    read_modules,
    read_transformer,
)
from sbert_retriever.encoder.json_files import read_json
from sbert_retriever.encoder.packaged import PackagedModel
from sbert_retriever.errors import ModelFormatError

Pooled: TypeAlias = Literal["max", "sum"]
Activation: TypeAlias = Literal["relu", "log1p_relu"]

_POOLED: tuple[Pooled, ...] = ("max", "sum")
_ACTIVATIONS: tuple[Activation, ...] = ("relu", "log1p_relu")


@dataclass(frozen=True)
class Votes:
    """What becomes of a token's logits.

    Args:
        pooled: Whether a word has the strongest vote of a text's tokens, or their sum.
        activation: "relu" is log(1 + relu(logit)); "log1p_relu" takes that logarithm twice.
    """

    pooled: Pooled = "max"
    activation: Activation = "relu"

    @property
    def settings(self) -> dict[str, str]:
        """What differs from the paper's, for a collection to remember."""
        usual = Votes()
        told = {"pooling_strategy": self.pooled, "activation_function": self.activation}
        standard = (usual.pooled, usual.activation)
        return {k: v for (k, v), s in zip(told.items(), standard, strict=True) if v != s}


def read_splade(folder: Path, packaged: PackagedModel | None = None) -> tuple[Checkpoint, Votes]:
    """What the files of a folder say; no weights are touched.

    Raises:
        ModelFormatError: They are of no masked language model, or ask for something unknown.
    """
    if not (folder / "modules.json").is_file():
        checkpoint, votes = read_checkpoint(folder, packaged), Votes()
    else:
        checkpoint, votes = _of_modules(folder)
    kinds = checkpoint.config.get("architectures") or []
    if not any("MaskedLM" in kind for kind in kinds):
        raise ModelFormatError(
            f"{folder} is {', '.join(kinds) or 'of no named kind'}, and SPLADE is a masked "
            "language model (...ForMaskedLM): name another, or use sparse='bm25'"
        )
    return checkpoint, votes


def _of_modules(folder: Path) -> tuple[Checkpoint, Votes]:
    modules = read_modules(folder)
    names = [kind.rsplit(".", 1)[-1] for kind, _ in modules]
    known = all(kind.startswith("sentence_transformers.") for kind, _ in modules)
    if not known or names not in (
        ["MLMTransformer", "SpladePooling"],
        ["Transformer", "SpladePooling"],
    ):
        raise ModelFormatError(
            f"{folder} has the modules {', '.join(names) or 'none'}, and SPLADE is a masked "
            "language model (MLMTransformer, SpladePooling): name another, or use sparse='bm25'"
        )
    (_, transformer), (_, pooling) = modules
    config = read_json(inside(folder, pooling) / "config.json")
    pooled = str(config.get("pooling_strategy") or "max")
    activation = str(config.get("activation_function") or "relu")
    votes = next(
        (Votes(p, a) for p in _POOLED for a in _ACTIVATIONS if (p, a) == (pooled, activation)), None
    )
    if votes is None:
        raise ModelFormatError(
            f"{folder} pools by {pooled!r} after {activation!r}, expected one of "
            f"{', '.join(_POOLED)} after one of {', '.join(_ACTIVATIONS)}"
        )
    return read_transformer(folder, transformer), votes
