from __future__ import annotations

import re
from itertools import pairwise
from pydoc_data.topics import topics

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sbert_retriever.errors import InputError
from sbert_retriever.ingest import Section, SourceText, chunk
from sbert_retriever.ingest.graphemes import is_border
from sbert_retriever.ingest.headings import markdown_headings, sections

MANUAL = "\n\n".join(topics.values())


def words(texts):
    """A tokenizer to check by hand: a token a word or mark."""
    return [[m.span() for m in re.finditer(r"\w+|[^\w\s]", text)] for text in texts]


def byte_level(texts):
    """Spaces begin their word's token, newlines are tokens, an emoji has four of one span."""
    spans = []
    for text in texts:
        found = [m.span() for m in re.finditer(r" ?\w{1,4}|\n|[^\w\n]", text)]
        spans.append([s for s in found for _ in range(4 if text[s[0]] > "\uffff" else 1)])
    return spans


def cut(text, *, max_tokens=10, overlap_tokens=0, **fields):
    source = text if isinstance(text, SourceText) else SourceText("a.txt", text, **fields)
    return chunk(source, token_offsets=words, max_tokens=max_tokens, overlap_tokens=overlap_tokens)


def texts(passages):
    return [passage.text for passage in passages]


def test_chunks_end_at_sentences():
    text = "One two three. Four five six. Seven eight nine ten."
    assert texts(cut(text)) == ["One two three. Four five six.", "Seven eight nine ten."]


def test_a_paragraph_border_wins_over_a_later_sentence_border():
    text = "One two three. Four five.\n\nSix. Seven eight nine ten eleven twelve."
    assert texts(cut(text)) == [
        "One two three. Four five.",
        "Six. Seven eight nine ten eleven twelve.",
    ]


def test_a_paragraph_border_that_leaves_a_chunk_nearly_empty_does_not():
    text = "One.\n\nTwo three four. Five six seven eight nine."
    assert texts(cut(text)) == ["One.\n\nTwo three four.", "Five six seven eight nine."]


def test_the_next_chunk_begins_with_the_last_sentences_that_fit_the_overlap():
    text = "One two. Three four. Five six. Seven eight. Nine ten."
    assert texts(cut(text, max_tokens=9, overlap_tokens=6)) == [
        "One two. Three four. Five six.",
        "Three four. Five six. Seven eight.",
        "Five six. Seven eight. Nine ten.",
    ]


def test_else_with_its_last_words():
    text = "One two three four five six. Seven eight nine ten."
    assert texts(cut(text, max_tokens=8, overlap_tokens=3)) == [
        "One two three four five six.",
        "five six. Seven eight nine ten.",
    ]


def test_a_sentence_that_fits_is_not_cut_for_the_overlap():
    text = "One two three. Four five six seven eight nine ten."
    assert texts(cut(text, max_tokens=9, overlap_tokens=4)) == [
        "One two three.",
        "Four five six seven eight nine ten.",
    ]


def test_a_long_sentence_is_cut_after_lines_then_words_then_tokens():
    assert texts(cut("a b c d e f\ng h i j k l", max_tokens=8)) == ["a b c d e f", "g h i j k l"]
    assert texts(cut("a b c d e f g h", max_tokens=3)) == ["a b c", "d e f", "g h"]
    assert texts(cut("a-b-c-d-e", max_tokens=4)) == ["a-b-", "c-d-", "e"]


def test_an_overlap_inside_a_long_sentence():
    assert texts(cut("a b c d e f g h i", max_tokens=4, overlap_tokens=1)) == [
        "a b c d",
        "d e f g",
        "g h i",
    ]


def test_code_is_cut_at_lines():
    text = "x = 1. \ny = f(2)\n\nz = 3\n"
    assert texts(cut(SourceText("a.py", text, by_line=True), max_tokens=9)) == [
        "x = 1.",
        "y = f(2)\n\nz = 3",
    ]


def markdown(text: str) -> SourceText:
    return SourceText("a.md", text, sections=sections(markdown_headings(text), text))


