"""Files of training data to examples; every error names the file and the line."""

from __future__ import annotations

from sbert_retriever.training.readers.examples import Example, read_examples
from sbert_retriever.training.readers.rows import Row, read_rows

__all__ = ["Example", "Row", "read_examples", "read_rows"]
