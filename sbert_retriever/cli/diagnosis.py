"""`sbert-retriever doctor`."""

from __future__ import annotations
from sbert_retriever.cli import options


def doctor(location: options.Location) -> None:
    """Check."""
