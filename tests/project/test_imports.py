"""Imports point one way, and loading stays cheap."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CORE = ROOT / "sbert_retriever"
LANGCHAIN = ROOT / "integrations" / "langchain_sbert"
RAY = ROOT / "integrations" / "sbert_ray"

# Each room may import those before it, and itself; rooms in one set know nothing of each other.
ORDER: list[set[str]] = [
    {"errors", "closing", "counting", "csv_fields", "forks", "part_files"},
    {"types", "micro_batching"},
    {"encoder"},
    {"sparse"},
    {"index"},
    {"ingest", "rerank", "testing"},
    {"lazy_encoder"},
    {"opening", "search"},
    {"retriever"},
    {"doctor", "transfer", "evaluation", "mining"},
    {"faq", "tradeoff"},
    {"bench", "training"},
    {"paper", "serve"},
    {"cli"},
    {"__main__"},
]
RANK = {room: rank for rank, rooms in enumerate(ORDER) for room in rooms}


def modules(package: Path) -> dict[str, Path]:
    """Every module of a package, by its full name."""
    found = {}
    for path in sorted(package.rglob("*.py")):
        parts = path.relative_to(package.parent).with_suffix("").parts
        found[".".join(parts).removesuffix(".__init__")] = path
    return found


def imports(path: Path) -> Iterator[str]:
    """What a module imports anywhere in it, for type checking included."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}, line {node.lineno}: a relative import"
            assert node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def room(name: str) -> str | None:
    """The room of the core that a dotted name is in; None outside the core, and for its front."""
    first, _, rest = name.partition(".")
    head = rest.partition(".")[0]
    return head if first == "sbert_retriever" and head in RANK else None


CORE_MODULES = modules(CORE)
# Other libraries are measured there, where they are installed.
MEASURED = "sbert_retriever.bench.others"
LANGCHAIN_MODULES = modules(LANGCHAIN)
RAY_MODULES = modules(RAY)
INTEGRATIONS = LANGCHAIN_MODULES | RAY_MODULES


def test_every_module_is_in_a_known_room() -> None:
    unplaced = [name for name in CORE_MODULES if room(name) is None]
    assert unplaced == ["sbert_retriever"], "say in ORDER where the new room stands"


def test_the_page_for_contributors_names_every_room_in_this_order() -> None:
    """Whole rooms were missing there."""
    page = (ROOT / "docs" / "contributing.md").read_text(encoding="utf-8")
    rows = "\n".join(row for row in page.split("\n") if row.startswith("| `"))
    named = re.findall(r"`(\w+)/?`", rows)
    rooms = [name for name in named if name in RANK]
    assert sorted(rooms) == sorted(set(RANK) - {"__main__"})
    assert [RANK[name] for name in rooms] == sorted(RANK[name] for name in rooms)


@pytest.mark.parametrize("name", [n for n in CORE_MODULES if n != "sbert_retriever"])
def test_rooms_import_only_what_comes_before_them(name: str) -> None:
    here = room(name)
    assert here is not None
    wrong = [
        imported
        for imported in imports(CORE_MODULES[name])
        if (there := room(imported)) is not None and there != here and RANK[there] >= RANK[here]
    ]
    assert not wrong


def test_only_the_front_and_the_command_line_use_the_front_door() -> None:
    """A room that imports from the package itself would close a circle."""
    users = {
        name
        for name, path in CORE_MODULES.items()
        for imported in imports(path)
        if imported.startswith("sbert_retriever.") and room(imported) is None
    }
    assert users <= {"sbert_retriever.cli.app", "sbert_retriever.serve.about"}


def test_nothing_imports_langchain_sbert_and_the_core_knows_no_langchain() -> None:
    wrong = [
        (name, imported)
        for name, path in CORE_MODULES.items()
        for imported in imports(path)
        if imported.partition(".")[0].startswith("langchain") and name != MEASURED
    ]
    assert not wrong


