"""Every file in examples/ runs, offline, in an empty folder, and says something."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
# The demo has tests of its own below; the examples for LangChain are run beside its tests.
DEMO = "python_docs.py"
ELSEWHERE = {
    name
    for name in ("rag_chain.py", "from_langchain_qdrant.py")
    if f'"{name}"' in (ROOT / "tests/langchain/test_examples.py").read_text(encoding="utf-8")
}
RUN_HERE = [path for path in EXAMPLES if path.name not in {DEMO, *ELSEWHERE}]
# A few words of what a reader must find in the output.
SAYS = {
    "search.py": ["cat"],
    "index_folder.py": ["3 added", "1 failed", "Handbook > Illness"],
    "filters.py": ["{'lang': 'en'}  (3 match)", "{'lang': []}  (0 match)"],
    "incremental_sync.py": ["3 added", "1 added, 1 updated, 1 unchanged, 1 deleted", "is nan"],
    "faq_chat.py": ["questions.md: 12 entries", "No. Everything runs on a CPU", "I don't know."],
    "embedded_to_server.py": ["3 added", "embedded: 3 passages"],
}


def test_there_are_examples() -> None:
    assert set(SAYS) | {DEMO} <= {path.name for path in EXAMPLES}


@pytest.mark.parametrize("path", RUN_HERE, ids=lambda path: path.name)
def test_example(clean, path: Path) -> None:
    done = clean.run([sys.executable, "-W", "error", str(path)])
    assert done.stdout.strip()
    assert "Traceback" not in done.stderr
    for words in SAYS.get(path.name, []):
        assert words in done.stdout
    assert not list(clean.folder.iterdir()), "an example leaves nothing behind"


def test_the_chat_ends_where_its_input_does(clean, root: Path) -> None:
    """Ctrl-D ended it with a traceback."""
    code = (
        f"import io, sys; sys.path.insert(0, {str(root / 'examples')!r})\n"
        "import faq_chat\n"
        "sys.stdin = io.StringIO('When?\\n')\n"
        "print(list(faq_chat.typed()))\n"
    )
    assert "['When?']" in clean.python(code)


def test_the_demo_encodes_nothing_the_second_time(clean, root: Path) -> None:
    demo = [sys.executable, "-W", "error", str(root / "examples" / DEMO)]
    first = clean.run([*demo, "--to", "here", "--limit", "12"])
    second = clean.run([*demo, "--to", "here", "--limit", "12"])
    assert "passages encoded in" in first.stdout
    assert "Nothing to encode: all " in second.stdout
    answers = [
        re.sub(r"\d+ ms", "MS", done.stdout.partition("\n> ")[2]) for done in (first, second)
    ]
    assert answers[0] == answers[1]
    assert answers[0].count("\n> ") == 7
    assert "Without it, MS:" in answers[0]
    assert "With it over the first 12, MS:" in answers[0] or "first 20, MS:" in answers[0]
    assert "docs/tradeoff.md" in answers[0]
    assert "query here " in answers[0].partition("Ask more:")[2]
    assert "Encoding and indexing" in first.stderr
    assert [p.name for p in clean.folder.iterdir()] == ["here"]


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
