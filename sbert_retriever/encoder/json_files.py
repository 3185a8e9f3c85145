"""Configuration files of a checkpoint."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from sbert_retriever.errors import ModelFormatError


def load_json(path: Path) -> Any:
    """What a JSON file holds; {} where the file is absent.

    Raises:
        ModelFormatError: The file is there and is no JSON.
    """
    try:
        return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    except (OSError, ValueError, RecursionError) as error:
        raise ModelFormatError(f"{path} cannot be read as JSON ({error}): save it again") from error


def read_json(path: Path) -> dict[str, Any]:
    """A JSON object from a file; {} where the file is absent.

    Raises:
        ModelFormatError: The file is there and holds no JSON object.
    """
    value = load_json(path)
    if not isinstance(value, dict):
        raise ModelFormatError(f"{path} holds a {type(value).__name__}, expected a JSON object")
    return value
