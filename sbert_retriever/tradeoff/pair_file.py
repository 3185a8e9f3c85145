"""Scores of pairs, kept from run to run: scoring them is what a measurement spends its time on.

JSON lines: the scorer first, then the scores of a batch of pairs a line. A file of another scorer
is begun anew. A line that a killed run left half written is passed over.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sbert_retriever.errors import InputError

if TYPE_CHECKING:
    from sbert_retriever.types import Scorer

Pair = tuple[str, str]


class PairFile:
    """Scores by pair and length.

    Args:
        path: Made where it is absent, with its folder.
        scorer: Whose scores they are.

    Raises:
        InputError: The path is that of another kind of file, which is left as it is.
    """

    def __init__(self, path: Path, scorer: Scorer) -> None:
        self._path = path
        self._scores: dict[str, float] = {}
        header = json.dumps({"scorer": _named(scorer)})
        check_path(path)
        lines = path.read_text(encoding="utf-8").split("\n") if path.is_file() else []
        if lines and lines[0] == header:
            for line in lines[1:]:
                self._scores.update(_read(line))
            # Ends what a killed run may have left half written.
            self._write("")
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f"{header}\n", encoding="utf-8")

    def recall(self, pairs: Iterable[Pair], max_length: int | None) -> dict[Pair, float]:
        """The scores of those pairs that are known."""
        keys = {pair: _key(pair, max_length) for pair in pairs}
        return {pair: self._scores[key] for pair, key in keys.items() if key in self._scores}

    def keep(self, scores: Mapping[Pair, float], max_length: int | None) -> None:
        """Add scores, on disk as well."""
        named = {_key(pair, max_length): score for pair, score in scores.items()}
        self._scores.update(named)
        self._write(json.dumps(named))

    def _write(self, line: str) -> None:
        with self._path.open("a", encoding="utf-8") as file:
            file.write(f"{line}\n")


def check_path(path: Path) -> None:
    """Refuse a file that holds something else than scores of pairs: it would be written over.

    Raises:
        InputError: It does, or cannot be read.
    """
    try:
        if not path.exists():
            return
        with path.open(encoding="utf-8") as file:
            first = file.readline()
        header = json.loads(first) if first else {"scorer": None}
    except OSError as error:
        reason = error.strerror or error
        raise InputError(f"{path} cannot be read ({reason}): give another path") from error
    except ValueError:
        header = None
    if not isinstance(header, dict) or set(header) != {"scorer"}:
        raise InputError(
            f"{path} holds no scores of pairs, which would be written over it: give another path"
        )


def _named(scorer: Scorer) -> Any:
    identity = getattr(scorer, "identity", None)
    if is_dataclass(identity) and not isinstance(identity, type):
        return asdict(identity)
    return type(scorer).__qualname__


def _key(pair: Pair, max_length: int | None) -> str:
    """A short name of a pair, read up to a length."""
    query, passage = (text.encode("utf-8", "surrogatepass") for text in pair)
    digest = hashlib.blake2b(digest_size=12)
    for part in (str(max_length).encode(), str(len(query)).encode(), query, passage):
        digest.update(part + b"\0")
    return digest.hexdigest()


def _read(line: str) -> dict[str, float]:
    try:
        found = json.loads(line)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
