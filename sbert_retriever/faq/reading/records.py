"""What a file holds, made into entries; each error says the file and the line."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sbert_retriever.errors import InputError, InputTypeError, ReadError
from sbert_retriever.faq.entries import FaqEntry
from sbert_retriever.faq.passages import normalised

_QUESTIONS = ("question", "questions", "phrasing", "phrasings", "title")
_NAMES = {
    **dict.fromkeys(_QUESTIONS, "phrasings"),
    **dict.fromkeys(("answer", "answers", "response", "text"), "answer"),
    **dict.fromkeys(("tag", "tags", "category", "categories", "topic"), "tags"),
    **dict.fromkeys(("link", "links", "url", "urls"), "links"),
    **dict.fromkeys(("language", "lang", "locale"), "language"),
    "id": "id",
}
COLUMNS = tuple(name for name, field_ in _NAMES.items() if field_ == "phrasings")
_LONGEST_ID = 60
_FAULTS_SHOWN = 10


@dataclass
class Draft:
    """An entry that a file describes, perhaps in several places.

    Args:
        line: Where it begins, from 1.
        answer: What is handed out.
        phrasings: Questions.
        id: None makes one of the first phrasing.
        tags: Words to filter by.
        language: Such as "en".
        links: Addresses.
    """

    line: int
    answer: str
    phrasings: list[str]
    id: str | None = None
    tags: list[str] = field(default_factory=list)
    language: str | None = None
    links: list[str] = field(default_factory=list)


def draft_of(line: int, record: Mapping[str, Any], source: str, *, split: bool) -> Draft:
    """An entry from named values.

    Args:
        line: Where it stands, from 1.
        record: Values by name; names count whatever their case.
        source: The file.
        split: Whether one text holds several values, as a cell of a table does: phrasings one a
            line, tags and links one a line or with ";" or "," between.

    Raises:
        ReadError: A name is unknown or comes twice, or a value is missing or of the wrong type.
    """
    found: dict[str, Any] = {}
    for name, value in record.items():
        known = _NAMES.get(str(name).strip().lower())
        if known is None:
            raise ReadError(
                f"{source}, line {line}: unknown field {str(name)[:60]!r}; the fields are id, "
                "question or phrasings, answer, tags, language, links"
            )
        if value is None or (isinstance(value, str) and not value.strip()):
            continue
        if known in found and known != "phrasings":
            raise ReadError(f"{source}, line {line}: two fields say the entry's {known}")
        values = _values(value, known, split, f"{source}, line {line}: the field {name!r}")
        found[known] = [*found.get(known, []), *values]
    for name, shown in (("phrasings", "question"), ("answer", "answer")):
        if not any(text.strip() for text in found.get(name, [])):
            raise ReadError(f"{source}, line {line}: no {shown}")
    return Draft(
        line=line,
        answer="\n\n".join(found["answer"]),
        phrasings=found["phrasings"],
        id=_first(found.get("id")),
        tags=found.get("tags", []),
        language=_first(found.get("language")),
        links=found.get("links", []),
    )


def _first(values: Sequence[str] | None) -> str | None:
    return values[0] if values else None


def _values(value: Any, name: str, split: bool, where: str) -> list[str]:
    if name == "id" and isinstance(value, int) and not isinstance(value, bool):
        return [str(value)]
    if isinstance(value, str):
        return _parts(value, name) if split else [value]
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return list(value)
    one_of = "text or a list of texts" if name != "id" else "text or a whole number"
    raise ReadError(f"{where} is {_kind(value)}, expected {one_of} (in yaml, quote it)")


def _kind(value: Any) -> str:
    if isinstance(value, list):
        other = next((item for item in value if not isinstance(item, str)), value)
        return f"a list with {type(other).__name__}"
    return type(value).__name__


def _parts(text: str, name: str) -> list[str]:
    if name == "phrasings":
        return [part.strip() for part in text.splitlines() if part.strip()]
    if name in ("tags", "links"):
        marks = (
            text.replace("\n", ";")
            if name == "links"
            else text.replace("\n", ";").replace(",", ";")
        )
        return [part.strip() for part in marks.split(";") if part.strip()]
    return [text.strip()]


@dataclass(frozen=True, kw_only=True)
class Placed:
    """An entry, and where it stands.

    Args:
        entry: The entry.
        source: The file.
        line: Where it begins, from 1.
    """

    entry: FaqEntry
    source: str
    line: int


def entries_of(drafts: Iterable[Draft | ReadError], source: str) -> list[Placed]:
    """Entries; drafts of one id, or without ids and of one answer, are one entry.

    Args:
        drafts: What a file describes, with an error in the place of each that is faulty.
        source: The file.

    Raises:
        ReadError: There are errors, or two drafts of one id have different answers, or a draft
            makes no entry; with all of them.
    """
    faults: list[ReadError] = []
    joined: dict[tuple[str, str], Draft] = {}
    for draft in drafts:
        if isinstance(draft, ReadError):
            faults.append(draft)
            continue
        key = ("id", draft.id) if draft.id is not None else ("answer", draft.answer)
        before = joined.get(key)
        if before is None:
            joined[key] = draft
        else:
            try:
                _join(before, draft, source)
            except ReadError as error:
                faults.append(error)
    taken: dict[str, int] = {}
    entries: list[Placed] = []
    for draft in joined.values():
        try:
            entry = _entry(draft, source, taken)
            entries.append(Placed(entry=entry, source=source, line=draft.line))
        except ReadError as error:
            faults.append(error)
    if faults:
        raise faults[0] if len(faults) == 1 else _all_of(faults, source)
    return entries


def check_apart(placed: Iterable[Placed]) -> None:
    """Refuse entries of several files that have one id.

    Raises:
        ReadError: There are such; with both places of the first.
    """
    first: dict[str, Placed] = {}
    twice = [each for each in placed if first.setdefault(each.entry.id, each) is not each]
    if not twice:
        return
    one = twice[0]
    other = first[one.entry.id]
    more = f" (and {len(twice) - 1:,} more like it)" if len(twice) > 1 else ""
    raise ReadError(
        f"{one.source}, line {one.line}: entry {one.entry.id[:60]!r} is in {other.source}, line "
        f"{other.line}, too{more}: give each its own id, or write it in one file"
    )


def _all_of(faults: Sequence[ReadError], source: str) -> ReadError:
    """One error that says several, the first of them in words."""
    told = [str(fault).removeprefix(f"{source}, ") for fault in faults[:_FAULTS_SHOWN]]
    more = len(faults) - len(told)
    rest = f"; and {more:,} more" if more else ""
    return ReadError(f"{source} has {len(faults):,} faults: {'; '.join(told)}{rest}")


def _join(before: Draft, more: Draft, source: str) -> None:
    if before.answer != more.answer:
        raise ReadError(
            f"{source}, line {more.line}: entry {str(more.id)[:60]!r} has another answer than on "
            f"line {before.line}: give it another id, or the same answer"
        )
    for name in ("phrasings", "tags", "links"):
        own = getattr(before, name)
        own.extend(value for value in getattr(more, name) if value not in own)
    before.language = before.language or more.language


def _entry(draft: Draft, source: str, taken: dict[str, int]) -> FaqEntry:
    entry_id = draft.id if draft.id is not None else id_of(draft.phrasings[0])
    if entry_id in taken:
        raise ReadError(
            f"{source}, line {draft.line}: the question {draft.phrasings[0][:60]!r} has another "
            f"answer on line {taken[entry_id]}: ask it once, or give each its id"
        )
    taken[entry_id] = draft.line
    try:
        return FaqEntry(
            id=entry_id,
            answer=draft.answer.strip(),
            phrasings=tuple(" ".join(phrasing.split()) for phrasing in draft.phrasings),
            tags=tuple(draft.tags),
            language=draft.language,
            links=tuple(draft.links),
        )
    except (InputError, InputTypeError) as error:
        raise ReadError(f"{source}, line {draft.line}: {error}") from error


def id_of(question: str) -> str:
    """An id that follows from a question: the same at each import.

    Examples:
        >>> id_of("How do I reset my password?")
        'how-do-i-reset-my-password'
    """
    words = normalised(question).replace(" ", "-") or question.strip()
    if len(words) <= _LONGEST_ID:
        return words
    digest = hashlib.blake2b(words.encode("utf-8", "surrogatepass"), digest_size=4).hexdigest()
    return f"{words[:_LONGEST_ID]}-{digest}"
