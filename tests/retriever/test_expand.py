"""Small to big: a chunk is found, and the text around it handed out."""

import re

import pytest

from sbert_retriever import Passage
from sbert_retriever.errors import InputError
from sbert_retriever.ingest import SourceText, chunk
from sbert_retriever.ingest.source_text import Section

FIRST = "Cats purr when they rest. Cats sleep all day. Cats hunt at night. Cats climb old trees. "
SECOND = "Dogs bark at strangers. Dogs fetch round balls. Dogs guard the house. Dogs like walks."
TEXT = SourceText(
    source="animals.md",
    text=FIRST + SECOND,
    title="Animals",
    metadata={"lang": "en"},
    pages=(),
    sections=(Section(0, ("Cats",)), Section(len(FIRST), ("Dogs",))),
)


def word_offsets(texts):
    return [[m.span() for m in re.finditer(r"\S+", text)] for text in texts]


@pytest.fixture
def chunks():
    """Eight sentences, a chunk each (four or five words a chunk, none shared)."""
    made = chunk(TEXT, token_offsets=word_offsets, max_tokens=5, overlap_tokens=0)
    assert len(made) == 8
    return made


@pytest.fixture
def animals(retriever, chunks):
    retriever.index([*chunks, Passage("loose", "zebras graze", {"lang": "en"})])
    return retriever


def test_neighbours_are_the_text_itself(animals, chunks):
    plain = animals.search("Cats hunt at night.", 1)[0]
    assert plain.text == "Cats hunt at night."
    hit = animals.search("Cats hunt at night.", 1, expand="neighbours", window=1)[0]
    assert hit.text == "Cats sleep all day.\nCats hunt at night.\nCats climb old trees."
    assert (hit.metadata["start"], hit.metadata["end"]) == (26, 87)
    assert (hit.id, hit.score, hit.source) == (plain.id, plain.score, "animals.md")
    assert hit.metadata["lang"] == "en"


def test_a_window_of_none_is_the_chunk(animals):
    hit = animals.search("Cats hunt at night.", 1, expand="neighbours", window=0)[0]
    assert hit.text == "Cats hunt at night."


def test_a_records_own_field_of_that_name_is_no_position(retriever):
    """Two records of one file, cut: the chunks beside one are not those of the other."""
    for name, text in (("one", FIRST), ("two", SECOND)):
        record = SourceText(
            source="r.jsonl", text=text, title=None, metadata={"chunk": 3}, pages=(), sections=()
        )
        retriever.index(
            chunk(
                record, token_offsets=word_offsets, max_tokens=5, overlap_tokens=0, id_prefix=name
            )
        )
    hit = retriever.search("Cats hunt at night.", 1, expand="neighbours", window=1)[0]
    assert hit.text == "Cats hunt at night."


def test_a_window_ends_with_the_source(animals):
    hit = animals.search("Dogs like walks.", 1, expand="neighbours", window=2)[0]
    assert hit.text == "Dogs fetch round balls.\nDogs guard the house.\nDogs like walks."


def test_the_parent_is_the_section(animals):
    hit = animals.search("Cats hunt at night.", 1, expand="parent")[0]
    assert hit.text == "\n".join(re.findall(r"Cats .*?\.", FIRST))


def test_a_parent_comes_once_with_its_best_hit(animals):
    plain = animals.search("Dogs guard the house", 4)
    grown = animals.search("Dogs guard the house", 4, expand="parent")
    assert grown[0].score == plain[0].score
    sections = [hit.metadata.get("section", hit.id) for hit in plain]
    assert [hit.metadata.get("section", hit.id) for hit in grown] == list(dict.fromkeys(sections))


def test_overlaps_are_taken_once(retriever):
    made = chunk(TEXT, token_offsets=word_offsets, max_tokens=9, overlap_tokens=5)
    starts = [p.metadata["start"] for p in made]
    ends = [p.metadata["end"] for p in made]
    assert any(end > start for end, start in zip(ends, starts[1:], strict=False))
    retriever.index(made)
    hit = retriever.search("Cats sleep all day.", 1, expand="parent")[0]
    assert hit.text.replace("\n", " ") == FIRST.strip()


def test_what_is_no_chunk_stays_as_it_is(animals):
    plain = animals.search("zebras graze", 1)
    assert animals.search("zebras graze", 1, expand="neighbours") == plain
    assert animals.search("zebras graze", 1, expand="parent") == plain


def test_other_sources_with_the_same_positions_do_not_mix(animals):
    other = SourceText(
        source="other.md", text="Fish swim. Fish dive.", title=None, metadata={}, pages=()
    )
    animals.index(chunk(other, token_offsets=word_offsets, max_tokens=2, overlap_tokens=0))
    hit = animals.search("Fish swim.", 1, expand="neighbours", window=9)[0]
    assert hit.text == "Fish swim.\nFish dive."


async def test_the_twin_expands_too(animals):
    hit = (await animals.asearch("Dogs like walks.", 1, expand="parent"))[0]
    assert hit.text.startswith("Dogs bark")


@pytest.mark.parametrize("value", ["parents", "", True])
def test_an_unknown_way(animals, value):
    with pytest.raises(InputError, match="expected 'neighbours', 'parent' or None"):
        animals.search("cat", expand=value)


def test_a_negative_window(animals):
    with pytest.raises(InputError, match="window is -1"):
        animals.search("cat", expand="neighbours", window=-1)


@pytest.mark.parametrize("how", ["neighbours", "parent"])
def test_metadata_that_only_looks_like_a_chunks_is_left_alone(retriever, how):
    """Other programs use the names "chunk", "start" and "parent" for things of their own."""
    loose = [
        Passage("a", "cats purr", {"start": 0, "chunk": "first", "parent": 7}, "s"),
        Passage("b", "cats purr too", {"start": 0, "end": 3, "chunk": 0, "parent": "p"}, "s"),
        Passage("c", "cats", {"start": 0, "chunk": 0, "parent": "p"}, "s"),
    ]
    retriever.index(loose)
    hits = retriever.search("cats purr", expand=how)
    assert {hit.id: hit.text for hit in hits} == {p.id: p.text for p in loose}