def test_a_chunk_never_crosses_a_heading_and_says_its_path():
    found = cut(
        markdown("Intro.\n# Install\nGet it.\n## Linux\nRun it.\n# Use\nGo."), max_tokens=50
    )
    assert [(p.text, p.metadata.get("section")) for p in found] == [
        ("Intro.", None),
        ("# Install\nGet it.", "Install"),
        ("## Linux\nRun it.", "Install > Linux"),
        ("# Use\nGo.", "Use"),
    ]
    assert len({p.metadata["parent"] for p in found}) == 4


def test_a_heading_with_nothing_below_it_goes_with_the_next():
    found = cut(markdown("# Install\n\n## Linux\n\nRun it.\n\n# End\n"), max_tokens=50)
    assert [(p.text, p.metadata["section"]) for p in found] == [
        ("# Install\n\n## Linux\n\nRun it.", "Install > Linux"),
        ("# End", "End"),
    ]


def test_chunks_of_one_section_share_a_parent_of_at_most_eight():
    found = cut("Word. " * 50, max_tokens=6)
    parents = [p.metadata["parent"] for p in found]
    assert len(found) == 17
    assert parents == ["a.txt#section-0"] * 8 + ["a.txt#section-0.1"] * 8 + ["a.txt#section-0.2"]


def test_pages_are_cited_and_are_parents():
    pages = ((1, 0, 14), (2, 15, 29))
    found = cut(SourceText("a.pdf", "One two three.\nFour five six.", pages=pages), max_tokens=4)
    assert [(p.metadata["page"], p.metadata["parent"]) for p in found] == [
        (1, "a.pdf#page-1"),
        (2, "a.pdf#page-2"),
    ]


def test_metadata_and_source():
    (passage,) = cut(SourceText("a.md", " Hi there. ", "A title", {"lang": "en", "page": 7}))
    assert passage.source == "a.md"
    assert passage.metadata == {
        "lang": "en",
        "page": 7,
        "title": "A title",
        "start": 1,
        "end": 10,
        "chunk": 0,
        "parent": "a.md#section-0",
    }


@pytest.mark.parametrize("text", ["", " \n\n\t ", "\u00a0"])
def test_white_space_gives_nothing(text):
    assert cut(text) == []


def test_equal_texts_have_ids_of_their_own():
    ids = [p.id for p in cut("Same. Same. Same.", max_tokens=2)]
    assert len(set(ids)) == 3
    assert ids[1] == f"{ids[0]}-2"


def test_half_a_surrogate_pair_stops_nothing():
    assert texts(cut("a \ud800 b")) == ["a \ud800 b"]


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ({"max_tokens": 0}, "max_tokens is 0"),
        ({"max_tokens": 5, "overlap_tokens": 5}, "less than max_tokens"),
        ({"max_tokens": 5, "overlap_tokens": -1}, "overlap_tokens is -1"),
    ],
)
def test_sizes_that_do_not_go_together_are_refused(sizes, message):
    with pytest.raises(InputError, match=message):
        cut("a", **sizes)


def test_an_overlap_of_zero_is_none_at_all():
    found = cut(MANUAL[:50_000], max_tokens=60, overlap_tokens=0)
    assert all(a.metadata["end"] <= b.metadata["start"] for a, b in pairwise(found))


# Properties

TEXT = st.lists(
    st.sampled_from(
        ["cat", "purrs", "e.g.", "3.5", "Dr.", "End.", "Why?", " ", "\n", "\n\n", "\n- ", "。",
         "猫", "👩\u200d👧", "🇩🇪", "e\u0301", "\u0301", "a" * 130, "x-y_z", "\u00ad", "\u200b",
         "\x07"]
    ) | st.text(max_size=4),
    max_size=60,
).map("".join)  # fmt: skip


