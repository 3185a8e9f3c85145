"""Look a collection over: one finding a question, each with the way out."""

from __future__ import annotations

import os
from os import PathLike

from sbert_retriever.doctor.collection import (
    look_at_contract,
    look_at_engine,
    look_at_index,
    open_collection,
)
from sbert_retriever.doctor.machine import look_at_machine, look_at_versions
from sbert_retriever.doctor.model import look_at_model
from sbert_retriever.doctor.passages import look_at_passages
from sbert_retriever.doctor.visit import Check, Status, Visit

__all__ = ["Check", "Status", "examine"]


def examine(
    location: str | PathLike[str],
    *,
    model: str | PathLike[str] | None = None,
    collection_name: str = "default",
    device: str = "auto",
    dtype: str = "auto",
    api_key: str | None = None,
) -> list[Check]:
    """Look a collection over, from its files to a timed search. Changes nothing.

    Args:
        location: A folder or a URL.
        model: What it will be used with; None is the collection's own.
        collection_name: Which collection there.
        device: Where the model is to run.
        dtype: In which floating type.
        api_key: For a URL; None reads QDRANT_API_KEY.

    Returns:
        One check a question, in the order of looking. What keeps a collection from being opened
        is a problem among them, and not raised.

    Raises:
        InputError: The location has no known form.
    """
    visit = Visit(os.fspath(location), collection_name, model, device, dtype, api_key)
    look_at_versions(visit)
    look_at_machine(visit)
    retriever = open_collection(visit)
    if retriever is not None:
        with retriever:
            facts = retriever.info()
            look_at_engine(visit, retriever)
            look_at_contract(visit, facts)
            look_at_index(visit, facts)
            sample = look_at_passages(visit, retriever, facts)
            look_at_model(visit, facts, sample)
    return visit.checks
