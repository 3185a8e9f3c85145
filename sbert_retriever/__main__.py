"""`python -m sbert_retriever`: the command line."""

from __future__ import annotations

import sys

from sbert_retriever.cli import main

if __name__ == "__main__":
    sys.exit(main())
