"""`sbert-retriever query`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from sbert_retriever.cli import options
from sbert_retriever.cli.filters import parsed_filter
from sbert_retriever.cli.opening import open_existing
from sbert_retriever.cli.output import printable, put, put_json, say
from sbert_retriever.cli.passages import INDENT, body, place
from sbert_retriever.cli.typed import questions_of
from sbert_retriever.counting import counted
from sbert_retriever.types import DEFAULT_RERANKER

if TYPE_CHECKING:
    from sbert_retriever.retriever import Retriever
    from sbert_retriever.types import Fusion, Hit, SearchResult


def query(
    location: options.Location,
    questions: options.Questions = None,
    k: Annotated[int, typer.Option("-k", metavar="N", help="How many passages each.")] = 5,
    filter: options.Filters = None,
    filter_json: options.FilterJson = None,
    threshold: Annotated[
        float | None,
        typer.Option(
            "--threshold",
            metavar="SCORE",
            help="Leave out what the first stage scores below this.",
            show_default=False,
        ),
    ] = None,
    rerank: Annotated[
        bool,
        typer.Option("--rerank", help="Let a cross-encoder put the best passages in order."),
    ] = False,
    reranker: Annotated[
        str | None,
        typer.Option(
            "--reranker",
            metavar="MODEL",
            help=f"Which one; without it, the one of the collection's profile, or "
            f"{DEFAULT_RERANKER}.",
            show_default=False,
        ),
    ] = None,
    candidates: Annotated[
        int | None,
        typer.Option(
            "--candidates",
            metavar="N",
            help="How many passages it scores.",
            show_default=False,
        ),
    ] = None,
    budget_ms: Annotated[
        float | None,
        typer.Option(
            "--budget-ms",
            metavar="MS",
            help="Time for a question: it scores as many passages as fit.",
            show_default=False,
        ),
    ] = None,
    rerank_mode: Annotated[
        str | None,
        typer.Option(
            "--rerank-mode",
            metavar="HOW",
            help="replace (its order counts alone) or fuse (both orders count).",
            show_default=False,
        ),
    ] = None,
    rerank_threshold: Annotated[
        float | None,
        typer.Option(
            "--rerank-threshold",
            metavar="SCORE",
            help="Leave out what it scores below this, on its own scale.",
            show_default=False,
        ),
    ] = None,
    late_model: Annotated[
        str | None,
        typer.Option(
            "--late-model",
            metavar="MODEL",
            help="A ColBERT checkpoint, a folder or a hub id, that puts the best passages in order "
            "by late interaction, before any rerank.",
            show_default=False,
        ),
    ] = None,
    profile: Annotated[
        str | None,
        typer.Option(
            "--profile",
            metavar="NAME",
            help="fast, balanced or accurate. Without it, the collection's own, if one was saved.",
            show_default=False,
        ),
    ] = None,
    expand: Annotated[
        str | None,
        typer.Option(
            "--expand",
            metavar="HOW",
            help="Hand out the text around each passage: neighbours, or parent (its section).",
            show_default=False,
        ),
    ] = None,
    window: Annotated[
        int, typer.Option("--window", metavar="N", help="Neighbours on each side.")
    ] = 1,
    mode: Annotated[
        str | None,
        typer.Option(
            "--mode",
            metavar="MODE",
            help="dense (by meaning), sparse (by words) or hybrid (both). Without it, hybrid where "
            "the collection has words, else dense.",
            show_default=False,
        ),
    ] = None,
    fusion: Annotated[
        str | None,
        typer.Option(
            "--fusion",
            metavar="METHOD",
            help="How hybrid joins both: boost, weighted, rrf or dbsf.",
            show_default=False,
        ),
    ] = None,
    sparse_weight: Annotated[
        float | None,
        typer.Option(
            "--sparse-weight",
            metavar="SHARE",
            help="How much the words count in it, from 0 to 1.",
            show_default=False,
        ),
    ] = None,
    group_by: Annotated[
        str | None,
        typer.Option(
            "--group-by",
            metavar="FIELD",
            help="Take the best of each source (FIELD is then source), or of each value of a "
            "metadata field; -k counts groups.",
            show_default=False,
        ),
    ] = None,
    group_size: Annotated[
        int, typer.Option("--group-size", metavar="N", help="How many of a group at most.")
    ] = 1,
    diversity: Annotated[
        float | None,
        typer.Option(
            "--diversity",
            metavar="SHARE",
            help="From 0 (near to the question only) to 1 (unlike one another only); without a "
            "rerank.",
            show_default=False,
        ),
    ] = None,
    distinct: Annotated[
        float | None,
        typer.Option(
            "--distinct",
            metavar="SCORE",
            help="Leave out what is as near as this to a better passage: 0.95 leaves out what says "
            "nearly the same.",
            show_default=False,
        ),
    ] = None,
    exact: Annotated[
        bool, typer.Option("--exact", help="Compare with every vector: slower, nothing missed.")
    ] = False,
    ef: Annotated[
        int | None,
        typer.Option(
            "--ef",
            metavar="N",
            help="Width of the walk through the index; more is more exact and slower.",
            show_default=False,
        ),
    ] = None,
    full: Annotated[bool, typer.Option("--full", help="Print whole texts.")] = False,
    json: Annotated[
        bool, typer.Option("--json", help="Print a JSON object a question, one a line.")
    ] = False,
    model: options.Model = None,
    collection: options.Collection = "default",
    tenant: options.Tenant = None,
    device: options.Device = "auto",
    dtype: options.Dtype = "auto",
    api_key: options.ApiKey = None,
) -> None:
    """Find the passages nearest in meaning to each question."""
    condition = parsed_filter(filter, filter_json)
    asked = questions_of(questions or [])
    joined = _fusion(fusion, sparse_weight)
    with open_existing(
        location,
        collection,
        tenant=tenant,
        model=model,
        late_encoder=late_model,
        device=device,
        dtype=dtype,
        api_key=api_key,
    ) as opened:
        said = (candidates, budget_ms, rerank_mode, rerank_threshold)
        wanted = rerank or any(value is not None for value in said)
        retriever = _with_reranker(opened, reranker, profile, wanted=wanted)
        answers = retriever.search_batch_detailed(
            asked,
            k,
            filter=condition,
            score_threshold=threshold,
            expand=expand,  # type: ignore[arg-type]  # checked there, by name
            window=window,
            exact=exact or None,
            ef=ef,
            group_by=group_by,
            group_size=group_size,
            diversity=diversity,
            distinct=distinct,
            mode=mode,  # type: ignore[arg-type]  # checked there, by name
            fusion=joined,
            candidates=candidates,
            budget_ms=budget_ms,
            rerank_mode=rerank_mode,  # type: ignore[arg-type]  # checked there, by name
            profile=profile,
            rerank_threshold=rerank_threshold,
        )
    for number, (question, answer) in enumerate(zip(asked, answers, strict=True)):
        if json:
            put_json(_answer_as_dict(question, answer), indent=None)
        else:
            _print(question, answer.hits, full=full, named=len(asked) > 1, first=number == 0)
    _say_price(answers)


def _with_reranker(
    retriever: Retriever, name: str | None, profile: str | None, *, wanted: bool
) -> Retriever:
    """The retriever with a reranker, where one was named or is needed."""
    from sbert_retriever.types import Profile

    if name is None and (wanted or (profile is not None and Profile.named(profile).reranks)):
        saved = retriever.profile
        name = (saved.reranker if saved is not None else None) or DEFAULT_RERANKER
    return retriever if name is None else retriever.with_reranker(name)


def _fusion(method: str | None, sparse_weight: float | None) -> Fusion | None:
    """How both legs are joined, where anything is said of it.

    Raises:
        InputError: There is no such method, or the weight is no share.
    """
    from sbert_retriever.types import Fusion

    if method is None and sparse_weight is None:
        return None
    return Fusion(method=method, sparse_weight=sparse_weight)  # type: ignore[arg-type]  # by name


def _say_price(answers: list[SearchResult]) -> None:
    """What the second stage did, and what all stages took."""
    candidates = sum(answer.candidates for answer in answers)
    if not candidates:
        return
    rescored = sum(answer.rescored for answer in answers)
    stages = ("encode", "search", "rerank")
    times = ", ".join(f"{stage} {answers[0].timings_ms[stage]:.0f} ms" for stage in stages)
    of = f" of {len(answers)} questions" if len(answers) > 1 else ""
    say(f"rescored {rescored} of {counted(candidates, 'candidate')}{of}: {times}")
    kept = {hit.fallback: None for answer in answers for hit in answer.hits if hit.fallback}
    for reason in kept:
        say(f"{reason}: the first stage's order is kept")


def _answer_as_dict(question: str, answer: SearchResult) -> dict[str, Any]:
    return {
        "query": question,
        "hits": [_as_dict(hit) for hit in answer.hits],
        "timings_ms": {stage: round(ms, 3) for stage, ms in answer.timings_ms.items()},
        "candidates": answer.candidates,
        "rescored": answer.rescored,
    }


def _as_dict(hit: Hit) -> dict[str, Any]:
    return {
        "id": hit.id,
        "score": hit.score,
        "score_kind": hit.score_kind,
        "first_score": hit.first_score,
        "first_score_kind": hit.first_score_kind,
        "rerank_score": hit.rerank_score,
        "rerank_score_kind": hit.rerank_score_kind,
        "reranked": hit.reranked,
        "cut_short": hit.cut_short,
        "fallback": hit.fallback,
        "truncated": hit.truncated,
        "text": hit.text,
        "metadata": dict(hit.metadata),
        "source": hit.source,
    }


def _print(question: str, hits: list[Hit], *, full: bool, named: bool, first: bool) -> None:
    if named:
        put(("" if first else "\n") + f"? {printable(question)}")
    for rank, hit in enumerate(hits, 1):
        put(f"{rank:>2}. {_score(hit)}  {printable(place(hit.passage))}")
        put(body(hit.text, full=full))
    if not hits:
        put(f"{INDENT}nothing found")


def _score(hit: Hit) -> str:
    shown = f"{hit.score:.3f} {hit.score_kind}"
    if hit.first_score is None:
        return shown
    before = f"{hit.first_score:.3f} {hit.first_score_kind}"
    if hit.rerank_score is not None and hit.rerank_score_kind != hit.score_kind:
        before += f", {hit.rerank_score:.3f} {hit.rerank_score_kind}"
    return f"{shown} ({before})"
