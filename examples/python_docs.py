"""Ask the documentation that every CPython carries: `make demo` runs this.

    python examples/python_docs.py --to demo-index

The texts are the language reference (`pydoc_data.topics`) and the docstrings of the standard
library, read from its source with `ast`: nothing of it is imported. They go into an embedded
Qdrant in a folder. Run it again, and nothing is encoded twice.
"""

from __future__ import annotations

import argparse
import ast
import sys
import sysconfig
import textwrap
import warnings
from collections.abc import Iterator
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
# Tests, what pip installed, and the parts of Python 2 that only some versions carry.
SKIPPED = {"site-packages", "dist-packages", "test", "tests", "idle_test", "lib2to3", "pydoc_data"}
WIDTH = 96
Definition = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef

# Each with a filter on the metadata, or None.
QUESTIONS: list[tuple[str, dict | None]] = [
    ("How do I make sure a file is closed even if an error occurs?", None),
    ("What happens when a default argument is a list?", {"kind": "topic"}),
    ("count how often each element occurs", None),
    ("run a shell command and capture its output", None),
    ("read and write configuration files", {"kind": "module"}),
    ("wait for several coroutines at the same time", {"module": "asyncio.tasks"}),
]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--to", default="demo-index", metavar="FOLDER", help="where the index goes")
    parser.add_argument("--limit", type=int, metavar="N", help="stop after N texts")
    arguments = parser.parse_args()
    with Retriever.open(arguments.to, model=MODEL) as retriever:
        passages = read_passages(retriever.encoder, arguments.limit)
        print(in_words(index(retriever, passages), arguments.to))
        for question, condition in QUESTIONS:
            print_answers(question, condition, retriever.search(question, 3, filter=condition))
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
                # The topics quote whole sections of each other.
                passages.setdefault(passage.text, passage)
    return list(passages.values())


def is_wanted(path: Path) -> bool:
    return not SKIPPED.intersection(path.relative_to(STDLIB).parts)


def all_texts(files: list[Path], *, on_file) -> Iterator[SourceText]:
    yield from map(topic_text, sorted(topics))
    for path in files:
        yield from docstrings(path)
        on_file()


def topic_text(name: str) -> SourceText:
    text = topics[name].strip()
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
                f"{heading}\n{text}",
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


def cut(text: SourceText, encoder: BiEncoder) -> list[Passage]:
    return chunk(
        text,
        token_offsets=encoder.token_offsets,
        max_tokens=room_for_text(encoder),
        id_prefix=text.metadata["name"],
    )


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
    if not report.encoded:
        return (
            f"Nothing to encode: all {report.unchanged:,} passages are in {folder} "
            f"(compared in {report.seconds:.1f} s)."
        )
    rate = report.encoded / report.seconds
    return (
        f"{report.added + report.updated:,} passages went into {folder} in {report.seconds:.1f} s "
        f"({rate:,.0f} a second), {report.unchanged:,} were there."
    )


# Printing ---------------------------------------------------------------------------------------


def print_answers(question: str, condition: dict | None, hits: list[Hit]) -> None:
    within = ", ".join(f"{field} = {value}" for field, value in (condition or {}).items())
    print(f"\n> {question}" + (f"   [{within}]" if within else ""))
    for hit in hits:
        where = hit.metadata.get("section") or hit.metadata["name"]
        print(f"\n  {hit.score:.2f}  {where}   ({hit.metadata['kind']}, {hit.metadata['module']})")
        print(textwrap.indent(first_lines(hit.text), " " * 8))


def first_lines(text: str, count: int = 3) -> str:
    lines = [line for line in text.splitlines() if line.strip() and set(line) - set("*=-~ ")]
    return "\n".join(textwrap.shorten(line, WIDTH, placeholder=" ...") for line in lines[:count])


def print_more(folder: str) -> None:
    program = Path(sys.executable).with_name("sbert-retriever")
    if program.is_relative_to(Path.cwd()):
        program = program.relative_to(Path.cwd())
    print(f"""
Ask more:
  {program} query {folder} "how do I sort a list by two keys?"
  {program} query {folder} "parse a date" --filter kind=function -k 3
  {program} info {folder}""")


if __name__ == "__main__":
    main()
