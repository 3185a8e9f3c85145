"""Every file in examples/ runs, offline, in an empty folder, and says something."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

EXAMPLES = sorted((Path(__file__).parents[2] / "examples").glob("*.py"))
OPTIONS = {"python_docs.py": ["--to", "demo-index", "--limit", "12"]}
# A few words of what a reader must find in the output.
SAYS = {
    "search.py": ["cat"],
    "index_folder.py": ["2 added", "1 failed", "Handbook > Illness"],
    "filters.py": ["{'lang': 'en'}  (3 match)", "{'lang': []}  (0 match)"],
    "incremental_sync.py": ["3 added", "1 added, 1 updated, 1 unchanged, 1 deleted", "is nan"],
    "embedded_to_server.py": ["3 added", "embedded: 3 passages"],
    "python_docs.py": ["passages went into demo-index", "Ask more:"],
}


def test_there_are_examples() -> None:
    assert set(SAYS) <= {path.name for path in EXAMPLES}


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_example(clean, path: Path) -> None:
    done = clean.run([sys.executable, "-W", "error", str(path), *OPTIONS.get(path.name, [])])
    assert done.stdout.strip()
    assert "Traceback" not in done.stderr
    for words in SAYS.get(path.name, []):
        assert words in done.stdout
    left = {p.name for p in clean.folder.iterdir()}
    assert left <= {"demo-index"}, "an example leaves nothing behind that it does not name"


def test_the_demo_encodes_nothing_the_second_time(clean, root: Path) -> None:
    command = [sys.executable, str(root / "examples" / "python_docs.py"), "--limit", "5"]
    first, second = clean.run(command).stdout, clean.run(command).stdout
    assert "passages went into demo-index" in first
    assert second.startswith("Nothing to encode: all ")
    assert first.partition("\n")[2] == second.partition("\n")[2], "the answers are the same"


def test_the_demo_reads_documentation_and_imports_none_of_it(clean, root: Path) -> None:
    """Importing every module of the standard library would open a browser, among other things."""
    code = (
        f"import sys; sys.path.insert(0, {str(root / 'examples')!r})\n"
        "import python_docs as demo\n"
        "before = set(sys.modules)\n"
        "files = [p for p in sorted(demo.STDLIB.rglob('*.py')) if demo.is_wanted(p)]\n"
        "texts = list(demo.all_texts(files, on_file=lambda: None))\n"
        "kinds = {kind: sum(t.metadata['kind'] == kind for t in texts)"
        " for kind in ('topic', 'module', 'class', 'function', 'method')}\n"
        "print(kinds)\n"
        "print(sorted(set(sys.modules) - before))\n"
    )
    kinds, imported = clean.python(code).splitlines()
    counts = dict(pair for pair in eval(kinds).items())  # what was just printed
    assert counts["topic"] > 50
    assert sum(counts.values()) > 5_000
    assert min(counts.values()) > 50
    assert "antigravity" not in imported
    assert len(eval(imported)) < 20  # what was just printed
