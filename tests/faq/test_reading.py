"""Files to entries, each error with its file and line."""

from __future__ import annotations

import json
import re
from pathlib import Path
from textwrap import dedent

import pytest

from sbert_retriever import Faq, FaqEntry
from sbert_retriever.errors import InputError, ReadError
from sbert_retriever.faq.reading import read_entries


def entry(**fields: object) -> FaqEntry:
    return FaqEntry(**fields)  # type: ignore[arg-type]  # lists for tuples


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)

    def write_(name: str, text: str, encoding: str = "utf-8") -> str:
        Path(name).write_bytes(dedent(text).lstrip("\n").encode(encoding))
        return name

    return write_


HOURS = entry(
    id="hours",
    answer="9 to 5.\n\nClosed on Sundays.",
    phrasings=["When are you open?", "Opening hours?"],
    tags=["shop", "time"],
    language="en",
    links=["https://example.org/a,b"],
)
RETURN = entry(
    id="how-do-i-return-an-item", answer="Send it.", phrasings=["How do I return an item?"]
)

CSV = """
id,question,answer,tags,language,links
hours,When are you open?,"9 to 5.

Closed on Sundays.",shop; time,en,"https://example.org/a,b"
hours,Opening hours?,"9 to 5.

Closed on Sundays.",,,
,How do I return an item?,Send it.,,,
"""
YAML = """
- id: hours
  phrasings: ["When are you open?", "Opening hours?"]
  answer: |
    9 to 5.

    Closed on Sundays.
  tags: [shop, time]
  language: en
  links: https://example.org/a,b
- question: How do I return an item?
  answer: Send it.
"""
BY_ID = """
hours:
  questions:
    - When are you open?
    - Opening hours?
  answer: "9 to 5.\\n\\nClosed on Sundays."
  tags: [shop, time]
  lang: en
  links: ["https://example.org/a,b"]
how-do-i-return-an-item:
  question: How do I return an item?
  answer: Send it.
"""
JSONL = "\n".join(
    json.dumps(record)
    for record in (
        {
            "id": "hours",
            "questions": ["When are you open?", "Opening hours?"],
            "answer": "9 to 5.\n\nClosed on Sundays.",
            "tags": ["shop", "time"],
            "language": "en",
            "links": ["https://example.org/a,b"],
        },
        {"question": "How do I return an item?", "answer": "Send it."},
    )
)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("faq.csv", CSV),
        ("faq.csv", CSV.replace(",", ";").replace("shop; time", '"shop, time"')
         .replace("a;b", "a,b")),
        ("faq.jsonl", JSONL),
        ("faq.yaml", YAML),
        ("faq.YML", BY_ID),
    ],
    ids=["csv", "semicolons", "jsonl", "yaml list", "yaml by id"],
)  # fmt: skip
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_one_faq_in_each_format(write, name: str, text: str, encoding: str) -> None:
    assert read_entries(write(name, text, encoding)) == [HOURS, RETURN]


def test_rows_with_one_answer_and_no_ids_are_one_entry(write) -> None:
    name = write("a.csv", "Question,Answer\nq one?,yes\nq two?,no\nq three?,yes\n")
    assert read_entries(name) == [
        entry(id="q-one", answer="yes", phrasings=["q one?", "q three?"]),
        entry(id="q-two", answer="no", phrasings=["q two?"]),
    ]


def test_a_cell_may_hold_several_phrasings_one_a_line(write) -> None:
    name = write("a.csv", 'phrasings,answer\n"one?\ntwo?",yes\n')
    assert read_entries(name)[0].phrasings == ("one?", "two?")


def test_spaces_around_an_id_and_a_language_are_none_of_them(write) -> None:
    """A space behind one made a second entry of it, or its answer another than the first's."""
    rows = 'hours ,open?,9 to 5. , en\n" hours",when?,9 to 5.,\n  ,late?,No.,  \n'
    name = write("a.csv", f"id,question,answer,language\n{rows}")
    assert read_entries(name) == [
        entry(id="hours", answer="9 to 5.", phrasings=["open?", "when?"], language="en"),
        entry(id="late", answer="No.", phrasings=["late?"]),
    ]


