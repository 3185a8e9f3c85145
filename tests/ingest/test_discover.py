from __future__ import annotations

import os
from pathlib import Path

import pytest

from sbert_retriever.errors import InputError, InputTypeError
from sbert_retriever.ingest import find_files


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    for name in (
        "b.md",
        "a.txt",
        "sub/c.rst",
        "sub/deep/D.TXT",
        "sub/.hidden/e.md",
        ".f.md",
        "g.png",
        "h",
    ):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
    return tmp_path


def found(paths: list, root: Path, **options) -> list[str]:
    return [path.relative_to(root).as_posix() for path in find_files(paths, **options)]


def test_a_folder_is_walked_in_order_without_hidden_and_unknown_files(tree):
    skipped = []
    files = found([tree], tree, on_skip=lambda path, why: skipped.append((path.name, why)))
    assert files == ["a.txt", "b.md", "sub/c.rst", "sub/deep/D.TXT"]
    assert skipped == [("g.png", "suffix"), ("h", "suffix")]


def test_which_files_are_wanted_may_be_said(tree):
    assert found([tree], tree, suffixes={".png"}) == ["g.png"]
    with pytest.raises(InputError, match=r"a\.txt: the suffixes read are \.png"):
        found([tree / "a.txt"], tree, suffixes={".png"})


def test_hidden_files_are_read_when_named_themselves(tree):
    assert found([tree / ".f.md"], tree) == [".f.md"]
    assert found([tree / "sub/.hidden"], tree) == ["sub/.hidden/e.md"]


def test_a_file_reached_twice_comes_once(tree):
    (tree / "z.md").symlink_to(tree / "b.md")
    assert found([tree / "b.md", tree, str(tree / "*.md")], tree) == [
        "b.md",
        "a.txt",
        "sub/c.rst",
        "sub/deep/D.TXT",
    ]


def test_loops_of_symbolic_links_end(tree):
    """A folder that links to itself and to its parent is walked once."""
    (tree / "sub/loop").symlink_to(tree, target_is_directory=True)
    (tree / "sub/self").symlink_to(tree / "sub", target_is_directory=True)
    (tree / "sub/round.md").symlink_to(tree / "sub/round.md")
    unreadable = []
    files = found([tree], tree, on_skip=lambda path, why: unreadable.append((path.name, why)))
    assert files == ["a.txt", "b.md", "sub/c.rst", "sub/deep/D.TXT"]
    assert ("round.md", "unreadable") in unreadable
    assert found([str(tree / "**/*.rst")], tree) == ["sub/c.rst"]


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("*.md", ["b.md"]),
        ("**/*.[rm]*", ["b.md", "sub/c.rst"]),
        (".*.md", [".f.md"]),
        ("su?", ["sub/c.rst", "sub/deep/D.TXT"]),
    ],
)
def test_globs(tree, pattern, expected):
    assert found([str(tree / pattern)], tree) == expected


def test_a_glob_may_be_relative(tree, monkeypatch):
    monkeypatch.chdir(tree)
    assert [p.as_posix() for p in find_files(["sub/*.rst", "./a.txt"])] == ["sub/c.rst", "a.txt"]


def test_a_name_with_brackets_that_exists_is_no_glob(tree):
    (tree / "a[1].txt").write_text("x")
    assert found([str(tree / "a[1].txt")], tree) == ["a[1].txt"]


def test_all_missing_paths_are_named_before_any_work(tree):
    with pytest.raises(InputError, match=r"nope\.md.*none/\*\.md"):
        find_files([tree, "nope.md", "none/*.md"])
    with pytest.raises(InputError, match="''"):
        find_files([""])


def test_an_unknown_suffix_named_itself_is_refused(tree):
    with pytest.raises(InputError, match=r"g\.png.*\.csv"):
        find_files([tree / "g.png"])


@pytest.mark.parametrize("paths", ["docs", b"docs", Path("docs"), [1], [b"docs"], [None]])
def test_what_is_no_list_of_paths_is_a_type_error(paths):
    with pytest.raises(InputTypeError):
        find_files(paths)


def test_a_pipe_is_passed_over_and_not_waited_for(tree):
    os.mkfifo(tree / "pipe.txt")
    skipped = []
    found([tree], tree, on_skip=lambda path, why: skipped.append((path.name, why)))
    assert ("pipe.txt", "unreadable") in skipped


@pytest.mark.parametrize(
    ("known", "reported"),
    [
        (True, [("sub", "unreadable")]),
        (False, [("c.rst", "unreadable"), ("deep", "suffix")]),  # a share that tells it late
    ],
)
def test_what_lies_in_a_folder_that_may_not_be_entered_is_reported(
    tree, monkeypatch, known, reported
):
    """Such a folder (chmod a-x) may still be listed; all else is found. Root may enter anything."""
    stat = Path.stat

    def refused(path, **options):
        if path.parent == tree / "sub":
            raise PermissionError(13, "Permission denied", str(path))
        return stat(path, **options)

    monkeypatch.setattr(Path, "stat", refused)
    monkeypatch.setattr(os, "access", lambda path, mode: not (known and path == tree / "sub"))
    skipped = []
    files = found([tree], tree, on_skip=lambda path, why: skipped.append((path.name, why)))
    assert files == ["a.txt", "b.md"]
    assert skipped == [("g.png", "suffix"), ("h", "suffix"), *reported]
