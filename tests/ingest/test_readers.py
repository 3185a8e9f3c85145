from __future__ import annotations

import codecs
import sys
import warnings
from pathlib import Path

import pytest

from sbert_retriever.errors import MissingExtraError, ReadError
from sbert_retriever.index.metadata import plain_metadata
from sbert_retriever.ingest import read_file
from sbert_retriever.ingest.headings import markdown_headings, rst_headings

PAGES = ["Cats purr when they are content.", "Dogs bark at strangers."]


def write(folder: Path, name: str, content: str | bytes) -> Path:
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def paths_of(text) -> dict[str, str]:
    """The first line of each section, and where it stands."""
    return {text.text[s.start :].lstrip().split("\n")[0]: " > ".join(s.path) for s in text.sections}


# Encodings


@pytest.mark.parametrize(
    "data",
    [
        "naïve café\nline\n".encode(),
        codecs.BOM_UTF8 + "naïve café\nline\n".encode(),
        "naïve café\r\nline\r".encode("utf-16"),
        codecs.BOM_UTF16_BE + "naïve café\nline\n".encode("utf-16-be"),
        "naïve café\nline\n".encode("utf-32"),
    ],
)
def test_unicode_encodings_are_read_alike(tmp_path, data, notes):
    text = read_file(write(tmp_path, "a.txt", data), on_note=notes.append)
    assert text.text == "naïve café\nline\n"
    assert not notes


def test_what_is_not_utf8_is_read_as_windows_1252_and_noted(tmp_path, notes):
    text = read_file(write(tmp_path, "a.txt", b"caf\xe9 \x93quoted\x94 \x81"), on_note=notes.append)
    assert text.text == "café “quoted” \x81"
    assert notes == [
        f"{tmp_path.as_posix()}/a.txt is not UTF-8 (byte 3): it was read as Windows-1252"
    ]


def test_the_bad_byte_is_found_across_blocks_and_at_the_end(tmp_path, notes):
    read_file(write(tmp_path, "a.txt", b"x" * 2**20 + b"\xc3\xa9\xc3"), on_note=notes.append)
    assert f"byte {2**20 + 2}" in notes[0]


def test_binary_is_refused_with_the_byte(tmp_path):
    with pytest.raises(ReadError, match="byte 4 is NUL"):
        read_file(write(tmp_path, "a.txt", b"\x7fELF\0\1"))


def test_a_wrong_byte_order_mark_is_refused(tmp_path):
    with pytest.raises(ReadError, match="utf-16"):
        read_file(write(tmp_path, "a.txt", codecs.BOM_UTF16_LE + b"a\0b"))


@pytest.mark.parametrize("suffix", ["txt", "md", "rst", "html", "pdf", "docx", "py"])
def test_an_empty_file_is_an_empty_text(tmp_path, suffix):
    assert read_file(write(tmp_path, f"a.{suffix}", b"")).text == ""


def test_a_file_that_is_gone_or_a_folder_is_a_read_error(tmp_path):
    with pytest.raises(ReadError, match=r"a\.txt cannot be opened: No such file"):
        read_file(tmp_path / "a.txt")
    (tmp_path / "b.txt").mkdir()
    with pytest.raises(ReadError, match="Is a directory"):
        read_file(tmp_path / "b.txt")


# Markdown and reStructuredText


def test_markdown_headings_are_sections_and_code_is_not(tmp_path):
    text = read_file(
        write(
            tmp_path,
            "a.md",
            "Intro.\n\n# Install ##\n\n## `On` [Linux](http://x)\n\nRun it.\n\n"
            "```sh\n# no heading\n```\n\nUse\n===\n\n"
            "Two lines\nof text\n---\n\n- item\n---\n\n#hashtag\n",
        )
    )
    assert text.title == "Install"
    assert paths_of(text) == {
        "Intro.": "",
        "# Install ##": "Install",
        "## `On` [Linux](http://x)": "Install > On Linux",
        "Use": "Use",
    }


def test_front_matter_stays_in_the_text_and_becomes_metadata(tmp_path):
    text = read_file(
        write(
            tmp_path,
            "a.md",
            "---\ntitle: 'The guide'\nyear: 2020\ndraft: false\ntags: [a, b c]\nurl: http://x:1\n"
            "deep:\n  er: 1\n---\n# First\n\nText.\n",
        )
    )
    assert text.title == "The guide"
    assert text.metadata == {
        "year": 2020,
        "draft": False,
        "tags": ["a", "b c"],
        "url": "http://x:1",
    }
    assert text.text.startswith("---\ntitle")
    assert paths_of(text) == {"---": "", "# First": "First"}


