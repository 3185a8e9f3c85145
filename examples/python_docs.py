"""Ask the documentation that every CPython carries: `make demo` runs this.

    python examples/python_docs.py --to demo-index

The texts are the language reference (`pydoc_data.topics`) and the docstrings of the standard
library, read from its source with `ast`: nothing of it is imported. They go into an embedded
Qdrant in a folder. Run it again, and nothing is encoded twice.
"""

from __future__ import annotations

import argparse
import ast
import re
import sys
import sysconfig
import textwrap
import warnings
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path
from pydoc_data.topics import topics

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from sbert_retriever import BiEncoder, Hit, IndexReport, Passage, Retriever
from sbert_retriever.ingest import SourceText, chunk
from sbert_retriever.ingest.files import room_for_text
from sbert_retriever.ingest.headings import rst_headings, sections

MODEL = "all-MiniLM-L6-v2"
STDLIB = Path(sysconfig.get_path("stdlib"))
# Tests, what pip installed, and what only some versions of Python still carry.
SKIPPED = {
    *("site-packages", "dist-packages", "test", "tests", "idle_test", "pydoc_data"),
    *("lib2to3", "distutils"),
}
# Where a chunk stands in its text is left out: the texts are not what the chunks were cut from.
KEPT = {"kind", "module", "name", "section"}
# Kept free for a heading; the same for most, so that what two topics share is cut alike.
RESERVED_TOKENS = 32
UNDERLINE = re.compile(r"\n[*=~^-]{3,}$", re.MULTILINE)
# The lines between the cells of a table.
FRAME = re.compile(r"^ *[+|][-=+| ]*[+|]$|(?:^ *| )\|(?: |$)", re.MULTILINE)
WIDTH = 96
Definition = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef

# Each with a filter on the metadata, or None.
QUESTIONS: list[tuple[str, dict | None]] = [
    ("How can a class make its instances callable?", None),
    ("create a temporary folder that is deleted afterwards", None),
    ("run a shell command and capture its output", None),
    ("cache the results of a function", None),
    ("How do generators produce values?", {"kind": "topic"}),
    ("parse command line options", {"kind": "module"}),
]
# The bi-encoder puts the right chapter first, and the wrong part of it.
RERANKED = "How are default argument values evaluated?"
RERANKER = "ms-marco-MiniLM-L12-v2"
CANDIDATES = 20


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--to", default="demo-index", metavar="FOLDER", help="where the index goes")
    parser.add_argument("--limit", type=int, metavar="N", help="stop after N texts")
    arguments = parser.parse_args()
    print(f"Indexing into {arguments.to}; it may be stopped, and goes on when it is run again.")
    with Retriever.open(arguments.to, model=MODEL) as retriever:
        passages = read_passages(retriever.encoder, arguments.limit)
        print(in_words(index(retriever, passages), arguments.to))
        for question, condition in QUESTIONS:
            print_answers(question, condition, retriever.search(question, 3, filter=condition))
        print_rerank(retriever)
    print_more(arguments.to)


# Reading ----------------------------------------------------------------------------------------


def read_passages(encoder: BiEncoder, limit: int | None) -> list[Passage]:
    """All texts, cut where they are longer than the model reads; no text twice."""
    files = [path for path in sorted(STDLIB.rglob("*.py")) if is_wanted(path)]
    passages: dict[str, Passage] = {}
    with bar() as progress:
        task = progress.add_task("Reading Python's documentation", total=len(files), unit="files")
        texts = all_texts(files, on_file=lambda: progress.advance(task))
        for text in islice(texts, limit):
            for passage in cut(text, encoder):
                passages.setdefault(passage.text, passage)
    return list(passages.values())


def is_wanted(path: Path) -> bool:
    return not SKIPPED.intersection(path.relative_to(STDLIB).parts)


def all_texts(files: list[Path], *, on_file) -> Iterator[SourceText]:
    # The shorter first: the longer ones quote them whole.
    yield from map(topic_text, sorted(topics, key=lambda name: len(topics[name])))
    for path in files:
        yield from docstrings(path)
        on_file()


def topic_text(name: str) -> SourceText:
    text = FRAME.sub("", topics[name]).strip()
    return SourceText(
        f"topic:{name}",
        text,
        title=text.partition("\n")[0],
        metadata={"kind": "topic", "module": "language reference", "name": name},
        sections=sections(rst_headings(text), text),
    )


def docstrings(path: Path) -> Iterator[SourceText]:
    """The docstrings of a module, its public classes, functions and methods."""
    relative = path.relative_to(STDLIB)
    module = ".".join(relative.with_suffix("").parts).removesuffix(".__init__")
    try:
        with warnings.catch_warnings():  # about the library's own code
            warnings.simplefilter("ignore")
            tree = ast.parse(path.read_bytes())
    except (SyntaxError, ValueError):
        return  # some files hold bad syntax on purpose
    found = [("module", module, f"module {module}", tree), *definitions(tree.body, module)]
    for kind, name, heading, node in found:
        if text := ast.get_docstring(node):
            yield SourceText(
                relative.as_posix(),
                text,
                title=heading,
                metadata={"kind": kind, "module": module, "name": name},
            )


