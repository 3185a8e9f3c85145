"""Importing a package changes nothing in the process that does it."""

from __future__ import annotations

import json

import pytest

STATE = """
import json, logging, os, signal, sys, warnings
def state():
    loggers = {name: getattr(logger, "handlers", []) for name, logger
               in logging.Logger.manager.loggerDict.items()}
    ours = {n: (repr(h), logging.getLogger(n).level) for n, h in loggers.items()
            if n.startswith(("sbert_retriever", "langchain_sbert", "sbert_ray"))}
    return {
        "environment": dict(os.environ),
        "filters": repr(warnings.filters),
        "root handlers": repr(logging.root.handlers),
        "root level": logging.root.level,
        "own loggers": [n for n, (h, level) in ours.items() if h != "[]" or level],
        "showwarning": warnings.showwarning.__module__,
        "excepthook": sys.excepthook is sys.__excepthook__,
        "interrupt": repr(signal.getsignal(signal.SIGINT)),
        "folder": os.getcwd(),
        "path": sys.path,
    }
before = state()
"""
COMPARE = "after = state(); print(json.dumps([k for k in before if before[k] != after[k]]))"


@pytest.mark.parametrize(
    "package", ["sbert_retriever", "langchain_sbert", "sbert_ray", "sbert_retriever.cli"]
)
def test_importing_a_package_has_no_effects(clean, package: str) -> None:
    assert json.loads(clean.python(f"{STATE}\nimport {package}\n{COMPARE}")) == []


@pytest.mark.parametrize("package", ["sbert_retriever", "langchain_sbert", "sbert_ray"])
def test_loading_every_public_name_adds_no_handler_and_no_variable(clean, package: str) -> None:
    """What torch and its like do to warning filters is theirs."""
    changed = clean.python(
        f"{STATE}\nimport {package}\nfor name in {package}.__all__: getattr({package}, name)\n"
        f"{COMPARE}"
    )
    assert set(json.loads(changed)) <= {"filters"}


def test_importing_prints_nothing(clean) -> None:
    code = "import sbert_retriever, langchain_sbert, sbert_ray; sbert_retriever.Retriever"
    import sys

    done = clean.run([sys.executable, "-W", "error", "-c", code])
    assert (done.stdout, done.stderr) == ("", "")
