"""Which fields of a record become the passage's id, text and metadata."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from sbert_retriever.errors import InputError, ReadError
from sbert_retriever.ingest.cells import typed_cell
from sbert_retriever.types import Passage

Record: TypeAlias = tuple[int, dict[str, Any]]
"""The number of its line, and its values by field."""


@dataclass(frozen=True, kw_only=True)
class Fields:
    """Which fields of a record become what.

    Args:
        text: The fields that make the text, joined by a space; at least one.
        id: The field that holds the id; None makes "<source>#<line>" of each.
        metadata: The fields kept as metadata; None keeps all others, () none.
        called: The fields of the text, as a sentence names them; "" lists them.
        way_out: What to do where no field of the text is there; ends the sentence that says so.
        kinds: What text in a field of the metadata is read as; for csv, whose cells are all text.
    """

    text: tuple[str, ...] = ("text",)
    id: str | None = None
    metadata: tuple[str, ...] | None = None
    called: str = ""
    way_out: str = ""
    kinds: Mapping[str, str] = field(default_factory=dict)

    @property
    def of_text(self) -> str:
        """The fields of the text in words."""
        return self.called or " or ".join(map(repr, self.text))

    @classmethod
    def of(
        cls,
        text: str | Sequence[str],
        id_field: str | None,
        metadata: Sequence[str] | None,
    ) -> Fields:
        """From what a caller gives: one name or several.

        Raises:
            InputError: No text field is named.
        """
        names = (text,) if isinstance(text, str) else tuple(text)
        if not names or not all(names):
            raise InputError("text_field is empty: name the field that holds the text")
        kept = (metadata,) if isinstance(metadata, str) else metadata
        return cls(
            text=names,
            id=id_field,
            metadata=None if kept is None else tuple(kept),
            way_out="; name those of the text with text_field (in a shell, --text-field A,B)",
        )


class BadRecordError(Exception):
    """One record cannot be used, and why; it never leaves this room."""


def expect_fields(record: Record, fields: Fields, source: str) -> None:
    """Check the first record: a wrong name would fail on every line, and is said once.

    Raises:
        ReadError: No text field is in it, or the id field is not.
    """
    line, values = record
    wanted = [] if any(name in values for name in fields.text) else [fields.of_text]
    way_out = fields.way_out if wanted else ""
    if fields.id is not None and fields.id not in values:
        wanted.append(repr(fields.id))
    if wanted:
        raise ReadError(
            f"{source}, line {line}: no field {' or '.join(wanted)}; "
            f"the fields are {', '.join(map(repr, values)) or 'none'}{way_out}"
        )


def passage_of(record: Record, source: str, fields: Fields) -> Passage:
    """The passage of a record.

    Raises:
        BadRecordError: A field is missing, has the wrong type, or is not of its declared kind.
    """
    line, values = record
    text = _text(values, fields.text)
    id_ = f"{source}#{line}" if fields.id is None else _id(values, fields.id)
    return Passage(id_, text, _metadata(values, fields), source)


def _text(values: dict[str, Any], names: tuple[str, ...]) -> str:
    found = {name: values[name] for name in names if values.get(name) is not None}
    if not found:
        missing = [name for name in names if name not in values]
        state = "is missing" if missing else "is null"
        raise BadRecordError(f"the text field {' or '.join(map(repr, names))} {state}")
    for name, value in found.items():
        if not isinstance(value, str):
            kind = type(value).__name__
            raise BadRecordError(f"the text field {name!r} is {kind}, expected str")
    return " ".join(part for part in found.values() if part)


def _id(values: dict[str, Any], name: str) -> str:
    value = values.get(name)
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    if not isinstance(value, str):
        kind = "missing" if name not in values else type(value).__name__
        raise BadRecordError(f"the id field {name!r} is {kind}, expected str or int")
    if not value:
        raise BadRecordError(f"the id field {name!r} is empty")
    return value


def _metadata(values: dict[str, Any], fields: Fields) -> dict[str, Any]:
    if fields.metadata is not None:
        kept = {name: values[name] for name in fields.metadata if name in values}
    else:
        taken = {*fields.text, fields.id}
        kept = {name: value for name, value in values.items() if name not in taken}
    for name, kind in fields.kinds.items():
        if isinstance(kept.get(name), str):
            kept[name] = _typed(name, kept[name], kind)
    return kept


def _typed(name: str, cell: str, kind: str) -> Any:
    try:
        return typed_cell(cell, kind)
    except ValueError as error:
        raise BadRecordError(
            f"the field {name!r} was declared filterable as {kind}, and holds {error}"
        ) from None
