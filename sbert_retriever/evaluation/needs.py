"""Whether what the extra `eval` brings is installed, asked before the work and not after it."""

from __future__ import annotations

from importlib import import_module
from typing import Literal, TypeAlias

from sbert_retriever.errors import MissingExtraError

Need: TypeAlias = Literal["ir_measures", "scipy", "sklearn", "matplotlib"]

_PURPOSES: dict[Need, tuple[str, str]] = {
    "ir_measures": ("ir_measures", "measure rankings"),
    "scipy": ("scipy", "rank values"),
    "sklearn": ("scikit-learn", "train a classifier"),
    "matplotlib": ("matplotlib", "draw figures"),
}


def check_installed(*needs: Need) -> None:
    """Refuse to begin where a package is absent.

    Raises:
        MissingExtraError: One is.
    """
    for need in needs:
        try:
            import_module(need)
        except ImportError as error:
            package, purpose = _PURPOSES[need]
            raise MissingExtraError(package, extra="eval", purpose=purpose) from error