def test_a_number_that_is_an_id_is_kept_as_it_is_written(write) -> None:
    """In yaml 010 is 8, and so the entry was called."""
    name = write(
        "a.yaml", '- {id: 010, question: "one?", answer: a}\n- {id: 7, question: "b?", answer: b}\n'
    )
    assert [each.id for each in read_entries(name)] == ["010", "7"]


@pytest.mark.parametrize("mark", ["\v", "\f", "\x85", "\u2028"])
def test_only_a_new_line_ends_a_row(write, mark: str) -> None:
    """Word ends lines inside a cell with a vertical tab, web pages with U+2028."""
    name = write("a.csv", f"question,answer,tags\none?,yes{mark}indeed,shop\ntwo?,no,\n")
    assert [(e.answer, e.tags) for e in read_entries(name)] == [
        (f"yes{mark}indeed", ("shop",)),
        ("no", ()),
    ]


MARKDOWN = """
# Frequently asked questions

Welcome! Read on.

## Orders

### How do I return an item?

### Can I send something back?

Within **30 days**:

#### The receipt

Keep it.

```bash
# not a heading?
```

### How long does delivery take?
Two days.

When are you open?
------------------

9 to 5.
"""


def test_question_headings_with_their_answers(write) -> None:
    found = read_entries(write("faq.md", MARKDOWN))
    assert found == [
        entry(
            id="how-do-i-return-an-item",
            answer="Within **30 days**:\n\n#### The receipt\n\nKeep it.\n\n"
            "```bash\n# not a heading?\n```",
            phrasings=["How do I return an item?", "Can I send something back?"],
            tags=["Orders"],
        ),
        entry(
            id="how-long-does-delivery-take",
            answer="Two days.",
            phrasings=["How long does delivery take?"],
            tags=["Orders"],
        ),
        entry(id="when-are-you-open", answer="9 to 5.", phrasings=["When are you open?"]),
    ]


def test_headings_without_question_marks_are_questions_where_text_follows(write) -> None:
    name = write("faq.md", "# FAQ\n\n## Shop\n\n### Opening hours\n9 to 5.\n\n### Returns\nYes.\n")
    assert [(e.id, e.answer, e.tags) for e in read_entries(name)] == [
        ("opening-hours", "9 to 5.", ("Shop",)),
        ("returns", "Yes.", ("Shop",)),
    ]


@pytest.mark.parametrize("mark", ["?", "\uff1f", "\u061f", "\u037e"])
def test_questions_end_with_the_mark_of_their_script(write, mark: str) -> None:
    name = write("faq.md", f"# Intro\nHello.\n# Why{mark}\nBecause.\n")
    assert [e.phrasings for e in read_entries(name)] == [(f"Why{mark}",)]


PAGE = """
<!doctype html>
<html><head>
<script>var notThis = {"@type": "FAQPage"};</script>
<script type="application/ld+json">{"@type": "Organization", "name": "Shop"}</script>
<script type='application/ld+json; charset=utf-8'>
{"@context": "https://schema.org", "@graph": [
  {"@type": ["WebPage", "FAQPage"], "inLanguage": "en", "mainEntity": [
    {"@type": "Question", "name": "Can I return <em>sale</em> items &amp; gifts?",
     "acceptedAnswer": {"@type": "Answer",
       "text": "<p>Yes, within <b>30&nbsp;days</b>.</p><ul><li>Bring the receipt</li><li>See \
<a href='https://example.org/r'>the rules</a></li></ul><script>alert(1)<\\/script>"}},
    {"@type": "http://schema.org/Question", "name": "When?",
     "acceptedAnswer": [{"@type": "Answer", "text": "Line one.\\nLine two: a &lt; b."}]}
  ]}
]}
</script></head><body>Can I return sale items?</body></html>
"""


def test_the_faqpage_of_a_saved_web_page(write) -> None:
    assert read_entries(write("page.html", PAGE)) == [
        entry(
            id="can-i-return-sale-items-gifts",
            answer="Yes, within 30 days.\n- Bring the receipt\n- See the rules",
            phrasings=["Can I return sale items & gifts?"],
            language="en",
            links=["https://example.org/r"],
        ),
        entry(id="when", answer="Line one.\nLine two: a < b.", phrasings=["When?"], language="en"),
    ]