def test_what_a_store_does_not_take_stays_in_front_matter_as_it_is_written(tmp_path):
    """One number of twenty digits kept every passage of its file out."""
    fields = "id: 20240131123456789012\nlimit: Infinity\nids: [-1, 99999999999999999999]\n"
    text = read_file(write(tmp_path, "a.md", f"---\n{fields}---\n# First\n\nText.\n"))
    assert text.metadata == {
        "id": "20240131123456789012",
        "limit": "Infinity",
        "ids": [-1, "99999999999999999999"],
    }
    assert plain_metadata(text.metadata, passage_id="a") == text.metadata


def test_a_page_that_begins_with_a_rule_has_no_front_matter(tmp_path):
    text = read_file(write(tmp_path, "a.md", "---\n\n# First\n\nA: b\n\n---\n\n# Second\n\nC\n"))
    assert text.metadata == {}
    assert list(paths_of(text).values()) == ["", "First", "Second"]


def test_rst_headings_take_their_level_from_the_order_of_styles(tmp_path):
    text = read_file(
        write(
            tmp_path,
            "a.rst",
            "=====\nGuide\n=====\n\nHello.\n\nInstall\n-------\n\nx\n\nLinux\n~~~~~\n\ny\n\n"
            "Use\n---\n\n====  ====\na     b\n====  ====\n",
        )
    )
    assert text.title == "Guide"
    assert list(paths_of(text).values()) == [
        "Guide",
        "Guide > Install",
        "Guide > Install > Linux",
        "Guide > Use",
    ]


@pytest.mark.parametrize("line", ["#" * 100_000, "# " + " " * 100_000 + "x", "[" * 50_000, "=" * 9])
def test_odd_lines_are_no_trouble(line):
    assert len(list(markdown_headings(f"{line}\n" * 3))) in {0, 3}
    assert len(list(rst_headings(f"{line}\n" * 3))) <= 3


# Python


def test_functions_and_classes_are_sections(tmp_path):
    source = '''"""Pets.

More."""
import os


@decorated
def feed(cat):
    """Feed it."""


class Cat:
    """A cat."""

    def purr(self):
        return "é"

    async def sleep(self): ...
'''
    text = read_file(write(tmp_path, "pets.py", source))
    assert text.title == "Pets."
    assert text.text == source
    assert paths_of(text) == {
        '"""Pets.': "",
        "@decorated": "feed",
        "class Cat:": "Cat",
        "def purr(self):": "Cat > purr",
        "async def sleep(self): ...": "Cat > sleep",
    }


def test_statements_after_a_function_are_not_its_own(tmp_path):
    source = "def f():\n    pass\n\n\nX = 1\nY = 2\n\n\nclass C:\n    def g(self): ...\n    z = g\n"
    text = read_file(write(tmp_path, "a.py", source))
    assert [(text.text[s.start :].split("\n")[0].strip(), s.path) for s in text.sections] == [
        ("def f():", ("f",)),
        ("X = 1", ()),
        ("class C:", ("C",)),
        ("def g(self): ...", ("C", "g")),
        ("z = g", ("C",)),
    ]
    assert [s.path for s in text.sections if not s.has_body] == [("C",)]


def test_python_that_does_not_parse_is_read_as_lines(tmp_path, notes):
    text = read_file(write(tmp_path, "a.py", "print 'hello'\n"), on_note=notes.append)
    assert text.text == "print 'hello'\n"
    assert not text.sections
    assert "does not parse" in notes[0]


def test_python_declares_its_own_encoding(tmp_path):
    data = "# -*- coding: koi8-r -*-\n'Кошка'\n".encode("koi8-r")
    assert "Кошка" in read_file(write(tmp_path, "a.py", data)).text


# PDF


def test_pdf_pages_keep_their_numbers(tmp_path, notes, pdf):
    path = pdf(tmp_path / "a.pdf", [PAGES[0], "", PAGES[1]], title="Pets")
    text = read_file(path, on_note=notes.append)
    assert text.title == "Pets"
    assert [(n, text.text[a:b]) for n, a, b in text.pages] == [(1, PAGES[0]), (3, PAGES[1])]
    assert "no text on 1 of 3 pages" in notes[0]


def test_a_sentence_that_runs_over_a_page_stays_one_paragraph(tmp_path, pdf):
    text = read_file(pdf(tmp_path / "a.pdf", ["Cats purr when", "they are content."]))
    assert text.text == "Cats purr when\nthey are content."


def test_an_encrypted_pdf_says_so(tmp_path, encrypted):
    with pytest.raises(ReadError, match="is encrypted"):
        read_file(encrypted(tmp_path, "secret"))


def test_a_pdf_that_only_its_owner_may_change_is_read(tmp_path, encrypted):
    assert PAGES[1] in read_file(encrypted(tmp_path, "")).text


