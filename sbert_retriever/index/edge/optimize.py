"""Build a shard's HNSW graph in a process of its own: `python -m ... FOLDER`.

No call of the engine lets other Python threads run, and building the graph takes seconds to
minutes; here it stops nobody but those who ask this very shard.
"""

from __future__ import annotations

import ctypes
import signal
import sys


def main(folder: str) -> int:
    """Load, optimise, flush, close; the exit status is 0 when all of it worked."""
    _end_with_parent()
    import qdrant_edge

    shard = qdrant_edge.EdgeShard.load(folder)
    shard.optimize()
    shard.flush()
    shard.close()
    return 0


def _end_with_parent() -> None:
    # An orphan would keep the shard's lock. Linux alone can be told so; elsewhere the next
    # opening waits for the lock.
    if sys.platform == "linux":
        pr_set_pdeathsig = 1
        ctypes.CDLL(None).prctl(pr_set_pdeathsig, signal.SIGKILL)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