def test_nothing_imports_sbert_ray_and_only_it_knows_ray() -> None:
    """Arrow is known besides to the reader of training data alone."""
    reader = "sbert_retriever.training.readers.rows"
    wrong = [
        (name, imported)
        for name, path in {**CORE_MODULES, **LANGCHAIN_MODULES}.items()
        for imported in imports(path)
        if imported.partition(".")[0] in {"sbert_ray", "ray", "pyarrow"}
        and not (name == reader and imported.startswith("pyarrow"))
    ]
    assert not wrong


def test_the_integrations_leave_the_command_line_and_each_other_alone() -> None:
    wrong = [
        (name, imported)
        for name, path in INTEGRATIONS.items()
        for imported in imports(path)
        if room(imported) == "cli"
        or (imported.startswith("langchain") and not name.startswith("langchain"))
    ]
    assert not wrong


def test_the_embedded_engine_is_known_to_its_own_room_alone() -> None:
    users = {
        name
        for name, path in {**CORE_MODULES, **INTEGRATIONS}.items()
        for imported in imports(path)
        if imported.partition(".")[0] == "qdrant_edge"
    }
    # Its BM25 is a function of text, which needs no collection.
    allowed = (
        "sbert_retriever.index.edge",
        "sbert_retriever.index.embedded",
        "sbert_retriever.sparse.bm25",
    )
    assert users
    assert all(name.startswith(allowed) for name in users)


def test_no_file_imports_sentence_transformers() -> None:
    """It is what the tests compare with, never what the package runs on."""
    every = {**CORE_MODULES, **INTEGRATIONS}
    for path in (path for name, path in every.items() if name != MEASURED):
        assert not [i for i in imports(path) if i.startswith("sentence_transformers")], path


def test_types_and_errors_need_only_the_standard_library(clean) -> None:
    loaded = clean.python(
        "import sys; import sbert_retriever.types, sbert_retriever.errors;"
        "print(*{name.partition('.')[0] for name in sys.modules} - sys.stdlib_module_names)"
    )
    started = clean.python(
        "import sys;"
        "print(*{name.partition('.')[0] for name in sys.modules} - sys.stdlib_module_names)"
    )
    assert set(loaded.split()) - set(started.split()) == {"sbert_retriever"}


HEAVY = [
    "torch",
    "transformers",
    "qdrant_client",
    "qdrant_edge",
    "langchain_core",
    "numpy",
    "ray",
    "pyarrow",
    "pandas",
]
LOADED = f"import json, sys; print(json.dumps([m for m in {HEAVY} if m in sys.modules]))"


@pytest.mark.parametrize(
    "package", ["sbert_retriever", "langchain_sbert", "sbert_ray", "sbert_retriever.cli"]
)
def test_importing_a_package_loads_nothing_heavy(clean, package: str) -> None:
    assert json.loads(clean.python(f"import {package}\ndir({package})\n{LOADED}")) == []


QUERY = """
from sbert_retriever import Passage, Retriever
{setup}
with Retriever.open(":memory:", model={model}) as retriever:
    retriever.index([Passage("cat", "Cats purr."), Passage("train", "Trains run on rails.")])
    assert retriever.search("Cats purr.", k=1)[0].id == "cat"
"""


@pytest.mark.parametrize(
    ("setup", "model", "absent"),
    [
        (
            "from sbert_retriever.testing import HashEncoder",
            "HashEncoder(dim=64)",
            ["torch", "transformers", "langchain_core"],
        ),
        ("", "'all-MiniLM-L6-v2'", ["langchain_core", "sentence_transformers"]),
    ],
)
def test_a_query_loads_no_more_than_it_needs(clean, setup, model, absent) -> None:
    """An encoder of the caller's own needs no torch, and nothing in the core needs LangChain."""
    code = QUERY.format(setup=setup, model=model)
    printed = clean.python(
        f"{code}\nimport json, sys; print(json.dumps([m for m in {absent} if m in sys.modules]))"
    )
    assert json.loads(printed) == []
