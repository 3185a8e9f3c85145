"""`sbert-retriever paper-efficiency`."""

from __future__ import annotations

import json as json_format
from typing import Annotated

import typer

from sbert_retriever.cli import options
from sbert_retriever.cli.output import printable, put, put_json, say
from sbert_retriever.errors import InputError
from sbert_retriever.types import DEFAULT_RERANKER


def paper_efficiency(
    n: Annotated[int, typer.Option("-n", metavar="N", help="How many sentences.")] = 10_000,
    sentences: Annotated[
        str | None,
        typer.Option(
            "--sentences",
            metavar="FILE",
            help="One a line; the first N different ones are taken. Without it, sentences of "
            "Python's own documentation.",
            show_default=False,
        ),
    ] = None,
    sample: Annotated[
        int, typer.Option("--sample", metavar="N", help="Pairs the cross-encoder is timed on.")
    ] = 1000,
    model: Annotated[
        str, typer.Option("--model", metavar="MODEL", help="The bi-encoder.")
    ] = "all-MiniLM-L6-v2",
    reranker: Annotated[
        str, typer.Option("--reranker", metavar="MODEL", help="The cross-encoder.")
    ] = DEFAULT_RERANKER,
    device: options.Device = "auto",
    dtype: options.Dtype = "auto",
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Find the most similar pair among N sentences, as the paper's introduction does.

    The bi-encoder does it for real; the cross-encoder is timed on a sample of the pairs, and its
    time for all of them is extrapolated. Printed beside the paper's own figures.
    """
    from sbert_retriever.encoder.bi_encoder import BiEncoder
    from sbert_retriever.encoder.cross_encoder import CrossEncoder
    from sbert_retriever.tradeoff.efficiency import paper_efficiency as measured

    texts = _sentences(sentences, n)
    encoder = BiEncoder.load(model, device=device, dtype=dtype, on_truncate="ignore")
    scorer = CrossEncoder.load(reranker, device=device, dtype=dtype, on_truncate="ignore")
    report = measured(
        texts,
        encoder,
        scorer,
        sample=sample,
        on_note=(lambda _: None) if quiet else say,
    )
    if json:
        put_json(json_format.loads(report.to_json()))
    else:
        put(printable(report.table()))


def _sentences(file: str | None, n: int) -> list[str]:
    from sbert_retriever.tradeoff.sentences import python_sentences, read_sentences

    if n < 2:
        raise InputError(f"-n is {n}: a pair needs 2 sentences or more")
    if file is None:
        return python_sentences(n)
    found = read_sentences(file)
    if len(found) < n:
        raise InputError(
            f"{file} has {len(found):,} different lines, and {n:,} were asked for: give -n "
            f"{len(found)} or another file"
        )
    return found[:n]
