"""Every command and every snippet of the documentation runs, and every link leads somewhere."""

from __future__ import annotations

import json
import re
import sys
import tomllib
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
RUN = {"python", "bash"}
# Output, and sessions that are shown with a "$" before what is typed.
SHOWN = {"text", "console"}

_FENCE = re.compile(r"^```(\S*)\s*$")
_NOT_RUN = re.compile(r"<!-- not run: (.+) -->")
_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")


@dataclass(frozen=True)
class Block:
    """A fenced block: its language, its text, its first line's number, why it is not run."""

    page: str
    language: str
    code: str
    line: int
    reason: str | None


def blocks(page: Path) -> Iterator[Block]:
    """The fenced blocks of a page, in order."""
    name = page.relative_to(ROOT).as_posix()
    language, code, start, reason, before = "", [], 0, None, ""
    inside = False
    for number, line in enumerate(page.read_text(encoding="utf-8").split("\n"), start=1):
        fence = _FENCE.match(line)
        if inside and fence:
            yield Block(name, language, "\n".join(code), start, reason)
            inside, before = False, ""
        elif inside:
            code.append(line)
        elif fence:
            mark = _NOT_RUN.fullmatch(before.strip())
            inside, language, code, start = True, fence[1], [], number + 1
            reason = mark[1] if mark else None
        elif line.strip():
            before = line
    assert not inside, f"{name}, line {start}: the block is not closed"


def links(page: Path) -> Iterator[str]:
    """The targets of a page's links to other files of the project."""
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.S | re.M)
    for target in _LINK.findall(text):
        if "://" not in target and not target.startswith("#"):
            yield target.partition("#")[0]


# Runs the blocks of one page in order, in one process: the Python ones share their names.
DRIVER = """
import json, pathlib, subprocess, sys
names = {"__name__": "__main__"}
for block in json.loads(pathlib.Path(sys.argv[1]).read_text(encoding="utf-8")):
    place = f"{block['page']}:{block['line']}"
    print(f"--- {place}", flush=True)
    if block["language"] == "bash":
        subprocess.run(["bash", "-euo", "pipefail", "-c", block["code"]], check=True)
    else:
        lines = "\\n" * (block["line"] - 1) + block["code"]
        exec(compile(lines, block["page"], "exec"), names)
"""


BLOCKS = {page: list(blocks(page)) for page in PAGES}
ALL = [block for found in BLOCKS.values() for block in found]


def run_blocks(page: Path) -> list:
    return [b for b in BLOCKS[page] if b.language in RUN and b.reason is None]


def name(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


@pytest.mark.parametrize("page", [p for p in BLOCKS if run_blocks(p)], ids=name)
def test_the_blocks_of_a_page_run_in_order(clean, page: Path, tmp_path_factory) -> None:
    listed = tmp_path_factory.mktemp("blocks") / "blocks.json"
    listed.write_text(json.dumps([asdict(b) for b in run_blocks(page)]), encoding="utf-8")
    clean.run([sys.executable, "-W", "error", "-c", DRIVER, str(listed)])


def test_every_block_has_a_language_that_says_whether_it_is_run() -> None:
    known = RUN | SHOWN
    assert [(b.page, b.line) for b in ALL if b.language not in known] == []


def test_what_is_not_run_is_known_with_its_reason(capsys) -> None:
    """A block that nobody runs may have stopped being true: there are few, and each says why."""
    left = [b for b in ALL if b.reason or b.language == "console"]
    with capsys.disabled():
        for block in left:
            print(f"\nnot run: {block.page}:{block.line} ({block.reason or 'shown only'})", end="")
    assert Counter(b.reason or "shown only" for b in left) == {
        "installs": 7,
        "it would serve until it is stopped": 1,
        "needs labelled questions of your own": 2,
        "it would run the tests inside the tests": 1,
        "needs Docker": 2,
        "needs a Qdrant server": 6,
        "takes minutes": 3,
        # tests/ray/test_page.py runs it, where heavy tests are run.
        "starts Ray": 1,
        "no package brings a ColBERT model": 1,
        "shown only": 2,
    }


def test_blocks_that_only_print_are_not_marked() -> None:
    assert [b for b in ALL if b.reason and b.language not in RUN] == []


@pytest.mark.parametrize("page", BLOCKS, ids=name)
def test_links_to_files_lead_somewhere(page: Path) -> None:
    missing = [target for target in links(page) if not (page.parent / target).exists()]
    assert missing == []


def test_every_page_is_reached_from_the_first() -> None:
    found, ahead = set(), [ROOT / "README.md"]
    while ahead:
        page = ahead.pop()
        if page in found:
            continue
        found.add(page)
        for target in links(page):
            there = (page.parent / target).resolve()
            ahead.extend(sorted(there.glob("*.md")) if there.is_dir() else [])
            ahead.extend([there] if there.suffix == ".md" else [])
    assert set(BLOCKS) - found == set()


def test_the_extras_that_the_first_page_names_exist(root: Path) -> None:
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    readme = (root / "README.md").read_text(encoding="utf-8")
    rows = [line for line in readme.splitlines() if line.startswith("| `")]
    named = {row.split("`")[1] for row in rows}
    assert named == set(project["optional-dependencies"]) - {"dev"}


def test_the_targets_that_the_first_page_names_exist(root: Path) -> None:
    makefile = (root / "Makefile").read_text(encoding="utf-8")
    for target in ("demo", "test"):
        assert f"\n{target}: " in makefile
