from __future__ import annotations

from pathlib import Path

import typer

from sbert_retriever.cli.app import app
from sbert_retriever.cli.help_page import help_page

PAGE = Path(__file__).parents[2] / "docs" / "cli.md"


def test_the_page_is_what_the_commands_say() -> None:
    """Written anew with `python -m sbert_retriever.cli.help_page > docs/cli.md`."""
    assert PAGE.read_text(encoding="utf-8") == help_page()


def test_every_option_has_a_help_text() -> None:
    for command in typer.main.get_command(app).commands.values():  # type: ignore[attr-defined]
        assert command.help
        assert [p.name for p in command.params if not getattr(p, "help", "")] == []
