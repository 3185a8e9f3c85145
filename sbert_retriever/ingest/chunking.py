"""One text to passages of a size the model reads whole.

A chunk never crosses a heading. Inside a section it ends at the last paragraph border that leaves
it at least half full, else at the last sentence border that fits; only a sentence longer than a
chunk is cut inside, after a line, a word or, last, a token. The next chunk starts a little
earlier: with the last whole sentences that fit the overlap, else with the last words.

Ids are made of the source and a hash of the chunk's text, so an insertion leaves the ids of all
chunks it does not touch; where a chunk stands is in its metadata alone.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator
from hashlib import blake2b
from typing import Any, NamedTuple

from sbert_retriever.errors import InputError
from sbert_retriever.ingest.cutting import Cutter
from sbert_retriever.ingest.source_text import Section, SourceText
from sbert_retriever.ingest.tokens import TokenOffsets
from sbert_retriever.types import Passage

DEFAULT_OVERLAP = 0.12
_CHUNKS_IN_PARENT = 8


class _Chunk(NamedTuple):
    start: int
    end: int
    section: str
    parent: str


def chunk(
    text: SourceText,
    *,
    token_offsets: TokenOffsets,
    max_tokens: int,
    overlap_tokens: int | None = None,
    id_prefix: str | None = None,
) -> list[Passage]:
    """Cut a text into passages of at most `max_tokens` of the model's own tokens.

    `passage.text` is `text.text[start:end]`, exactly. Every character that is not white space is
    in a passage, but for stretches that have no token at all (a lone accent). A grapheme is never
    cut, so one that alone has more tokens than `max_tokens` is the only passage to exceed it.

    The metadata of each is that of the text and "title", "section" ("Install > Linux") and
    "page" where there are such, "start" and "end" (offsets in the text), "chunk" (its position,
    from 0) and "parent": an id shared by neighbouring chunks of one section (or of one page,
    where a text has pages and no headings), at most 8 chunks each.

    These names come before those of the text's own metadata: a record's field "start" gives way.

    Several texts of one source (records) need an `id_prefix` each. Their "parent" begins with it,
    and "chunk" is left out: a position would not be unique within the source.

    Args:
        text: What a reader returned.
        token_offsets: The character spans of the tokens of each text, special tokens left out.
        max_tokens: The most tokens of a passage: what the model reads, less its special tokens
            and its prompt.
        overlap_tokens: How much of the end of a chunk may begin the next; None is 12 %.
        id_prefix: What ids and parents begin with; the source if None.

    Returns:
        The passages, in the order of the text. Ids are "<prefix>#<hash of the text>", with "-2"
        for the second passage of the same text.

    Raises:
        InputError: `max_tokens` is below 1, or the overlap is not below it.
    """
    overlap = checked_overlap(max_tokens, overlap_tokens)
    cutter = Cutter(
        text.text,
        token_offsets=token_offsets,
        max_tokens=max_tokens,
        overlap=overlap,
        sections=[section.start for section in text.sections],
        by_line=text.by_line,
    )
    prefix = text.source if id_prefix is None else id_prefix
    chunks = list(_chunks(text, cutter, prefix))
    ids = _ids(text, chunks, prefix)
    return [
        Passage(
            id_,
            text.text[c.start : c.end],
            _metadata(text, c, n if id_prefix is None else None),
            text.source,
        )
        for n, (id_, c) in enumerate(zip(ids, chunks, strict=True))
    ]


def checked_overlap(max_tokens: int, overlap_tokens: int | None) -> int:
    """The overlap to use.

    Raises:
        InputError: The sizes do not go together.
    """
    if max_tokens < 1:
        raise InputError(f"max_tokens is {max_tokens}: give at least 1")
    if overlap_tokens is None:
        return round(max_tokens * DEFAULT_OVERLAP)
    if not 0 <= overlap_tokens < max_tokens:
        raise InputError(
            f"overlap_tokens is {overlap_tokens}: give at least 0 and less than max_tokens, "
            f"which is {max_tokens}"
        )
    return overlap_tokens


def _chunks(text: SourceText, cutter: Cutter, prefix: str) -> Iterator[_Chunk]:
    for n, (start, end, path) in enumerate(_spans_of_sections(text)):
        name = " > ".join(path)
        for i, (first, last) in enumerate(cutter.spans(start, end)):
            parent = _parent(text, first, n, i // _CHUNKS_IN_PARENT)
            yield _Chunk(first, last, name, f"{prefix}#{parent}")


def _spans_of_sections(text: SourceText) -> Iterator[tuple[int, int, tuple[str, ...]]]:
    """(start, end, path); a heading with nothing below it goes with the next one."""
    sections = text.sections or (Section(0, ()),)
    begin: int | None = None
    for n, section in enumerate(sections):
        begin = section.start if begin is None else begin
        last = n + 1 == len(sections)
        if section.has_body or last:
            yield begin, len(text.text) if last else sections[n + 1].start, section.path
            begin = None


def _parent(text: SourceText, start: int, section: int, run: int) -> str:
    page = None if text.sections else _page(text, start)
    if page is not None:
        return f"page-{page}"
    return f"section-{section}" + (f".{run}" if run else "")


def is_of_whole_source(parent: str, source: str) -> bool:
    """Whether a chunk's "parent" is that of a file cut as one text, whose chunks are numbered."""
    return parent.startswith((f"{source}#section-", f"{source}#page-"))


def _page(text: SourceText, offset: int) -> int | None:
    n = bisect_right(text.pages, offset, key=lambda page: page[1])
    return text.pages[n - 1][0] if n else None


def _ids(text: SourceText, chunks: list[_Chunk], prefix: str) -> Iterator[str]:
    seen: Counter[str] = Counter()
    for c in chunks:
        # Half a surrogate pair has no UTF-8 form; it must not stop the hash.
        data = text.text[c.start : c.end].encode("utf-8", "surrogatepass")
        digest = blake2b(data, digest_size=8).hexdigest()
        seen[digest] += 1
        again = f"-{seen[digest]}" if seen[digest] > 1 else ""
        yield f"{prefix}#{digest}{again}"


def _metadata(text: SourceText, c: _Chunk, position: int | None) -> dict[str, Any]:
    optional = {
        "title": text.title,
        "section": c.section or None,
        "page": _page(text, c.start),
        "chunk": position,
    }
    return {
        **text.metadata,
        **{key: value for key, value in optional.items() if value is not None},
        "start": c.start,
        "end": c.end,
        "parent": c.parent,
    }
