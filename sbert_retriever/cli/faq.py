"""`sbert-retriever faq add|import|edit|list|delete`, and the group of all `faq` commands."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sbert_retriever.cli import faq_asking, faq_learning, options
from sbert_retriever.cli.faq_opening import DEFAULT_COLLECTION, DEFAULT_MODEL, open_faq
from sbert_retriever.cli.output import one_line, printable, put, put_json, say
from sbert_retriever.counting import counted
from sbert_retriever.errors import InputError

if TYPE_CHECKING:
    from sbert_retriever.faq import Faq, FaqEntry

app = typer.Typer(
    add_completion=False,
    rich_markup_mode=None,
    no_args_is_help=True,
    help="Answer questions from an FAQ, or say that it has no answer.",
)

Answers = Annotated[
    bool | None,
    typer.Option(
        "--answers/--phrasings-only",
        help="For a new FAQ: compare questions with its answers too, or with its phrasings alone. "
        "[default: phrasings alone]",
        show_default=False,
    ),
]
NewModel = Annotated[
    str | None,
    typer.Option(
        "--model",
        metavar="MODEL",
        help="A folder, a packaged name or a hub id. [default: the FAQ's own; for a new one, "
        f"{DEFAULT_MODEL}]",
        show_default=False,
    ),
]


@app.command("import")
def import_(
    location: options.Location,
    files: Annotated[
        list[str],
        typer.Argument(metavar="FILE", help="csv, jsonl, yaml, md, or a saved web page (html)."),
    ],
    prune: Annotated[
        bool, typer.Option("--prune", help="Delete entries that are in none of the files.")
    ] = False,
    model: NewModel = None,
    sparse: options.Sparse = None,
    answers: Answers = None,
    collection: options.Collection = DEFAULT_COLLECTION,
    device: options.Device = "auto",
    dtype: options.Dtype = "auto",
    api_key: options.ApiKey = None,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Write the entries of files into an FAQ, which is made where it is not there."""
    from sbert_retriever.faq.reading import read_all

    read_all(files)  # a faulty file leaves no new, empty FAQ behind
    with open_faq(
        location,
        collection,
        new=True,
        quiet=quiet,
        model=model,
        sparse=sparse,
        answers=answers,
        device=device,
        dtype=dtype,
        api_key=api_key,
    ) as faq:
        report = faq.load(*files, prune=prune)
    if json:
        put_json(asdict(report))
    else:
        put(str(report))
    if report.dropped:
        were = "was" if report.dropped == 1 else "were"
        say(f"{counted(report.dropped, 'phrasing')} that the files do not have {were} dropped")


