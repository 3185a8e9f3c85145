"""`sbert-retriever faq calibrate`, `gaps` and `export-pairs`."""

from __future__ import annotations

from dataclasses import asdict
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sbert_retriever.cli import options
from sbert_retriever.cli.faq_asking import Log, Reranker
from sbert_retriever.cli.faq_opening import DEFAULT_COLLECTION, open_faq
from sbert_retriever.cli.output import one_line, put, put_json, say
from sbert_retriever.counting import counted
from sbert_retriever.errors import InputError, ReadError

if TYPE_CHECKING:
    from sbert_retriever.faq import Gap
    from sbert_retriever.faq.report import CalibrationReport

_SHOWN = 4


def calibrate(
    location: options.Location,
    file: Annotated[
        str | None,
        typer.Argument(
            metavar="FILE",
            help="A csv with the columns question and entry: the id of the entry that answers it, "
            "or nothing where none does. Without it, the feedback that was kept.",
            show_default=False,
        ),
    ] = None,
    target_precision: Annotated[
        float,
        typer.Option(
            "--target-precision", metavar="SHARE", help="Of the answers, that shall be right."
        ),
    ] = 0.95,
    out_of_scope_share: Annotated[
        float | None,
        typer.Option(
            "--out-of-scope-share",
            metavar="SHARE",
            help="Of the questions that users ask, those that no entry answers. Without it, as in "
            "FILE.",
            show_default=False,
        ),
    ] = None,
    plot: Annotated[
        str | None,
        typer.Option(
            "--plot",
            metavar="FILE",
            help="Draw precision over coverage into a .png or .svg file.",
            show_default=False,
        ),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Report, and keep nothing.")] = False,
    reranker: Reranker = None,
    log: Log = None,
    collection: options.Collection = DEFAULT_COLLECTION,
    device: options.Device = "auto",
    dtype: options.Dtype = "auto",
    api_key: options.ApiKey = None,
    json: options.Json = False,
) -> None:
    """Learn from labelled questions when to answer, and how sure an answer is."""
    from sbert_retriever.mining.picture import check_picture

    if plot is not None:
        check_picture(plot)
    labelled = None if file is None else read_labelled(Path(file))
    with open_faq(
        location,
        collection,
        reranker=reranker,
        log=log,
        device=device,
        dtype=dtype,
        api_key=api_key,
    ) as faq:
        report = faq.calibrate(
            labelled,
            target_precision=target_precision,
            out_of_scope_share=out_of_scope_share,
            save=not dry_run,
        )
    if json:
        put_json(as_dict(report))
    else:
        put(report.table())
    say("nothing was kept (--dry-run)" if dry_run else "kept with the FAQ")
    if plot is not None:
        report.plot(plot)  # last: a picture that cannot be written costs nobody the report


def gaps(
    location: options.Location,
    file: Annotated[
        str | None,
        typer.Argument(
            metavar="FILE",
            help="Questions, one a line. Without it, the unanswered ones that were logged.",
            show_default=False,
        ),
    ] = None,
    threshold: Annotated[
        float | None,
        typer.Option(
            "--threshold",
            metavar="COSINE",
            help="The least cosine to the question in the middle; without it, 0.6.",
            show_default=False,
        ),
    ] = None,
    min_size: Annotated[
        int,
        typer.Option("--min-size", metavar="N", help="How often a gap was asked about at least."),
    ] = 2,
    limit: Annotated[
        int, typer.Option("--limit", metavar="N", help="Print so many, the most asked.")
    ] = 20,
    log: Log = None,
    collection: options.Collection = DEFAULT_COLLECTION,
    device: options.Device = "auto",
    dtype: options.Dtype = "auto",
    api_key: options.ApiKey = None,
    json: Annotated[
        bool, typer.Option("--json", help="Print a JSON object a gap, one a line.")
    ] = False,
) -> None:
    """Say what people ask and no entry answers: which entries to write next."""
    questions = None if file is None else _text(Path(file)).split("\n")
    with open_faq(
        location, collection, log=log, device=device, dtype=dtype, api_key=api_key
    ) as faq:
        found = faq.gaps(questions, threshold=threshold, min_size=min_size)
    for gap in found[:limit]:
        if json:
            put_json(asdict(gap), indent=None)
        else:
            _put_gap(gap)
    if not json:
        asked = sum(gap.count for gap in found)
        say(f"{counted(len(found), 'gap')}, {counted(asked, 'question')}")


def export_pairs(
    location: options.Location,
    file: Annotated[
        str, typer.Argument(metavar="FILE", help="A .tsv, .csv or .jsonl file to write.")
    ],
    answers: Annotated[
        bool,
        typer.Option("--answers", help="Pair questions with answers, and not with phrasings."),
    ] = False,
    log: Log = None,
    collection: options.Collection = DEFAULT_COLLECTION,
    api_key: options.ApiKey = None,
    json: options.Json = False,
) -> None:
    """Write feedback as pairs for `sbert-retriever train`: questions and what is right for them."""
    from sbert_retriever.faq.pairs import write_pairs

    with open_faq(location, collection, log=log, api_key=api_key) as faq:
        pairs = faq.training_pairs(second="answer" if answers else "phrasing")
    if not pairs:
        raise InputError(
            "there is no feedback that an entry was right, so there are no pairs: keep some with "
            "`faq chat` or POST /faq/feedback"
        )
    write_pairs(pairs, Path(file))
    if json:
        put_json({"pairs": len(pairs)})
    else:
        put(counted(len(pairs), "pair"))


def read_labelled(path: Path) -> list[tuple[str, str | None]]:
    """Labelled questions of a csv.

    Raises:
        ReadError: A column is missing, or a row has no question; with the line.
    """
    from sbert_retriever.ingest.record_fields import Fields
    from sbert_retriever.ingest.record_lines import BadLine, csv_records

    source, fields = path.as_posix(), Fields(text=("question",), metadata=("entry",))
    labelled: list[tuple[str, str | None]] = []
    for found in csv_records(StringIO(_text(path)), source, fields):
        if isinstance(found, BadLine):
            raise ReadError(f"{source}, line {found.line}: {found.reason}")
        line, row = found
        if not row["question"].strip():
            raise ReadError(f"{source}, line {line}: no question")
        labelled.append((row["question"], row["entry"].strip() or None))
    return labelled


def _text(path: Path) -> str:
    from sbert_retriever.ingest.decoding import decode
    from sbert_retriever.ingest.readers import reading

    source = path.as_posix()
    with reading(source):
        return decode(path.read_bytes(), source)[0]


def _put_gap(gap: Gap) -> None:
    near = "" if gap.nearest is None else f"; nearest entry {gap.nearest} ({gap.score:.2f})"
    put(f"{gap.count:>4}  {one_line(gap.question)}")
    others = gap.questions[1:_SHOWN]
    for question in others:
        put(f"      {one_line(question)}")
    more = len(gap.questions) - 1 - len(others)
    put(f"      ({f'and {more} more' if more > 0 else 'all'}{one_line(near)})")


def as_dict(report: CalibrationReport) -> dict[str, Any]:
    """A report as plain JSON."""
    return {**asdict(report), "by_share": {str(s): p for s, p in report.by_share.items()}}
