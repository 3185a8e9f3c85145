"""The FAQPage that a saved web page carries as JSON-LD (schema.org). Nothing is fetched."""

from __future__ import annotations

import json
from collections.abc import Iterator
from html.parser import HTMLParser
from typing import Any

from sbert_retriever.counting import counted
from sbert_retriever.errors import ReadError
from sbert_retriever.faq.reading.records import Draft

_TYPE = "application/ld+json"
_BLOCKS = {"p", "div", "ul", "ol", "table", "tr", "h1", "h2", "h3", "h4", "h5", "h6", "section"}
_HIDDEN = {"script", "style", "template"}


def page_drafts(text: str, source: str) -> Iterator[Draft | ReadError]:
    """The questions of every FAQPage in a page; one without a name or an answer is an error.

    A script about something else may be broken.

    Raises:
        ReadError: There is none, or the JSON of one is broken.
    """
    scripts = _Scripts()
    scripts.feed(text)
    scripts.close()
    values = [(line, _parsed(script, line, source)) for line, script in scripts.found]
    pages = [
        (line, node) for line, value in values for node in _nodes(value) if _is(node, "FAQPage")
    ]
    for line, node in pages:
        yield from _questions(node, line, source)
    if not pages:
        unread = sum(value is None for _, value in values)
        broken = f" ({unread} of them no JSON)" if unread else ""
        raise ReadError(
            f"{source}, line 1: no FAQPage: the page has {counted(len(values), 'script')} of type "
            f"{_TYPE}{broken} and none describes an FAQPage (https://schema.org/FAQPage)"
        )


def _parsed(script: str, line: int, source: str) -> Any:
    """What a script says; None where it is broken and about something else.

    Raises:
        ReadError: It is broken, and speaks of an FAQPage.
    """
    try:
        return json.loads(script)
    except json.JSONDecodeError as error:
        if "FAQPage" not in script:
            return None
        raise ReadError(
            f"{source}, line {line + error.lineno - 1}: not JSON: {error.msg}"
        ) from error


def _nodes(value: Any) -> Iterator[dict[str, Any]]:
    """The objects at the top of a script, which may be one, several or a graph."""
    if isinstance(value, list):
        for item in value:
            yield from _nodes(item)
    elif isinstance(value, dict):
        yield value
        yield from _nodes(value.get("@graph"))


def _is(node: dict[str, Any], kind: str) -> bool:
    types = node.get("@type")
    names = types if isinstance(types, list) else [types]
    return any(isinstance(name, str) and name.rpartition("/")[2] == kind for name in names)


def _questions(page: dict[str, Any], line: int, source: str) -> Iterator[Draft | ReadError]:
    entity = page.get("mainEntity")
    items = entity if isinstance(entity, list) else [entity]
    language = page.get("inLanguage")
    for number, item in enumerate(items, 1):
        where = f"{source}, line {line}: question {number} of the FAQPage"
        draft = _draft(item, line, where)
        if isinstance(draft, Draft):
            draft.language = language if isinstance(language, str) else None
        yield draft


def _draft(item: Any, line: int, where: str) -> Draft | ReadError:
    if not isinstance(item, dict) or not _is(item, "Question"):
        return ReadError(f"{where} is no Question")
    question = item.get("name") or item.get("text")
    if not isinstance(question, str) or not question.strip():
        return ReadError(f"{where} has no name")
    answer = _answer(item)
    if answer is None:
        return ReadError(f"{where} ({question[:60]!r}) has no acceptedAnswer with a text")
    plain = _plain(answer)
    if not plain.text:
        return ReadError(f"{where} ({question[:60]!r}) has an empty answer")
    phrasing = " ".join(_plain(question).text.split())
    return Draft(line=line, answer=plain.text, phrasings=[phrasing], links=plain.links)


def _answer(item: dict[str, Any]) -> str | None:
    for name in ("acceptedAnswer", "suggestedAnswer"):
        value = item.get(name)
        for answer in value if isinstance(value, list) else [value]:
            if isinstance(answer, dict) and isinstance(answer.get("text"), str):
                return str(answer["text"])
    return None


def _plain(marked_up: str) -> _Plain:
    plain = _Plain(marked_up="<" in marked_up)
    plain.feed(marked_up)
    plain.close()
    return plain


class _Scripts(HTMLParser):
    """The JSON-LD scripts of a page, each with its line."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[int, str]] = []
        self._inside = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        kind = dict(attrs).get("type") or ""
        self._inside = tag == "script" and kind.partition(";")[0].strip().lower() == _TYPE

    def handle_data(self, data: str) -> None:
        if self._inside:
            self.found.append((self.getpos()[0], data))
            self._inside = False

    def handle_endtag(self, tag: str) -> None:
        self._inside = False


class _Plain(HTMLParser):
    """An answer's text without its tags, and where its links lead.

    Args:
        marked_up: Whether lines end where tags say so, and line breaks are mere spaces.
    """

    def __init__(self, *, marked_up: bool) -> None:
        super().__init__()
        self._marked_up = marked_up
        self.links: list[str] = []
        self._parts: list[str] = []
        self._hidden = 0

    @property
    def text(self) -> str:
        """The lines, none empty."""
        lines = (" ".join(line.split()) for line in "".join(self._parts).split("\n"))
        return "\n".join(line for line in lines if line not in ("", "-"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._hidden += tag in _HIDDEN
        if tag == "br" or tag in _BLOCKS:
            self._parts.append("\n")
        elif tag == "li":
            self._parts.append("\n- ")
        target = dict(attrs).get("href") or ""
        if tag == "a" and target.startswith(("http://", "https://")) and target not in self.links:
            self.links.append(target)

    def handle_endtag(self, tag: str) -> None:
        self._hidden -= tag in _HIDDEN and self._hidden > 0
        if tag in _BLOCKS or tag == "li":
            self._parts.append("\n")

    def handle_data(self, data: str) -> None:
        if not self._hidden:
            self._parts.append(data.replace("\n", " ") if self._marked_up else data)
