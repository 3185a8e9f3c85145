"""Files to passages: discovery, readers, chunking.

Light to import: what reads pdf, html and docx is loaded when the first such file is met.
"""

from __future__ import annotations

from sbert_retriever.ingest.chunking import chunk
from sbert_retriever.ingest.discover import SUFFIXES, find_files
from sbert_retriever.ingest.read import read_passages
from sbert_retriever.ingest.readers import read_file
from sbert_retriever.ingest.records import read_records
from sbert_retriever.ingest.source_text import Section, SourceText

__all__ = [
    "read_passages",
    "find_files",
    "read_file",
    "read_records",
    "chunk",
    "SourceText",
    "Section",
    "SUFFIXES",
]
