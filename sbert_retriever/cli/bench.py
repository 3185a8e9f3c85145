"""`sbert-retriever bench`."""

from __future__ import annotations

import json as json_format
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sbert_retriever.cli import options
from sbert_retriever.cli.output import printable, put, put_json, say
from sbert_retriever.errors import InputError
from sbert_retriever.types import DEFAULT_RERANKER

if TYPE_CHECKING:
    from sbert_retriever.bench.contenders import Contender, Models


def bench(
    cases: Annotated[
        str | None,
        typer.Option(
            "--cases",
            metavar="NAMES",
            help="Of encode-short, encode-long, encode-mixed, rerank, index, query, concurrent; "
            "joined by commas. Without it, all.",
            show_default=False,
        ),
    ] = None,
    against: Annotated[
        str,
        typer.Option(
            "--against",
            metavar="NAMES",
            help="Measured beside, in turn: sentence-transformers, fastembed, langchain; joined "
            "by commas. One that is not installed is left out, and said to be.",
            show_default=False,
        ),
    ] = "",
    rounds: Annotated[
        int, typer.Option("--rounds", metavar="N", help="How often each case is timed.")
    ] = 5,
    scale: Annotated[
        float,
        typer.Option("--scale", metavar="X", help="How many texts, as a share of the usual."),
    ] = 1.0,
    model: Annotated[
        str, typer.Option("--model", metavar="MODEL", help="The bi-encoder.")
    ] = "all-MiniLM-L6-v2",
    reranker: Annotated[
        str, typer.Option("--reranker", metavar="MODEL", help="The cross-encoder.")
    ] = DEFAULT_RERANKER,
    device: options.Device = "auto",
    dtype: options.Dtype = "auto",
    output: Annotated[
        str | None,
        typer.Option(
            "-o", "--output", metavar="FILE", help="Write JSON there too.", show_default=False
        ),
    ] = None,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Measure how fast encoding, rescoring, indexing and asking are on this machine.

    Texts are sentences of Python's own documentation. Each case runs once without being timed,
    then is timed several times, all contenders in turn. Let nothing else run meanwhile.
    """
    from sbert_retriever.bench.cases import CASES, Bench, run
    from sbert_retriever.bench.contenders import Models
    from sbert_retriever.bench.report import as_json, table
    from sbert_retriever.bench.texts import python_texts

    if rounds < 1 or not 0 < scale <= 1:
        raise InputError(
            f"--rounds is {rounds} and --scale {scale}: expected 1 or more, and above 0, up to 1"
        )
    if output is not None:
        _check_writable(Path(output))
    names = list(CASES) if cases is None else _listed(cases)
    if not names:
        raise InputError(f"--cases names none: choose among {', '.join(CASES)}, or leave it out")
    models = Models(
        bi_encoder=model,
        cross_encoder=reranker if "rerank" in names else None,
        device=device,
        dtype=dtype,
    )
    with tempfile.TemporaryDirectory(prefix="sbert-bench-") as scratch:
        plan = Bench(
            contenders=_contenders(models, _listed(against), Path(scratch)),
            texts=python_texts(),
            rounds=rounds,
            scale=scale,
            on_note=(lambda _: None) if quiet else say,
        )
        found = run(plan, names)
    report = as_json(found, models, plan.contenders[0])
    if output is not None:
        Path(output).write_text(json_format.dumps(report, indent=2) + "\n", encoding="utf-8")
    if json:
        put_json(report)
    else:
        put(printable(table(found)))


def _check_writable(output: Path) -> None:
    """Refuse a place that takes no file before minutes are spent on what goes there.

    Raises:
        InputError: It is a folder, or in none.
    """
    if output.is_dir() or not output.absolute().parent.is_dir():
        raise InputError(
            f"--output {output} cannot be written: name a file in a folder that is there"
        )


def _listed(names: str) -> list[str]:
    return [name.strip() for name in names.split(",") if name.strip()]


def _contenders(models: Models, names: list[str], scratch: Path) -> list[Contender]:
    """This library, and of the others those that are there.

    Raises:
        InputError: A name is none of theirs.
    """
    from sbert_retriever.bench.contenders import ours
    from sbert_retriever.bench.others import OTHERS
    from sbert_retriever.errors import AbsentError

    unknown = [name for name in names if name not in OTHERS]
    if unknown:
        raise InputError(f"--against {unknown[0]!r} is not known: choose among {', '.join(OTHERS)}")
    found = [ours(models)]
    for name in names:
        try:
            found.append(OTHERS[name](models, scratch))
        except AbsentError as error:
            say(str(error))
    return found