def check(text, passages, token_offsets, max_tokens):
    """What must hold of any chunks of any text."""
    covered = set()
    for passage in passages:
        start, end = passage.metadata["start"], passage.metadata["end"]
        assert text[start:end] == passage.text
        assert passage.text.strip() == passage.text != ""
        # A mark on a space keeps its place at the start; the space is dropped as any other.
        assert is_border(text, start) or text[start - 1].isspace()
        assert is_border(text, end)
        covered.update(range(start, end))
        n = len(token_offsets([passage.text])[0])
        one_grapheme = not any(is_border(passage.text, i) for i in range(1, len(passage.text)))
        assert n <= max_tokens or one_grapheme
    missed = {c for i, c in enumerate(text) if not c.isspace() and i not in covered}
    assert not any(token_offsets(sorted(missed)))  # nothing that the model has a token for
    assert [p.metadata["chunk"] for p in passages] == list(range(len(passages)))
    starts = [(p.metadata["start"], p.metadata["end"]) for p in passages]
    assert starts == sorted(starts)


@settings(max_examples=120, deadline=None)
@given(text=TEXT, max_tokens=st.integers(1, 12), data=st.data())
@pytest.mark.parametrize("tokenizer", [words, byte_level])
def test_any_text_is_covered_within_the_limit(tokenizer, text, max_tokens, data):
    overlap = data.draw(st.integers(0, max_tokens - 1))
    found = chunk(
        SourceText("a", text),
        token_offsets=tokenizer,
        max_tokens=max_tokens,
        overlap_tokens=overlap,
    )
    check(text, found, tokenizer, max_tokens)


@settings(
    max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(text=TEXT, max_tokens=st.integers(3, 20), starts=st.lists(st.integers(0, 99), max_size=4))
def test_so_it_is_with_the_models_tokenizer_and_headings(token_offsets, text, max_tokens, starts):
    borders = sorted({s for s in starts if s < len(text) and is_border(text, s)} | {0})
    source = SourceText("a", text, sections=tuple(Section(s, (str(s),)) for s in borders))
    found = chunk(source, token_offsets=token_offsets, max_tokens=max_tokens)
    check(text, found, token_offsets, max_tokens)


@pytest.mark.parametrize(("max_tokens", "overlap"), [(254, None), (254, 0), (32, 16)])
def test_a_whole_manual_fits_the_model(token_offsets, max_tokens, overlap):
    found = chunk(
        SourceText("manual.txt", MANUAL),
        token_offsets=token_offsets,
        max_tokens=max_tokens,
        overlap_tokens=overlap,
    )
    check(MANUAL, found, token_offsets, max_tokens)
    assert len({p.id for p in found}) == len(found)


def test_each_character_is_tokenised_once_and_a_few_again():
    """The whole text goes through the tokenizer once, chunks close to the limit once more."""
    seen = 0

    def counting(batch):
        nonlocal seen
        seen += sum(map(len, batch))
        return words(batch)

    chunk(SourceText("a", MANUAL), token_offsets=counting, max_tokens=200)
    assert len(MANUAL) <= seen < 2 * len(MANUAL)


def test_the_overlap_is_there_and_bounded(token_offsets):
    found = chunk(
        SourceText("a", MANUAL), token_offsets=token_offsets, max_tokens=200, overlap_tokens=40
    )
    shared = [(b.metadata["start"], a.metadata["end"]) for a, b in pairwise(found)]
    overlaps = [MANUAL[a:b] for a, b in shared if a < b]
    assert len(overlaps) > 0.9 * len(shared)
    assert max(map(len, token_offsets(overlaps))) <= 40


@pytest.mark.parametrize("at", [0, len(MANUAL) // 3, len(MANUAL) // 2])
def test_an_insertion_leaves_most_ids_alone(token_offsets, at):
    """A paragraph put into a file gives a handful of new ids; the rest only move."""

    def ids(text):
        found = chunk(SourceText("a", text), token_offsets=token_offsets, max_tokens=254)
        return {p.id for p in found}

    new = ids(MANUAL[:at] + "\n\nA new paragraph was put in here. It is short.\n\n" + MANUAL[at:])
    assert len(new - ids(MANUAL)) <= 12
