"""`sbert-retriever faq ask` and `chat`."""

from __future__ import annotations

import sys
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sbert_retriever.cli import options
from sbert_retriever.cli.faq_opening import DEFAULT_COLLECTION, open_faq
from sbert_retriever.cli.filters import parsed_filter
from sbert_retriever.cli.output import one_line, printable, put, put_json, say
from sbert_retriever.cli.typed import questions_of, read_line
from sbert_retriever.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sbert_retriever.faq import Faq, FaqAnswer, FaqCandidate

DONT_KNOW = "I don't know."
_DID_YOU_MEAN = "Did you mean:"
_HELP = (
    "Ask a question. After an answer, + says that it was right and - that it was not; after a "
    "list, a number chooses. An empty line or Ctrl-D ends."
)

Reranker = Annotated[
    str | None,
    typer.Option(
        "--reranker",
        metavar="MODEL",
        help="A cross-encoder that looks at the best entries again.",
        show_default=False,
    ),
]
BudgetMs = Annotated[
    float | None,
    typer.Option(
        "--budget-ms",
        metavar="MS",
        help="Time for a question; goes with --reranker.",
        show_default=False,
    ),
]
LogUnanswered = Annotated[
    bool,
    typer.Option(
        "--log-unanswered",
        help="Keep questions that get no answer, as they were asked, for `faq gaps`.",
    ),
]
Log = Annotated[
    str | None,
    typer.Option(
        "--log",
        metavar="FILE",
        help="Where they and feedback are kept. Without it, in the folder of an embedded FAQ.",
        show_default=False,
    ),
]


def ask(
    location: options.Location,
    questions: options.Questions = None,
    previous: Annotated[
        str | None,
        typer.Option(
            "--previous",
            metavar="QUESTION",
            help="The last question, where this one may follow it up.",
            show_default=False,
        ),
    ] = None,
    k: Annotated[int, typer.Option("-k", metavar="N", help="How many candidates at most.")] = 3,
    filter: options.Filters = None,
    filter_json: options.FilterJson = None,
    reranker: Reranker = None,
    budget_ms: BudgetMs = None,
    log_unanswered: LogUnanswered = False,
    log: Log = None,
    collection: options.Collection = DEFAULT_COLLECTION,
    device: options.Device = "auto",
    dtype: options.Dtype = "auto",
    api_key: options.ApiKey = None,
    json: options.Json = False,
) -> None:
    """Answer a question from the FAQ, offer entries to choose from, or say "I don't know"."""
    asked = questions_of(questions or [])
    condition = parsed_filter(filter, filter_json)
    with open_faq(
        location,
        collection,
        reranker=reranker,
        log_unanswered=log_unanswered,
        log=log,
        device=device,
        dtype=dtype,
        api_key=api_key,
    ) as faq:
        _expect_entries(faq)
        found = [faq.ask(each, previous, budget_ms, k=k, filter=condition) for each in asked]
    one_line_each = len(found) > 1 or not questions or questions == ["-"]
    for place, (question, answer) in enumerate(zip(asked, found, strict=True)):
        if json:
            put_json(as_dict(answer), indent=None if one_line_each else 2)
            continue
        if len(found) > 1:
            put(("\n" if place else "") + f"? {printable(question)}")
        put_answer(answer)


def _expect_entries(faq: Faq) -> None:
    """Refuse to ask an FAQ that cannot answer anything.

    Raises:
        InputError: It has no entries.
    """
    if not faq.count():
        raise InputError(
            "this FAQ has no entries: write some with `sbert-retriever faq import` or `faq add`"
        )


def chat(
    location: options.Location,
    reranker: Reranker = None,
    budget_ms: BudgetMs = None,
    log_unanswered: LogUnanswered = False,
    log: Log = None,
    collection: options.Collection = DEFAULT_COLLECTION,
    device: options.Device = "auto",
    dtype: options.Dtype = "auto",
    api_key: options.ApiKey = None,
    quiet: options.Quiet = False,
) -> None:
    """Talk with the FAQ in the terminal, one question a line."""
    with open_faq(
        location,
        collection,
        reranker=reranker,
        log_unanswered=log_unanswered,
        log=log,
        device=device,
        dtype=dtype,
        api_key=api_key,
    ) as faq:
        _expect_entries(faq)
        if not quiet:
            say(_HELP)
        _talk(faq, budget_ms)


def _talk(faq: Faq, budget_ms: float | None) -> None:
    last: FaqAnswer | None = None
    asked: str | None = None
    for line in _lines():
        if line in ("+", "-") or _is_choice(line, last):
            _react(faq, line, last)
            continue
        beyond = line.isdecimal() and last is not None and last.outcome == "choose"
        found = faq.ask(line, None if beyond else asked, budget_ms)
        if beyond and found.outcome != "answer" and last is not None:
            put(f"There is no choice {line[:20]}: the list goes from 1 to {len(last.candidates)}.")
            continue
        last, asked = found, line
        put_answer(last)


def _is_choice(line: str, last: FaqAnswer | None) -> bool:
    """Whether a line is a number of the list that was shown; any other is a question."""
    if last is None or last.outcome != "choose" or not line.isdecimal():
        return False
    return 1 <= int(line) <= len(last.candidates)


def _lines() -> Iterator[str]:
    """What is typed, until an empty line."""
    while True:
        if sys.stdin.isatty():
            print("> ", end="", file=sys.stderr, flush=True)  # noqa: T201  # a prompt
        line = read_line()
        if not line:
            return
        if not sys.stdin.isatty():
            put(f"> {printable(line)}")  # nobody saw it typed
        yield line


def _react(faq: Faq, line: str, last: FaqAnswer | None) -> None:
    """Keep what was said of the last answer, or give the one that was chosen."""
    chosen = _chosen(line, last)
    if chosen is None or last is None:
        say("there is nothing to say that of: ask a question first")
        return
    if line not in ("+", "-"):
        put(printable(chosen.entry.answer))
    try:
        # As it was looked up: a follow-up by itself would teach that its words mean this entry.
        faq.feedback(last.question, chosen.entry, line != "-")
    except InputError as error:
        say(str(error))


def _chosen(line: str, last: FaqAnswer | None) -> FaqCandidate | None:
    """The candidate that a line is about; None where it is about none."""
    if last is None:
        return None
    if line in ("+", "-"):
        return last.candidates[0] if last.outcome == "answer" else None
    return last.candidates[int(line) - 1]


def put_answer(found: FaqAnswer) -> None:
    """An answer, a numbered list, or "I don't know"."""
    if found.outcome == "answer" and found.entry is not None:
        put(printable(found.entry.answer))
        for link in found.entry.links:
            put(f"    {one_line(link)}")
        return
    put(_DID_YOU_MEAN if found.outcome == "choose" else DONT_KNOW)
    if found.outcome == "choose":
        for place, choice in enumerate(found.choices, 1):
            put(f"    {place}. {one_line(choice)}")


def as_dict(found: FaqAnswer) -> dict[str, Any]:
    """An answer as plain JSON."""
    return {**asdict(found), "timings_ms": dict(found.timings_ms)}
