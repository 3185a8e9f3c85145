"""`sbert-retriever export`, `import` and `rebuild`."""

from __future__ import annotations
from sbert_retriever.cli import options


def export(location: options.Location) -> None:
    """x"""


def import_(location: options.Location) -> None:
    """x"""


def rebuild(location: options.Location) -> None:
    """x"""
