"""The passages: a look at some, whether they are whole."""

from __future__ import annotations

from typing import Any

import numpy as np

from sbert_retriever.doctor.visit import Sample, Visit
from sbert_retriever.index.points import RESERVED, stored_fingerprint
from sbert_retriever.index.steps import Steps, call
from sbert_retriever.index.vectors import faulty_rows
from sbert_retriever.retriever import Retriever
from sbert_retriever.types import RetrieverInfo

_LOOKED_AT = 200


def look_at_passages(visit: Visit, retriever: Retriever, facts: RetrieverInfo) -> Sample:
    """Whether the passages looked at are whole."""
    store = retriever.store
    empty = Sample([], np.empty((0, facts.dim), np.float32))
    if facts.count == 0:
        visit.add("passages", "warning", "there are none", "index something")
        return empty
    with visit.noting("passages", "delete that passage, or index its source again"):
        page, _ = store.connection.run(
            store.scroll(condition=None, limit=_LOOKED_AT, offset=None, vectors=True)
        )
        found = [(passage, vector) for passage, vector in page if vector is not None]
        sample = Sample([p for p, _ in found], np.array([v for _, v in found], dtype=np.float32))
        _soundness(visit, sample, facts, without=len(page) - len(found))
        _marks(visit, store.connection.run(_unmarked(store.collection_name)), len(page))
        return sample
    return empty


def _soundness(visit: Visit, sample: Sample, facts: RetrieverInfo, *, without: int) -> None:
    looked = len(sample.passages) + without
    vectors = sample.vectors.reshape(len(sample.passages), facts.dim)
    bad = faulty_rows(vectors, score_kind=facts.score_kind)
    names = ", ".join(repr(sample.passages[row].id[:60]) for row in list(bad)[:3])
    if bad or without:
        what = [f"{len(bad)} have NaN, infinity or only zeros ({names})"] if bad else []
        what += [f"{without} have none"] if without else []
        visit.add(
            "vectors",
            "problem",
            f"of {looked} looked at, {' and '.join(what)}: no search finds them",
            "delete them with `sbert-retriever delete --id ID`, and index their sources again",
        )
        return
    visit.add("vectors", "ok", f"{looked} looked at, all finite and not zero")


def _unmarked(collection_name: str) -> Steps[int]:
    """How many of the points looked at carry no hash to compare by."""
    records, _ = yield from _scrolled(collection_name)
    return sum(stored_fingerprint(record.payload) is None for record in records)


def _scrolled(collection_name: str) -> Steps[Any]:
    return (
        yield call(
            "scroll",
            collection_name=collection_name,
            limit=_LOOKED_AT,
            with_payload=[RESERVED],
            with_vectors=False,
        )
    )


def _marks(visit: Visit, unmarked: int, looked: int) -> None:
    if unmarked:
        visit.add(
            "passages",
            "warning",
            f"{unmarked} of {looked} looked at were not written by this program: indexing cannot "
            "tell whether they changed",
            "index their sources again",
        )
    else:
        visit.add("passages", "ok", f"{looked} looked at, all with text, id and hash")
