"""Encoding and indexing beyond one machine, with Ray Data.

Names are loaded when first used, so importing this package loads neither ray nor torch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sbert_ray.indexing import index
    from sbert_ray.parquet import encode_to_parquet, import_parquet
    from sbert_ray.workers import Workers
else:
    _HOMES = {
        "encode_to_parquet": "sbert_ray.parquet",
        "import_parquet": "sbert_ray.parquet",
        "index": "sbert_ray.indexing",
        "Workers": "sbert_ray.workers",
    }

    def __getattr__(name: str) -> Any:
        """Load a public name from its room."""
        if name not in _HOMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from importlib import import_module

        value = getattr(import_module(_HOMES[name]), name)
        globals()[name] = value
        return value


__all__ = ["encode_to_parquet", "import_parquet", "index", "Workers"]


def __dir__() -> list[str]:
    return sorted(__all__)
