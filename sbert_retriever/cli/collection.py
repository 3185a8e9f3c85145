"""`sbert-retriever info` and `delete`: what needs no model."""

from __future__ import annotations

from difflib import get_close_matches
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sbert_retriever.cli import options
from sbert_retriever.cli.filters import parsed_filter
from sbert_retriever.cli.opening import open_existing
from sbert_retriever.cli.output import printable, put, put_json, put_table, say
from sbert_retriever.counting import counted
from sbert_retriever.errors import InputError

if TYPE_CHECKING:
    from sbert_retriever.retriever import Retriever
    from sbert_retriever.types import RetrieverInfo

# What is read, and compared, to name the sources that a misspelt one may have meant.
_MOST_PASSAGES = 200_000
_MOST_SOURCES = 5_000
_OF_MODEL = ("weights", "precision", "pooling", "max_length", "query_prompt", "passage_prompt")


def info(
    location: options.Location,
    sources: Annotated[
        bool,
        typer.Option("--sources", help="List the sources instead, each with its passages."),
    ] = False,
    collection: options.Collection = "default",
    tenant: options.Tenant = None,
    api_key: options.ApiKey = None,
    json: options.Json = False,
) -> None:
    """Say what a collection holds and which model made its vectors."""
    with open_existing(location, collection, tenant=tenant, api_key=api_key) as retriever:
        if sources:
            _print_sources(retriever.sources(), as_json=json)
            return
        facts = as_dict(retriever.info())
    if json:
        put_json(facts)
        return
    shown = {name: value for name, value in facts.items() if value not in (None, "", {})}
    shown["filterable"] = ", ".join(facts["filterable"])
    put_table({name: value for name, value in shown.items() if value != ""})


def _print_sources(sources: dict[str, int], *, as_json: bool) -> None:
    if as_json:
        put_json(sources)
        return
    width = max((len(f"{count:,}") for count in sources.values()), default=0)
    for source, count in sources.items():
        put(f"{count:>{width},}  {printable(source)}")


def as_dict(facts: RetrieverInfo) -> dict[str, Any]:
    """What is known of a collection, flat."""
    identity = facts.identity
    return {
        "location": facts.location,
        "collection": facts.collection_name,
        "engine": facts.engine,
        "count": facts.count,
        "indexed": facts.indexed,
        "dim": facts.dim,
        "score_kind": facts.score_kind,
        "model": facts.model,
        **{name: getattr(identity, name, None) for name in _OF_MODEL},
        "sparse": facts.sparse,
        "quantized": facts.quantized,
        "tokens": facts.tokens,
        "filterable": dict(facts.filterable),
    }


def delete(
    location: options.Location,
    source: Annotated[
        str | None,
        typer.Option("--source", metavar="SOURCE", help="All of one file.", show_default=False),
    ] = None,
    ids: Annotated[
        list[str] | None,
        typer.Option("--id", metavar="ID", help="May be repeated.", show_default=False),
    ] = None,
    filter: options.Filters = None,
    filter_json: options.FilterJson = None,
    everything: Annotated[bool, typer.Option("--all", help="Every passage; needs --yes.")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Confirm --all.")] = False,
    collection: options.Collection = "default",
    tenant: options.Tenant = None,
    api_key: options.ApiKey = None,
    json: options.Json = False,
) -> None:
    """Delete passages by source, by id or by filter."""
    condition = parsed_filter(filter, filter_json)
    chosen = [source is not None, bool(ids), condition is not None, everything]
    if sum(chosen) != 1:
        raise InputError(
            "say what to delete: give exactly one of --source, --id, --filter and --all"
        )
    with open_existing(location, collection, tenant=tenant, api_key=api_key) as retriever:
        if everything:
            deleted = _emptied(retriever, confirmed=yes)
        else:
            deleted = retriever.delete(ids or None, filter=condition, source=source)
        if source is not None and not deleted:
            say(_no_such_source(retriever, source))
    if json:
        put_json({"deleted": deleted})
    else:
        put(f"{deleted} deleted")


def _no_such_source(retriever: Retriever, source: str) -> str:
    """That no passage has a source, and which ones may have been meant."""
    near: list[str] = []
    if retriever.count() <= _MOST_PASSAGES:
        sources = list(retriever.sources())
        name = source.replace("\\", "/").rpartition("/")[2]
        near = [s for s in sources if name and s.rpartition("/")[2] == name]
        if len(sources) <= _MOST_SOURCES:
            near += get_close_matches(source, sources, cutoff=0.5)
    named = ", ".join(map(repr, list(dict.fromkeys(near))[:3]))
    way_out = f"the nearest there are {named}" if near else "it is the path as `index` was given it"
    return f"no passage has the source {source!r}; {way_out}"


def _emptied(retriever: Retriever, *, confirmed: bool) -> int:
    if not confirmed:
        name = retriever.store.collection_name
        raise InputError(
            f"--all deletes all {counted(retriever.count(), 'passage')} of {name!r}: add --yes to "
            "do it"
        )
    return retriever.delete_all()