@pytest.mark.parametrize(("mark", "line"), [("<head>", 2), ("</script></head>", 15)])
def test_a_broken_script_about_something_else_is_passed_over(write, mark: str, line: int) -> None:
    """A comma too many in a page's breadcrumbs, and its whole FAQ was refused."""
    script = '<script type="application/ld+json">{"@type": "%s",}</script>'
    before, after = PAGE.split(mark)
    first, last = mark.removesuffix("</head>"), "</head>" if "</head>" in mark else ""
    page = f"{before}{first}{script}{last}{after}"
    found = read_entries(write("page.html", page % "BreadcrumbList"))
    assert [each.id for each in found] == ["can-i-return-sale-items-gifts", "when"]
    with pytest.raises(ReadError, match=rf"page\.html, line {line}: not JSON"):
        read_entries(write("page.html", page % "FAQPage"))


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("a.csv", "question,answer\nq?,\n", "a.csv, line 2: no answer"),
        ("a.csv", "question,answer\n,a\n", "a.csv, line 2: no question"),
        ("a.csv", "question,answer\nq?,a,b\n", "a.csv, line 2: 3 values, expected 2"),
        ("a.csv", "frage,antwort\nq?,a\n",
         r"line 1: no column 'question' \(in any case; also questions, phrasing, phrasings, "
         r"title\); the first line must name the columns, and holds 'frage', 'antwort': rename"),
        ("a.csv", "question,answer,colour\nq?,a,b\n", "a.csv, line 2: unknown field 'colour'"),
        ("a.csv", "id,question,answer\na,q?,x\nb,r?,x\na,s?,y\n",
         "a.csv, line 4: entry 'a' has another answer than on line 2"),
        ("a.csv", "question,answer\nq?,x\nQ,y\n", "a.csv, line 3: the question 'Q' has another"),
        ("a.jsonl", '{"question": "q", "answer": "a"}\n{"question": }\n',
         "a.jsonl, line 2: not JSON at column 14"),
        ("a.jsonl", '[1]\n', "a.jsonl, line 1: list, expected an object"),
        ("a.jsonl", '{"question": "q", "answer": 3}', "a.jsonl, line 1: the field 'answer' is int"),
        ("a.jsonl", '{"question": ["q", 3], "answer": "a"}', "a list with int"),
        ("a.yaml", "- question: q\n  answer: no\n", "a.yaml, line 1: the field 'answer' is bool"),
        ("a.yaml", "- question: q\n  answer: a\n- [1]\n", "a.yaml, line 3: expected an entry"),
        ("a.yaml", "a: b: c\n", "a.yaml, line 1: not yaml"),
        ("a.yaml", "just text", "a.yaml, line 1: expected a list of entries"),
        ("a.yaml", "- question: q\n  answer: a\n  answer: b\n", "line 3: 'answer' is there"),
        ("a.yaml", "x:\n  question: q\n  answer: a\nx:\n  question: r\n  answer: b\n",
         "a.yaml, line 4: 'x' is there twice"),
        ("a.yaml", "- question: q\n  answer: !!python/object:os.system x\n", "a.yaml, line 2"),
        ("a.md", "Just text.\n", "a.md, line 1: no question"),
        ("a.md", "# Why?\n\n# How?\n\n", r"a.md, line 1: 'Why\?' has no answer below it"),
        ("a.html", "<p>Why?</p>", "a.html, line 1: no FAQPage"),
        ("a.html", '<script type="application/ld+json">\n{"@type":\n"FAQPage",}\n</script>',
         "a.html, line 3: not JSON"),
        ("a.html", '\n\n<script type="application/ld+json">{"@type": "FAQPage", "mainEntity": '
         '[{"@type": "Question", "name": "Why?"}]}</script>',
         r"a.html, line 3: question 1 of the FAQPage \('Why\?'\) has no acceptedAnswer"),
        ("a.html", '<script type="application/ld+json">{"@type": }</script>',
         r"has 1 script of type application/ld\+json \(1 of them no JSON\) and none describes"),
        ("a.txt", "x", "files with the suffixes"),
        ("a.csv", "", "a.csv holds no entry"),
        ("a.csv", "question,answer\n", "a.csv holds no entry"),
        ("a.jsonl", "\n", "a.jsonl holds no entry"),
        ("a.yaml", "# none yet\n", "a.yaml holds no entry"),
    ],
)  # fmt: skip
def test_errors_say_the_file_and_the_line(write, name: str, text: str, says: str) -> None:
    Path(name).write_text(text, encoding="utf-8")
    with pytest.raises(ReadError, match=says):
        read_entries(name)


