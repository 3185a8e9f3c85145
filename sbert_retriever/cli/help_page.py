"""The help of all commands as one page: `python -m sbert_retriever.cli.help_page`."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import typer

from sbert_retriever.cli.app import app

_WIDTH = 88
_TOP = """# The command line

Written by `python -m sbert_retriever.cli.help_page > docs/cli.md`; a test compares. How to use it
is in [indexing.md](indexing.md).

| exit code | meaning |
|---|---|
| 0 | success |
| 1 | a failed run; for `index` and `import` also one in which something could not go in |
| 2 | wrong use: an unknown option, a path that does not exist, a filter that means nothing |
| 130 | stopped by Ctrl-C; running the same command again goes on where it was |
| 141 | the reader of the output went away (`sbert-retriever query ... | head`) |

Results go to stdout, progress and messages to stderr. An error is one line that begins
`sbert-retriever:` and says what to do; `--debug`, anywhere on the line, adds the traceback.
"""


def help_page() -> str:
    """The page, in Markdown."""
    command: Any = typer.main.get_command(app)
    program = typer.Context(command, info_name="sbert-retriever", terminal_width=_WIDTH)
    parts = [_TOP, *_sections("sbert-retriever", command, program)]
    return "\n".join(parts)


def _sections(title: str, command: Any, context: typer.Context) -> Iterator[str]:
    """A command's help, and that of the commands in it."""
    yield _section(title, command, context)
    for name, sub in getattr(command, "commands", {}).items():
        inner = typer.Context(sub, info_name=name, parent=context, terminal_width=_WIDTH)
        yield from _sections(f"{title} {name}", sub, inner)


def _section(title: str, command: Any, context: typer.Context) -> str:
    text = "\n".join(line.rstrip() for line in command.get_help(context).splitlines())
    return f"## {title}\n\n```text\n{text.strip()}\n```\n"


if __name__ == "__main__":
    sys.stdout.write(help_page())