@app.command()
def add(
    location: options.Location,
    questions: Annotated[
        list[str],
        typer.Option("--question", "-q", metavar="TEXT", help="A phrasing; may be repeated."),
    ],
    answer: Annotated[str, typer.Option("--answer", "-a", metavar="TEXT", help="The answer.")],
    id: Annotated[
        str | None,
        typer.Option(
            "--id",
            metavar="ID",
            help="Without it, one is made of the first question.",
            show_default=False,
        ),
    ] = None,
    tags: Annotated[
        list[str] | None,
        typer.Option("--tag", metavar="WORD", help="May be repeated.", show_default=False),
    ] = None,
    language: Annotated[
        str | None,
        typer.Option("--language", metavar="CODE", help="Such as en.", show_default=False),
    ] = None,
    links: Annotated[
        list[str] | None,
        typer.Option("--link", metavar="URL", help="May be repeated.", show_default=False),
    ] = None,
    replace: Annotated[
        bool, typer.Option("--replace", help="Take the place of an entry that is there.")
    ] = False,
    model: NewModel = None,
    sparse: options.Sparse = None,
    answers: Answers = None,
    collection: options.Collection = DEFAULT_COLLECTION,
    device: options.Device = "auto",
    dtype: options.Dtype = "auto",
    api_key: options.ApiKey = None,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Write one entry."""
    from sbert_retriever.faq import FaqEntry
    from sbert_retriever.faq.reading.records import id_of

    entry = FaqEntry(
        id=id_of(questions[0]) if id is None else id,
        answer=answer,
        phrasings=tuple(questions),
        tags=tuple(tags or ()),
        language=language,
        links=tuple(links or ()),
    )
    with open_faq(
        location,
        collection,
        new=True,
        quiet=quiet,
        model=model,
        sparse=sparse,
        answers=answers,
        device=device,
        dtype=dtype,
        api_key=api_key,
    ) as faq:
        faq.add(entry, replace=replace)
        _say_shared(faq, entry.id, questions)
    if json:
        put_json(asdict(entry))
    else:
        put(printable(entry.id))


@app.command()
def edit(
    location: options.Location,
    id: Annotated[str, typer.Argument(metavar="ID", help="Of an entry.")],
    answer: Annotated[
        str | None,
        typer.Option("--answer", "-a", metavar="TEXT", help="The new one.", show_default=False),
    ] = None,
    add: Annotated[
        list[str] | None,
        typer.Option(
            "--question",
            "-q",
            metavar="TEXT",
            help="A phrasing more; may be repeated.",
            show_default=False,
        ),
    ] = None,
    remove: Annotated[
        list[str] | None,
        typer.Option(
            "--remove",
            metavar="TEXT",
            help="A phrasing that goes, as it is written; may be repeated.",
            show_default=False,
        ),
    ] = None,
    collection: options.Collection = DEFAULT_COLLECTION,
    device: options.Device = "auto",
    dtype: options.Dtype = "auto",
    api_key: options.ApiKey = None,
    json: options.Json = False,
) -> None:
    """Change the answer or the phrasings of one entry."""
    if answer is None and not add and not remove:
        raise InputError("there is nothing to change: give --answer, --question or --remove")
    with open_faq(location, collection, device=device, dtype=dtype, api_key=api_key) as faq:
        old = faq.get(id)
        if old is None:
            raise InputError(f"there is no entry {id[:80]!r}: `faq list` prints those that are")
        made = faq.edit(id, answer=answer, phrasings=_changed(old, add or [], remove or []))
        _say_shared(faq, id, add or [])
    if json:
        put_json(asdict(made))
    else:
        _put_entry(made, full=True)


@app.command("list")
def list_(
    location: options.Location,
    tag: Annotated[
        str | None,
        typer.Option("--tag", metavar="WORD", help="Those with this tag.", show_default=False),
    ] = None,
    full: Annotated[
        bool, typer.Option("--full", help="Print all phrasings, and whole answers.")
    ] = False,
    collection: options.Collection = DEFAULT_COLLECTION,
    api_key: options.ApiKey = None,
    json: Annotated[
        bool, typer.Option("--json", help="Print a JSON object an entry, one a line.")
    ] = False,
) -> None:
    """Print the entries; needs no model."""
    with open_faq(location, collection, api_key=api_key) as faq:
        entries = [entry for entry in faq.entries() if tag is None or tag in entry.tags]
    for entry in entries:
        if json:
            put_json(asdict(entry), indent=None)
        else:
            _put_entry(entry, full=full)
    if not json:
        say(counted(len(entries), "entry", "entries"))


@app.command()
def delete(
    location: options.Location,
    ids: Annotated[list[str], typer.Argument(metavar="ID", help="Of entries.")],
    collection: options.Collection = DEFAULT_COLLECTION,
    api_key: options.ApiKey = None,
    json: options.Json = False,
) -> None:
    """Delete entries, with all their phrasings."""
    with open_faq(location, collection, api_key=api_key) as faq:
        deleted = sum(faq.delete(entry) for entry in ids)
    if json:
        put_json({"deleted": deleted})
    else:
        put(f"{deleted} deleted")


app.command("ask")(faq_asking.ask)
app.command("chat")(faq_asking.chat)
app.command("calibrate")(faq_learning.calibrate)
app.command("gaps")(faq_learning.gaps)
app.command("export-pairs")(faq_learning.export_pairs)


def _changed(entry: FaqEntry, add: list[str], remove: list[str]) -> list[str]:
    """The phrasings of an entry without some, with others.

    Raises:
        InputError: One that is to be removed is not there.
    """
    for text in remove:
        if text not in entry.phrasings:
            raise InputError(
                f"entry {entry.id[:80]!r} has no phrasing {text[:80]!r}: `faq list --full` prints "
                "them"
            )
    return [*(each for each in entry.phrasings if each not in remove), *add]


def _say_shared(faq: Faq, id: str, phrasings: list[str]) -> None:
    """Say which new phrasings of an entry are another's, too: who asks them has to choose."""
    for phrasing in phrasings:
        others = [other.id for other in faq.sharing(phrasing) if other.id != id]
        if others:
            names = ", ".join(repr(other[:80]) for other in others)
            say(
                f"{phrasing[:80]!r} is a phrasing of {names}, too: who asks it has to choose. "
                "`faq edit --remove` takes it from one"
            )


def _put_entry(entry: FaqEntry, *, full: bool) -> None:
    details: list[Any] = [*entry.tags, *([entry.language] if entry.language else [])]
    put(printable(entry.id + (f"  [{', '.join(details)}]" if details else "")))
    shown = entry.phrasings if full else entry.phrasings[:1]
    for phrasing in shown:
        put(f"    {one_line(phrasing)}")
    if len(shown) < len(entry.phrasings):
        more = counted(len(entry.phrasings) - len(shown), "more phrasing")
        put(f"    (and {more})")
    answer = printable(entry.answer) if full else one_line(entry.answer)[:100]
    put("\n".join(f"    > {line}" for line in answer.split("\n")))
