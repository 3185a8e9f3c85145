from __future__ import annotations

import unicodedata
from itertools import pairwise

import pytest
import regex
from hypothesis import given
from hypothesis import strategies as st

from sbert_retriever.ingest.graphemes import is_border
from sbert_retriever.ingest.sentences import line_starts, paragraph_starts, sentence_starts


def sentences(text: str) -> list[str]:
    starts = [0, *sorted(set(sentence_starts(text, 0, len(text)))), len(text)]
    return [text[a:b].strip() for a, b in pairwise(starts)]


@pytest.mark.parametrize(
    "expected",
    [
        ["Cats purr.", "Dogs bark!", "Do fish?", "They do."],
        ["He paid 3.50 for it.", "Then he left."],
        ["Dr. J. R. Smith met Mrs. Hill, e.g. on Monday.", "They spoke."],
        ["See Fig. 3 and p. 12 of vol. 2.", "It is clear."],
        ["No.", "I won't."],
        ["Use tea, milk, etc. in any order.", "Stir."],
        ["We saw Smith et al. (2019).", "It holds."],
        ["The U.S. Army came.", "It left."],
        ["He waited... and waited.", "Then… nothing came."],
        ["So it ended...", "A new one began."],
        ['"Why?" he asked.', '"Because."', "She left."],
        ["(It was late.)", "We went home."],
        ["He said “no.”", "Then “yes.”"],
        ["Das gilt z.B. für Katzen, d.h. alle.", "Punkt."],
        ["Open example.com/a.b and x.y().", "Then stop."],
        ["猫は鳴く。", "犬は吠える\uff01", "本当\uff1f", "はい。"],
        ["「行く。」", "彼は言った。"],
        ["यह एक वाक्य है।", "यह दूसरा है।"],
        ["Wait?!", "Yes!!!", "Good."],
        ["He is taller than I.", "She is not."],
    ],
)
def test_sentence_borders(expected):
    joiner = "" if any(ord(c) > 0x3000 for c in expected[0]) else " "
    assert sentences(joiner.join(expected)) == expected


def test_a_sentence_may_be_wrapped_over_lines():
    assert sentences("Cats purr when\nthey are content.\nDogs bark.") == [
        "Cats purr when\nthey are content.",
        "Dogs bark.",
    ]


def test_list_items_and_table_rows_begin_on_their_own():
    assert sentences("We need:\n- tea\n- milk\n  and sugar\n1. Boil it.\n2. Drink it.") == [
        "We need:",
        "- tea",
        "- milk\n  and sugar",
        "1. Boil it.",
        "2. Drink it.",
    ]
    assert sentences("| a | b |\n| --- | --- |\n| c | d |") == [
        "| a | b |",
        "| --- | --- |",
        "| c | d |",
    ]


def test_paragraphs_and_lines():
    text = "a\nb\n\nc\n \t\n\n  d\fe"
    assert [text[i] for i in paragraph_starts(text, 0, len(text))] == ["c", "d", "e"]
    assert list(line_starts("a\nb\nc\n", 0, 6)) == [2, 4]


@pytest.mark.parametrize("text", ["." * 300_000 + "x", '."' * 150_000, "\n " * 150_000 + "x"])
def test_long_runs_of_marks_take_no_longer_than_text(text):
    assert len(list(sentence_starts(text, 0, len(text)))) <= 1
    assert len(list(paragraph_starts(text, 0, len(text)))) <= 1


PIECES = st.sampled_from(
    ["a", " ", "\r", "\n", "e\u0301", "\u0301", "\u200d", "👩", "👩\u200d👧", "👍🏽", "🇩🇪", "🇫",
     "☂\ufe0f", "각", "\u1100", "\u1161", "\u11a8", "가", "क्ष", "นำ", "1\ufe0f\u20e3",
     "🏴\U000e0067\U000e007f"]
)  # fmt: skip


@given(st.lists(PIECES, max_size=12).map("".join))
def test_no_border_lies_inside_a_grapheme(text):
    """Every border we see is one for the Unicode rules of the regex package."""
    ends = {match.end() for match in regex.finditer(r"\X", text)}
    ours = {i for i in range(1, len(text)) if is_border(text, i)}
    assert ours <= ends


def test_plain_text_may_be_cut_anywhere():
    text = unicodedata.normalize("NFC", "Grüße, café")
    assert all(is_border(text, i) for i in range(len(text)))
