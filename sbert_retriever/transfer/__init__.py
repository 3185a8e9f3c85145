"""Whole collections from one place, or one model, to another."""

from sbert_retriever.transfer.copying import CopyReport, copy_collection
from sbert_retriever.transfer.importing import import_file, import_lines
from sbert_retriever.transfer.rebuilding import rebuild
from sbert_retriever.transfer.snapshots import SnapshotReport, restore, snapshot
from sbert_retriever.transfer.switching import drop_collection, switch_collection

__all__ = [
    "CopyReport",
    "SnapshotReport",
    "copy_collection",
    "drop_collection",
    "import_file",
    "import_lines",
    "rebuild",
    "restore",
    "snapshot",
    "switch_collection",
]
