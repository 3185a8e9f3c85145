"""The wheel, built from what is committed: all modules, nothing else, and it works from there."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from sbert_retriever import __version__

PACKAGES = {"sbert_retriever", "langchain_sbert", "sbert_ray"}


@pytest.fixture(scope="module")
def committed(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files of the last commit, and no others."""
    folder = tmp_path_factory.mktemp("committed")
    archive = folder / "archive.zip"
    command = ["git", "archive", "--format=zip", f"--output={archive}", "HEAD"]
    subprocess.run(command, cwd=root, check=True)
    with zipfile.ZipFile(archive) as files:
        files.extractall(folder / "tree")
    return folder / "tree"


@pytest.fixture(scope="module")
def wheel(committed: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built without a network: with the build tools of this environment."""
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder)]
    done = subprocess.run(
        command, cwd=committed, capture_output=True, encoding="utf-8", check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that holds the wheel's contents, installed by pip, and nothing beside."""
    folder = tmp_path_factory.mktemp("installed")
    options = ["--no-deps", "--no-index", "--no-compile", "--disable-pip-version-check", "--quiet"]
    command = [
        sys.executable,
        "-m",
        "pip",
        "install",
        *options,
        "--target",
        str(folder),
        str(wheel),
    ]
    done = subprocess.run(command, capture_output=True, encoding="utf-8", check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


KERNEL = "sbert_retriever/encoder/native/bert_int8.cpp"


def sources(tree: Path) -> set[str]:
    """The Python files of all packages, as paths inside a wheel."""
    integrations = tree / "integrations"
    roots = {
        package: tree if package == "sbert_retriever" else integrations for package in PACKAGES
    }
    return {
        path.relative_to(root).as_posix()
        for package, root in roots.items()
        for path in (root / package).rglob("*.py")
    }


def test_the_wheel_holds_every_module_and_nothing_else(committed: Path, wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as files:
        names = {name for name in files.namelist() if not name.endswith("/")}
    information = f"sbert_retriever-{__version__}.dist-info/"
    held = {name for name in names if not name.startswith(information)}
    page = {
        f"sbert_retriever/serve/static/{path.name}"
        for path in (committed / "sbert_retriever/serve/static").iterdir()
    }
    assert {path.rpartition("/")[2] for path in page} >= {"index.html", "main.js", "style.css"}
    typed = {f"{package}/py.typed" for package in PACKAGES}
    assert held == sources(committed) | typed | page | {KERNEL}
    assert f"{information}licenses/LICENSE" in names


def test_all_packages_are_marked_as_typed(installed: Path) -> None:
    assert {path.parent.name for path in installed.rglob("py.typed")} == PACKAGES


def test_the_command_is_an_entry_point(installed: Path) -> None:
    (entries,) = installed.glob("*.dist-info/entry_points.txt")
    lines = entries.read_text(encoding="utf-8").split("\n")
    assert "sbert-retriever = sbert_retriever.cli:main" in lines


IMPORT_ALL = """
import importlib, pathlib, sys
root = pathlib.Path(sys.argv[1])
names = []
for package in ("sbert_retriever", "langchain_sbert", "sbert_ray"):
    for path in sorted((root / package).rglob("*.py")):
        name = ".".join(path.relative_to(root).with_suffix("").parts).removesuffix(".__init__")
        if not name.endswith("__main__"):
            module = importlib.import_module(name)
            assert pathlib.Path(module.__file__).is_relative_to(root), module.__file__
            names.append(name)
print(len(names))
"""


def test_every_module_can_be_imported_from_the_installed_wheel(
    installed: Path, committed: Path, clean
) -> None:
    done = clean.run([sys.executable, "-c", IMPORT_ALL, str(installed)], PYTHONPATH=str(installed))
    mains = sum(name.endswith("__main__.py") for name in sources(committed))
    assert int(done.stdout) == len(sources(committed)) - mains


def test_the_installed_command_says_its_version(installed: Path, clean) -> None:
    done = clean.run(
        [sys.executable, "-m", "sbert_retriever", "--version"], PYTHONPATH=str(installed)
    )
    assert done.stdout.split() == ["sbert-retriever", __version__]
