"""`sbert-retriever duplicates` and `clusters`: what a collection holds as a whole."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from sbert_retriever.cli import options
from sbert_retriever.cli.filters import parsed_filter
from sbert_retriever.cli.opening import open_existing
from sbert_retriever.cli.output import printable, put, put_json, say, share_lines
from sbert_retriever.cli.passages import INDENT, body, passage_as_dict, place
from sbert_retriever.counting import counted
from sbert_retriever.errors import InputError

if TYPE_CHECKING:
    from sbert_retriever.mining import Clusters, Duplicates
    from sbert_retriever.types import Passage

_SHOWN_OF_GROUP = 5


def duplicates(
    location: options.Location,
    threshold: Annotated[
        float,
        typer.Option("--threshold", metavar="COSINE", help="The least cosine of a pair."),
    ] = 0.9,
    filter: options.Filters = None,
    filter_json: options.FilterJson = None,
    limit: Annotated[
        int, typer.Option("--limit", metavar="N", help="How many pairs, or groups, to print.")
    ] = 100,
    groups: Annotated[
        bool,
        typer.Option(
            "--groups", help="Print groups: passages that pairs link, directly or through others."
        ),
    ] = False,
    exact: Annotated[
        bool | None,
        typer.Option(
            "--exact/--through-index",
            help="Compare every pair, or ask the index for each passage's neighbours, which misses "
            "some. Without either, the size decides.",
            show_default=False,
        ),
    ] = None,
    full: Annotated[bool, typer.Option("--full", help="Print whole texts.")] = False,
    json: Annotated[
        bool, typer.Option("--json", help="Print a JSON object a pair, or group, one a line.")
    ] = False,
    collection: options.Collection = "default",
    tenant: options.Tenant = None,
    api_key: options.ApiKey = None,
    quiet: options.Quiet = False,
) -> None:
    """Find passages that say nearly the same; needs no model."""
    from sbert_retriever.mining import find_duplicates

    condition = parsed_filter(filter, filter_json)
    with open_existing(location, collection, tenant=tenant, api_key=api_key) as retriever:
        found = find_duplicates(
            retriever,
            threshold,
            filter=condition,
            limit=limit,
            exact=exact,
            on_share=share_lines("looking for duplicates", quiet=quiet),
        )
        chosen = found.groups[:limit] if groups and not json else ()
        shown = [retriever.get(ids if full else ids[:_SHOWN_OF_GROUP]) for ids in chosen]
    # The collection is let go first: whoever reads this may want to delete there.
    if groups:
        _print_groups(found, limit, shown, full=full, as_json=json)
    else:
        _print_pairs(found, full=full, as_json=json)
    if not quiet:
        printed = min(limit, len(found.groups)) if groups else len(found.pairs)
        _say_found(found, threshold, printed, groups=groups)


def clusters(
    location: options.Location,
    threshold: Annotated[
        float | None,
        typer.Option(
            "--threshold",
            metavar="COSINE",
            help="The least cosine to the passage in the middle of a cluster; without it and --k, "
            "0.75.",
            show_default=False,
        ),
    ] = None,
    k: Annotated[
        int | None,
        typer.Option("--k", "-k", metavar="N", help="How many clusters.", show_default=False),
    ] = None,
    min_size: Annotated[
        int | None,
        typer.Option(
            "--min-size",
            metavar="N",
            help="The least number of passages of a cluster: 3 without --k, 1 with it.",
            show_default=False,
        ),
    ] = None,
    method: Annotated[
        str | None,
        typer.Option(
            "--method",
            metavar="HOW",
            help="communities (without --k), kmeans (with it), or agglomerative (with either).",
            show_default=False,
        ),
    ] = None,
    filter: options.Filters = None,
    filter_json: options.FilterJson = None,
    limit: Annotated[
        int | None,
        typer.Option(
            "--limit",
            metavar="N",
            help="Print so many, the largest. Without it, all.",
            show_default=False,
        ),
    ] = None,
    members: Annotated[
        int,
        typer.Option("--members", metavar="N", help="How many passages of each to print."),
    ] = 3,
    seed: Annotated[int, typer.Option("--seed", metavar="N", help="Of kmeans.")] = 0,
    picture: Annotated[
        str | None,
        typer.Option(
            "--picture",
            metavar="FILE",
            help="Draw a map of all passages into a .png or .svg file.",
            show_default=False,
        ),
    ] = None,
    full: Annotated[bool, typer.Option("--full", help="Print whole texts.")] = False,
    json: Annotated[
        bool, typer.Option("--json", help="Print a JSON object a cluster, one a line.")
    ] = False,
    collection: options.Collection = "default",
    tenant: options.Tenant = None,
    api_key: options.ApiKey = None,
    quiet: options.Quiet = False,
) -> None:
    """Put passages about the same thing into clusters; needs no model."""
    from sbert_retriever.mining import find_clusters
    from sbert_retriever.mining.picture import check_picture, write_picture

    condition = parsed_filter(filter, filter_json)
    for name, value, least in (("--limit", limit, 1), ("--members", members, 0)):
        if value is not None and value < least:
            raise InputError(f"{name} is {value}, expected {least} or more")
    if picture is not None:
        check_picture(picture)
    with open_existing(location, collection, tenant=tenant, api_key=api_key) as retriever:
        found = find_clusters(
            retriever,
            threshold=threshold,
            k=k,
            min_size=min_size,
            method=method,  # type: ignore[arg-type]  # checked there, by name
            filter=condition,
            seed=seed,
            on_share=share_lines("clustering", quiet=quiet),
        )
        chosen = () if json else found.clusters[:limit]
        shown = [retriever.get(cluster.ids[:members]) for cluster in chosen]
    _print_clusters(found, limit, shown, full=full, as_json=json)
    if picture is not None:
        write_picture(found, picture)
    if not quiet:
        _say_clusters(found, limit, picture)


# Duplicates -----------------------------------------------------------------------------


def _print_pairs(found: Duplicates, *, full: bool, as_json: bool) -> None:
    for rank, pair in enumerate(found.pairs, 1):
        if as_json:
            ends = {"first": passage_as_dict(pair.first), "second": passage_as_dict(pair.second)}
            put_json({"score": pair.score, **ends}, indent=None)
            continue
        put(f"{rank:>2}. {pair.score:.4f} cosine")
        for passage in (pair.first, pair.second):
            _put_passage(passage, full=full)
    if not found.pairs and not as_json:
        put(f"{INDENT}nothing found")


def _print_groups(
    found: Duplicates, limit: int, shown: Sequence[list[Passage]], *, full: bool, as_json: bool
) -> None:
    for rank, ids in enumerate(found.groups[:limit], 1):
        if as_json:
            put_json({"size": len(ids), "ids": ids}, indent=None)
            continue
        put(f"{rank:>2}. {counted(len(ids), 'passage')}")
        for passage in shown[rank - 1]:
            _put_passage(passage, full=full)
        if len(ids) > _SHOWN_OF_GROUP and not full:
            put(
                f"{INDENT}and {len(ids) - _SHOWN_OF_GROUP:,} more (--full, or --json for their ids)"
            )
    if not found.groups and not as_json:
        put(f"{INDENT}nothing found")


def _say_found(found: Duplicates, threshold: float, shown: int, *, groups: bool) -> None:
    how = "every pair compared" if found.exact else "through the index, which may miss some"
    say(
        f"{counted(found.found, 'pair')} with a cosine of {threshold:g} or more, in "
        f"{len(found.groups):,} "
        f"groups, among {counted(found.passages, 'passage')} ({how})"
    )
    whole = len(found.groups) if groups else found.found
    if shown < whole:
        what = "groups" if groups else "pairs"
        say(f"printed: the first {shown:,} of {whole:,} {what} (--limit prints more)")
    if found.crowded:
        say(
            f"{found.crowded:,} passages have more neighbours than the index was asked for, so "
            "that pairs are missing: raise --threshold, or use --exact"
        )
    _say_left_out(found.left_out)


# Clusters -------------------------------------------------------------------------------


def _print_clusters(
    found: Clusters,
    limit: int | None,
    shown: Sequence[list[Passage]],
    *,
    full: bool,
    as_json: bool,
) -> None:
    for rank, cluster in enumerate(found.clusters[:limit], 1):
        if as_json:
            put_json(
                {
                    "size": cluster.size,
                    "cohesion": cluster.cohesion,
                    "central": passage_as_dict(cluster.central),
                    "ids": cluster.ids,
                },
                indent=None,
            )
            continue
        put(f"{rank:>2}. {counted(cluster.size, 'passage')}, cohesion {cluster.cohesion:.3f}")
        for passage in shown[rank - 1]:
            _put_passage(passage, full=full)
    if not found.clusters and not as_json:
        put(f"{INDENT}nothing found")


def _say_clusters(found: Clusters, limit: int | None, picture: str | None) -> None:
    say(
        f"{counted(len(found.clusters), 'cluster')} ({found.method}) among "
        f"{counted(len(found.ids), 'passage')}, "
        f"{found.unassigned:,} of which are in none"
    )
    if limit is not None and limit < len(found.clusters):
        say(f"printed: the largest {limit:,} of {len(found.clusters):,} (--limit prints more)")
    if picture is not None:
        say(f"the map is in {picture}")
    _say_left_out(found.left_out)


# Both -----------------------------------------------------------------------------------


def _put_passage(passage: Passage, *, full: bool) -> None:
    put(f"{INDENT}{printable(place(passage))}")
    put("\n".join(_indented(body(passage.text, full=full, lines=2))))


def _indented(text: str) -> Iterator[str]:
    return (f"{INDENT}{line}" for line in text.split("\n"))


def _say_left_out(count: int) -> None:
    if count:
        say(
            f"left out, their vectors being missing, zero or not finite: "
            f"{counted(count, 'passage')} (see "
            "`sbert-retriever doctor`)"
        )