def definitions(body: list[ast.stmt], outer: str, *, method: bool = False):
    """(kind, qualified name, heading, node) of each public definition, from the outermost."""
    for node in body:
        if not isinstance(node, Definition) or is_private(node.name):
            continue
        name = f"{outer}.{node.name}"
        if isinstance(node, ast.ClassDef):
            yield "class", name, f"class {name}", node
            yield from definitions(node.body, name, method=True)
        else:
            heading = f"{name}({ast.unparse(node.args)})"
            yield "method" if method else "function", name, heading, node


def is_private(name: str) -> bool:
    return name.startswith("_") and not name.endswith("__")


def cut(text: SourceText, encoder: BiEncoder) -> Iterator[Passage]:
    """Passages that each begin with a heading, so that a later one still says whose it is."""
    headings = [text.title, *(section.path[-1] for section in text.sections if section.path)]
    reserved = max(RESERVED_TOKENS, *map(len, encoder.token_offsets(headings)))
    passages = chunk(
        text,
        token_offsets=encoder.token_offsets,
        max_tokens=room_for_text(encoder) - reserved,
        id_prefix=text.metadata["name"],
    )
    for passage in passages:
        heading = passage.metadata.get("section", text.title).split(" > ")[-1]
        body = UNDERLINE.sub("", passage.text)
        headed = body if body.startswith(heading) else f"{heading}\n{body}"
        metadata = {k: v for k, v in passage.metadata.items() if k in KEPT}
        yield replace(passage, text=headed, metadata=metadata)


# Indexing ---------------------------------------------------------------------------------------


def index(retriever: Retriever, passages: list[Passage]) -> IndexReport:
    with bar() as progress:
        task = progress.add_task("Encoding and indexing", total=len(passages), unit="passages")

        def show(report: IndexReport) -> None:
            done = report.added + report.updated + report.unchanged + report.failed
            progress.update(task, completed=done)

        return retriever.index(passages, on_progress=show)


def bar() -> Progress:
    columns = (
        TextColumn("{task.description:<30}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[unit]}"),
        TimeElapsedColumn(),
    )
    return Progress(*columns, console=Console(stderr=True))


def in_words(report: IndexReport, folder: str) -> str:
    total = report.added + report.updated + report.unchanged
    if not report.encoded:
        return f"Nothing to encode: all {total:,} passages are in {folder} already."
    rate = report.encoded / report.seconds
    return (
        f"{report.encoded:,} passages encoded in {report.seconds:.0f} s ({rate:,.0f} a second); "
        f"{total:,} are in {folder}."
    )


# Printing ---------------------------------------------------------------------------------------


def print_rerank(retriever: Retriever) -> None:
    """One question twice: by the bi-encoder, and with a cross-encoder over its first hits."""
    before = retriever.search_detailed(RERANKED, 1)
    after = retriever.with_reranker(RERANKER).search_detailed(RERANKED, 1, candidates=CANDIDATES)
    print(f"\nA cross-encoder ({RERANKER}) reads question and passage together.")
    print(f"Without it, {before.timings_ms['total']:.0f} ms:")
    print_answers(RERANKED, None, before.hits)
    print(f"\nWith it over the first {after.rescored}, {after.timings_ms['total']:.0f} ms:")
    print_answers(RERANKED, None, after.hits)
    print("\nWhat more time buys is drawn in docs/tradeoff.md; `sbert-retriever tradeoff` measures")
    print("it on a collection of yours, and `budget_ms` sets it for a question.")


def print_answers(question: str, condition: dict | None, hits: list[Hit]) -> None:
    within = ", ".join(f"{field} = {value}" for field, value in (condition or {}).items())
    print(f"\n> {question}" + (f"   [{within}]" if within else ""))
    for hit in hits:
        heading = hit.metadata.get("section") or hit.text.partition("\n")[0]
        print(
            f"\n  {hit.score:.2f} {hit.score_kind}  {shortened(heading)}   ({hit.metadata['kind']})"
        )
        print(textwrap.indent(beginning(hit.text, without=heading), " " * 8))


def beginning(text: str, *, without: str, count: int = 3) -> str:
    """The first lines that say more than the heading does."""
    lines = text.splitlines()
    known = {without, without.split(" > ")[-1], ""}
    return "\n".join([shortened(line) for line in lines if line.strip() not in known][:count])


def shortened(line: str) -> str:
    return textwrap.shorten(line, WIDTH, placeholder=" ...")


def print_more(folder: str) -> None:
    program = Path(sys.executable).with_name("sbert-retriever")
    if program.is_relative_to(Path.cwd()):
        program = program.relative_to(Path.cwd())
    print(f"""
Ask more:
  {program} query {folder} "median of a list of numbers" -k 3
  {program} query {folder} "what does nonlocal mean?" --filter kind=topic
  {program} query {folder} "what does finally do with a return in it?" --budget-ms 1000
  {program} query {folder} --help""")


if __name__ == "__main__":
    main()
