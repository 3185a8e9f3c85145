"""`sbert-retriever hard-negatives`: questions with their answers in, data to train on out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from sbert_retriever.cli import options
from sbert_retriever.cli.opening import open_existing, open_scorer
from sbert_retriever.cli.output import put_json, say, share_lines
from sbert_retriever.counting import counted
from sbert_retriever.types import DEFAULT_RERANKER

if TYPE_CHECKING:
    from sbert_retriever.training import MinedNegatives


def hard_negatives(
    location: options.Location,
    pairs: Annotated[
        str,
        typer.Option(
            "--pairs",
            metavar="FILE",
            help="Queries and texts that answer them: tsv, csv, jsonl or parquet.",
            show_default=False,
        ),
    ],
    query_field: Annotated[
        str, typer.Option("--query-field", metavar="NAME", help="The column of the query.")
    ] = "query",
    positive_field: Annotated[
        str,
        typer.Option(
            "--positive-field",
            metavar="NAME",
            help="The column of the text that answers it; in jsonl and parquet a list of several.",
        ),
    ] = "positive",
    negatives: Annotated[
        int, typer.Option("--negatives", metavar="N", help="How many a pair gets at most.")
    ] = 5,
    candidates: Annotated[
        int,
        typer.Option("--candidates", metavar="N", help="How many passages a query is shown."),
    ] = 50,
    reranker: Annotated[
        str,
        typer.Option(
            "--reranker",
            metavar="MODEL",
            help='The cross-encoder that tells answers nobody marked; "none" leaves it out.',
        ),
    ] = DEFAULT_RERANKER,
    margin: Annotated[
        float,
        typer.Option(
            "--margin",
            metavar="LOGITS",
            help="How far below the positive's score a negative's must be.",
        ),
    ] = 3.0,
    model: options.Model = None,
    collection: options.Collection = "default",
    tenant: options.Tenant = None,
    device: options.Device = "auto",
    dtype: options.Dtype = "auto",
    api_key: options.ApiKey = None,
    quiet: options.Quiet = False,
) -> None:
    """Find passages near to queries that do not answer them, to train on.

    Prints a JSON object a pair, one a line: query, positive, negatives, which `train` reads as data
    of the kind "ranking". A pair for which no passage is left is not printed.
    """
    from sbert_retriever.training import TrainData, mine_hard_negatives
    from sbert_retriever.training.readers import read_examples

    columns = {"query": query_field, "positive": positive_field}
    data = TrainData(kind="ranking", files=(pairs,), columns=columns)
    examples = read_examples(data, negatives=0)
    given = [(query, positive) for query, positive in (example.texts for example in examples)]
    with open_existing(
        location,
        collection,
        model=model,
        tenant=tenant,
        device=device,
        dtype=dtype,
        api_key=api_key,
    ) as retriever:
        found = mine_hard_negatives(
            retriever,
            given,
            negatives=negatives,
            candidates=candidates,
            scorer=open_scorer(reranker, device=device, dtype=dtype),
            margin=margin,
            on_share=share_lines("looking for negatives", quiet=quiet),
        )
    for row in found.rows:
        put_json(row, indent=None)
    if not quiet:
        _say_found(found)


def _say_found(found: MinedNegatives) -> None:
    say(
        f"{counted(len(found.rows), 'pair')} with negatives, {found.without:,} without; "
        f"{counted(found.filtered, 'passage')} taken for answers and left out"
    )
