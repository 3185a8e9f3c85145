"""The name and the version that a service gives of itself."""

from __future__ import annotations

from sbert_retriever import __version__

NAME = "sbert-retriever"
VERSION = __version__
