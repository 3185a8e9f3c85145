"""yaml: a list of entries, or entries by their ids."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import yaml

from sbert_retriever.errors import ReadError
from sbert_retriever.faq.reading.records import Draft, draft_of

_SHAPE = "a list of entries, or a mapping from their ids"


def yaml_drafts(text: str, source: str) -> Iterator[Draft | ReadError]:
    """The entries of a yaml file."""
    loader = yaml.SafeLoader(text)
    try:
        yield from _of_document(loader, loader.get_single_node(), source)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = mark.line + 1 if mark is not None else 1
        raise ReadError(
            f"{source}, line {line}: not yaml: {error.problem} (quote texts that hold ? : or #)"
        ) from error
    except yaml.YAMLError as error:
        raise ReadError(f"{source}: not yaml: {' '.join(str(error).split())[:200]}") from error
    finally:
        loader.dispose()


def _of_document(loader: Any, node: Any, source: str) -> Iterator[Draft | ReadError]:
    if node is None:
        return
    if isinstance(node, yaml.SequenceNode):
        for item in node.value:
            yield _draft(loader, item, source, None)
    elif isinstance(node, yaml.MappingNode):
        for key, item in _pairs(node, source):
            yield _draft(loader, item, source, key)
    else:
        raise ReadError(f"{source}, line {_line(node)}: expected {_SHAPE}")


def _draft(loader: Any, node: Any, source: str, entry_id: str | None) -> Draft | ReadError:
    try:
        return _checked(loader, node, source, entry_id)
    except ReadError as error:
        return error


def _checked(loader: Any, node: Any, source: str, entry_id: str | None) -> Draft:
    line = _line(node)
    if not isinstance(node, yaml.MappingNode):
        raise ReadError(f"{source}, line {line}: expected an entry with question and answer")
    record = {key: _value(loader, key, value) for key, value in _pairs(node, source)}
    if entry_id is not None:
        record.setdefault("id", entry_id)
    return draft_of(line, record, source, split=False)


def _value(loader: Any, key: str, node: Any) -> Any:
    """What a node says; a number that is an id as it is written, since 010 would be 8."""
    if key.strip().lower() == "id" and node.tag == "tag:yaml.org,2002:int":
        return node.value
    return loader.construct_object(node, deep=True)


def _pairs(node: Any, source: str) -> Iterator[tuple[str, Any]]:
    """A mapping's keys as they are written, and their values; of two alike yaml takes the last."""
    seen: set[str] = set()
    for key, value in node.value:
        if not isinstance(key, yaml.ScalarNode):
            raise ReadError(f"{source}, line {_line(key)}: a key is no text")
        if key.value in seen:
            raise ReadError(f"{source}, line {_line(key)}: {key.value[:60]!r} is there twice")
        seen.add(key.value)
        yield key.value, value


def _line(node: Any) -> int:
    return int(node.start_mark.line) + 1
