"""Every file in examples/ runs, offline, in an empty folder, and says something."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

EXAMPLES = sorted((Path(__file__).parents[2] / "examples").glob("*.py"))
OPTIONS = {"python_docs.py": ["--to", "demo-index", "--limit", "12"]}
# A few words of what a reader must find in the output.
SAYS = {
    "search.py": ["cat"],
    "index_folder.py": ["3 added", "1 failed", "Handbook > Illness"],
    "filters.py": ["{'lang': 'en'}  (3 match)", "{'lang': []}  (0 match)"],
    "incremental_sync.py": ["3 added", "1 added, 1 updated, 1 unchanged, 1 deleted", "is nan"],
    "embedded_to_server.py": ["3 added", "embedded: 3 passages"],
    "python_docs.py": ["passages encoded in", "are in demo-index.", "Ask more:"],
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
    assert "passages encoded in" in first
    assert "Nothing to encode: all " in second
    answers = [printed.partition("\n> ")[2] for printed in (first, second)]
    assert answers[0] == answers[1]


def test_the_demo_reads_documentation_and_imports_none_of_it(clean, root: Path) -> None:
    """Importing every module of the standard library would open a browser, among other things."""
    code = (
        f"import json, sys; sys.path.insert(0, {str(root / 'examples')!r})\n"
        "import python_docs as demo\n"
        "before = set(sys.modules)\n"
        "files = [p for p in sorted(demo.STDLIB.rglob('*.py')) if demo.is_wanted(p)]\n"
        "texts = list(demo.all_texts(files, on_file=lambda: None))\n"
        "kinds = {kind: sum(t.metadata['kind'] == kind for t in texts)"
        " for kind in ('topic', 'module', 'class', 'function', 'method')}\n"
        "print(json.dumps(kinds))\n"
        "print(*sorted(set(sys.modules) - before))\n"
    )
    kinds, imported = clean.python(code).splitlines()
    counts = json.loads(kinds)
    assert counts["topic"] > 50
    assert sum(counts.values()) > 5_000
    assert min(counts.values()) > 50
    # Reading with ast and codecs loads a few; the library has hundreds.
    assert len(imported.split()) < 20
    assert "antigravity" not in imported.split()