def test_a_pdf_without_text_says_so(tmp_path, pdf):
    with pytest.raises(ReadError, match=r"no text.*OCR"):
        read_file(pdf(tmp_path / "a.pdf", ["", ""]))


@pytest.mark.parametrize("keep", [8, 300, 700])
def test_a_damaged_pdf_says_so(tmp_path, keep, pdf):
    data = pdf(tmp_path / "a.pdf", PAGES).read_bytes()[:keep]
    with pytest.raises(ReadError, match="damaged"):
        read_file(write(tmp_path, "b.pdf", data))


# Word and HTML


def test_word_headings_tables_and_title(tmp_path, word):
    text = read_file(word(tmp_path / "a.docx", "All about pets"))
    assert text.title == "All about pets"
    assert "Cats *purr* and use snake_case." in text.text
    assert "| bark | loud |" in text.text
    assert paths_of(text) == {"# Pets": "Pets", "## Dogs": "Pets > Dogs"}
    assert read_file(word(tmp_path / "b.docx")).title == "Pets"


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"PK\x03\x04 nothing", "damaged"),
        (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "password"),
    ],
)
def test_a_damaged_or_protected_word_file_says_so(tmp_path, data, message):
    with pytest.raises(ReadError, match=message):
        read_file(write(tmp_path, "a.docx", data))


def test_a_word_file_without_its_parts_says_so(tmp_path):
    import zipfile

    with zipfile.ZipFile(tmp_path / "a.docx", "w") as archive:
        archive.writestr("other.txt", "x")
    with pytest.raises(ReadError, match=r"a\.docx cannot be read, it seems damaged"):
        read_file(tmp_path / "a.docx")


HTML = (
    "<html><head><title> All\n pets </title><style>p{}</style></head><body><h1>Cats</h1>"
    "<p>They <b>purr</b>, café &lt;3 snake_case.</p><script>alert(1)</script>"
    '<img src="http://192.0.2.1/x.png" alt="a cat"><h2>Food</h2><p>Fish.</p></body></html>'
)


def test_html_title_headings_and_text_alone(tmp_path):
    text = read_file(write(tmp_path, "a.html", HTML))
    assert text.title == "All pets"
    assert paths_of(text) == {"# Cats": "Cats", "## Food": "Cats > Food"}
    assert "They **purr**, café <3 snake_case." in text.text
    assert "alert" not in text.text
    assert "192.0.2.1" not in text.text
    assert "a cat" in text.text


def test_html_without_a_title_takes_its_first_heading(tmp_path):
    assert read_file(write(tmp_path, "a.htm", "<h2>Cats</h2>purr")).title == "Cats"


@pytest.mark.parametrize(
    ("data", "noted"),
    [
        (b'<meta charset="iso-8859-1"><p>caf\xe9', False),
        (
            b'<meta http-equiv="Content-Type" content="text/html; charset=windows-1250"><p>caf\xe9',
            False,
        ),
        (b"<p>caf\xe9", True),
        (b'<meta charset="nonsense"><p>caf\xe9', True),
        ('<meta charset="iso-8859-1"><p>café'.encode(), False),
    ],
)
def test_html_says_its_encoding(tmp_path, data, noted, notes):
    text = read_file(write(tmp_path, "a.html", data), on_note=notes.append)
    assert text.text == "café"
    assert bool(notes) == noted


def test_html_nested_a_thousand_deep_is_still_read(tmp_path):
    depth = sys.getrecursionlimit() * 2
    page = "<div>" * depth + "cats purr" + "</div>" * depth
    assert "cats purr" in read_file(write(tmp_path, "a.html", page)).text


@pytest.mark.parametrize("start", ["![", "![]("])
def test_html_of_beginnings_of_images_takes_no_square_of_its_length(tmp_path, start):
    """Looking from each beginning for an end that never comes took minutes for these."""
    line = start * 100_000
    image = '<p>a <img src="x.png" alt="ca[t"> cat</p>'
    text = read_file(write(tmp_path, "a.html", f"<p>{line}</p>{image}")).text
    assert text == f"{line}\n\na ca[t cat"


def test_xhtml_warns_nobody(tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        page = '<?xml version="1.0"?><html xmlns="x"><body><p>cats</p></body></html>'
        assert "cats" in read_file(write(tmp_path, "a.html", page)).text


@pytest.mark.parametrize(("module", "name"), [("markitdown", "a.html"), ("pypdfium2", "a.pdf")])
def test_a_missing_extra_carries_its_pip_line(tmp_path, monkeypatch, module, name, pdf):
    monkeypatch.setitem(sys.modules, module, None)
    path = pdf(tmp_path / name, PAGES) if name.endswith("pdf") else write(tmp_path, name, HTML)
    with pytest.raises(MissingExtraError, match=r"pip install .*\[docs\]"):
        read_file(path)
