"""The command line: parse, call, print. Torch and Qdrant are imported inside the commands."""

from __future__ import annotations

from sbert_retriever.cli.entry import main

__all__ = ["main"]