def test_every_question_without_an_answer_is_told_of_at_once(write) -> None:
    """They were told of one at a time, a run each."""
    text = "# Page\n\n## One?\n\nYes.\n\n## Two?\n\n# Other\n\n## Three?\n"
    said = (
        "a.md has 2 faults: line 7: 'Two?' has no answer below it; "
        "line 11: 'Three?' has no answer below it"
    )
    with pytest.raises(ReadError, match=re.escape(said)):
        read_entries(write("a.md", text))
    page = {"@type": "FAQPage", "mainEntity": [{"@type": "Question"}, {"@type": "Answer"}]}
    name = write("a.html", f'<script type="application/ld+json">{json.dumps(page)}</script>')
    said = (
        "a.html has 2 faults: line 1: question 1 of the FAQPage has no name; "
        "line 1: question 2 of the FAQPage is no Question"
    )
    with pytest.raises(ReadError, match=re.escape(said)):
        read_entries(name)


def test_a_file_that_is_not_there_says_so(write) -> None:
    with pytest.raises(ReadError, match=r"nope\.csv cannot be opened: No such file"):
        read_entries("nope.csv")


def test_long_questions_and_those_without_words_have_ids_of_their_own(write) -> None:
    long = "why " * 40
    name = write("a.csv", f"question,answer\n{long}one,a\n{long}two,b\n???,c\n")
    ids = [e.id for e in read_entries(name)]
    assert len(set(ids)) == 3
    assert all(len(i) < 80 for i in ids)
    assert ids[2] == "???"


def test_loading_replaces_and_prunes(write, shop: Faq) -> None:
    name = write("a.csv", "id,question,answer\nhours,When are you open?,Always.\nnew,New?,Yes.\n")
    report = shop.load(name)
    assert (report.entries, report.deleted) == (2, 0)
    assert shop.get("hours").phrasings == ("When are you open?",)
    assert shop.count() == 4
    again = shop.load(name, prune=True)
    assert (again.entries, again.deleted) == (2, 2)
    assert again.passages.unchanged == 2
    assert {e.id for e in shop.entries()} == {"hours", "new"}
    assert shop.retriever.count() == 2


def test_a_file_with_an_error_changes_nothing(write, shop: Faq) -> None:
    good = write("a.csv", "question,answer\nq?,a\n")
    bad = write("b.csv", "question,answer\nr?,\n")
    with pytest.raises(ReadError):
        shop.load(good, bad, prune=True)
    assert shop.count() == 3


def test_an_id_in_two_files_is_told_of_with_both_places(write, shop: Faq) -> None:
    """Neither file was named, nor a line."""
    first = write("a.csv", "id,question,answer\nnew,New?,Yes.\nlate,Late?,No.\n")
    second = write(
        "b.yaml",
        """
        - {id: other, question: "Other?", answer: a}
        - {id: late, question: "Late?", answer: b}
        - {id: new, question: "New?", answer: c}
        """,
    )
    said = (
        "b.yaml, line 2: entry 'late' is in a.csv, line 3, too (and 1 more like it): give each its "
        "own id, or write it in one file"
    )
    with pytest.raises(ReadError, match=re.escape(said)):
        shop.load(first, second)
    assert shop.count() == 3
    third = write("c.md", "# Late\n\n## New?\n\nYes.\n")
    with pytest.raises(ReadError, match=r"^c\.md, line 3: entry 'new' is in a\.csv, line 2, too:"):
        shop.load(first, third)


def test_pruning_by_nothing_deletes_nothing(write, shop: Faq) -> None:
    """An export that came out empty, or a pattern that fits no file, emptied the FAQ."""
    for name in ("a.csv", "a.jsonl", "a.yaml"):
        with pytest.raises(ReadError, match="holds no entry"):
            shop.load(write(name, ""), prune=True)
    with pytest.raises(InputError, match="prune without a file would delete every entry"):
        shop.load(prune=True)
    assert shop.count() == 3
