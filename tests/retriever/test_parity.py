"""The same operations on every engine and on plain numpy: the same answers.

Two hundred operations are drawn by seed (hypothesis, derandomized). What they should give is
computed here from all vectors: cosines by a matrix product, BM25 from the term weights and the
document frequencies, fusion by its documented formula, filters by a Python predicate, groups by
walking down the whole ranking.

Where the engines honestly differ, and what the comparison therefore allows: passages with equal
scores come in any order; float32 sums differ in the last bits, so scores are compared within 1e-5;
the words of deleted passages count in BM25's document frequencies until the engine tidies up, which
the embedded one is told to do and a server does when it likes, so there the scores of BM25 are
compared only while nothing was deleted or replaced.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from sbert_retriever import Passage
from sbert_retriever.sparse.bm25 import Bm25
from sbert_retriever.testing import HashEncoder

DIM = 32
TOLERANCE = 1e-5
EXAMPLES, LENGTH = 8, 25  # 200 operations
WORDS = ["amber", "birch", "cedar", "delta", "ember", "fjord", "grove", "heath", "inlet", "jetty"]
ENCODER = HashEncoder(dim=DIM)
BM25 = Bm25()

texts = st.lists(st.sampled_from(WORDS), min_size=1, max_size=7).map(" ".join)
numbers = st.integers(0, 9)
ids = st.integers(0, 39).map("p{}".format)
kinds = st.sampled_from(["tree", "water", "land"])
sources = st.sampled_from(["a.md", "b.md", None])
passages = st.builds(
    lambda i, text, n, kind, source: Passage(i, text, {"n": n, "kind": kind}, source),
    ids,
    texts,
    numbers,
    kinds,
    sources,
)
filters = st.one_of(
    st.none(),
    st.builds(lambda kind: {"kind": kind}, kinds),
    st.builds(lambda n: {"n": {"gte": n}}, numbers),
    st.builds(lambda n, kind: {"or": [{"n": n}, {"not": {"kind": kind}}]}, numbers, kinds),
)
operations = st.one_of(
    st.tuples(st.just("index"), st.lists(passages, min_size=1, max_size=12)),
    st.tuples(st.just("prune"), st.lists(passages, min_size=1, max_size=6)),
    st.tuples(st.just("delete"), st.lists(ids, min_size=1, max_size=4)),
    st.tuples(st.just("delete where"), filters.filter(bool)),
    st.tuples(st.just("delete source"), sources.filter(bool)),
    st.tuples(st.just("read"), filters),
    st.tuples(
        st.sampled_from(["dense", "sparse", "hybrid", "grouped", "diverse"]),
        texts,
        st.integers(1, 12),
        filters,
    ),
)
FIRST = [
    (
        "index",
        [
            Passage(f"p{n}", " ".join(WORDS[n % 7 : n % 7 + 3]), {"n": n, "kind": "tree"}, "a.md")
            for n in range(10)
        ],
    )
]


def matches(spec, passage):
    """Whether a passage is one that a filter means."""
    if spec is None:
        return True
    data = passage.metadata
    if "or" in spec:
        return any(matches(part, passage) for part in spec["or"])
    if "not" in spec:
        return not matches(spec["not"], passage)
    if "kind" in spec:
        return data["kind"] == spec["kind"]
    wanted = spec["n"]
    return data["n"] >= wanted["gte"] if isinstance(wanted, dict) else data["n"] == wanted


class Truth:
    """What a collection should hold and answer."""

    def __init__(self):
        self.held = {}
        self.stale = False

    def index(self, batch):
        """The first of those with one id in a batch is kept, as `index` has it."""
        seen = set()
        for passage in batch:
            if passage.id not in seen:
                seen.add(passage.id)
                self.stale |= passage.id in self.held
                self.held[passage.id] = passage
        return seen

    def prune(self, batch):
        kept = self.index(batch)
        gone = {p.source for p in batch} - {None}
        self.drop(lambda p: p.source in gone and p.id not in kept)

    def drop(self, doomed):
        self.stale |= any(map(doomed, self.held.values()))
        self.held = {i: p for i, p in self.held.items() if not doomed(p)}

    def among(self, spec):
        return [p for p in self.held.values() if matches(spec, p)]

    def dense(self, text, spec):
        query = ENCODER.encode_queries([text])[0].astype(np.float64)
        chosen = self.among(spec)
        rows = ENCODER.encode_passages([p.text for p in chosen]).astype(np.float64)
        return dict(zip((p.id for p in chosen), (rows @ query).tolist(), strict=True))

    def sparse(self, text, spec):
        """Sums of term weight times ln(1 + (N - n + 0.5) / (n + 0.5)), over all N passages."""
        terms = set(BM25.encode_queries([text])[0].indices)
        vectors = {
            p.id: dict(zip(v.indices, v.values, strict=True))
            for p, v in zip(
                self.held.values(),
                BM25.encode_passages([p.text for p in self.held.values()]),
                strict=True,
            )
        }
        total = len(vectors)
        found = {}
        for passage in self.among(spec):
            weights = vectors[passage.id]
            if common := terms & set(weights):
                counts = {t: sum(t in v for v in vectors.values()) for t in common}
                found[passage.id] = sum(
                    weights[t] * math.log(1 + (total - counts[t] + 0.5) / (counts[t] + 0.5))
                    for t in common
                )
        return found

    def hybrid(self, text, spec):
        """The cosine and 0.15 of the share of the best BM25 score: no name is in the question."""
        scores, words = self.dense(text, spec), self.sparse(text, spec)
        best = max(words.values(), default=1.0)
        return {i: score + 0.15 * words.get(i, 0.0) / best for i, score in scores.items()}


def check_ranking(hits, expected, k):
    """The k best, each with its own score, in falling order; ties as they come."""
    found = [hit.id for hit in hits]
    assert len(set(found)) == len(found)
    for hit in hits:
        assert hit.score == pytest.approx(expected[hit.id], abs=TOLERANCE)
    best = sorted(expected.values(), reverse=True)[:k]
    assert [hit.score for hit in hits] == pytest.approx(best, abs=TOLERANCE)


def check_groups(hits, scores, groups, k):
    """The best passage of each group, groups by their best; no source is a group of its own."""
    best = {}
    for i, score in scores.items():
        group = groups[i] or i
        best[group] = max(best.get(group, -2.0), score)
    found = [groups[hit.id] or hit.id for hit in hits]
    assert len(set(found)) == len(found)
    assert [hit.score for hit in hits] == pytest.approx(
        sorted(best.values(), reverse=True)[:k], abs=TOLERANCE
    )


def check_diverse(hits, scores, vectors, k):
    """Each choice has the greatest margin of nearness over likeness to those before it."""
    chosen = []
    for hit in hits:
        margins = {
            i: 0.5 * scores[i]
            - 0.5 * max((float(vectors[i] @ vectors[j]) for j in chosen), default=0.0)
            for i in scores
            if i not in chosen
        }
        assert margins[hit.id] == pytest.approx(max(margins.values()), abs=TOLERANCE)
        chosen.append(hit.id)
    assert len(chosen) == min(k, len(scores))


def perform(retriever, truth, operation):
    """One operation on both sides; what it answers is compared at once."""
    kind, *given_ = operation
    if kind in ("index", "prune"):
        retriever.index(given_[0], prune=kind == "prune")
        (truth.prune if kind == "prune" else truth.index)(given_[0])
    elif kind == "delete":
        there = set(given_[0]) & set(truth.held)
        assert retriever.delete(given_[0]) == len(there)
        truth.drop(lambda p: p.id in there)
    elif kind == "delete where":
        assert retriever.delete(filter=given_[0]) == len(truth.among(given_[0]))
        truth.drop(lambda p: matches(given_[0], p))
    elif kind == "delete source":
        count = sum(p.source == given_[0] for p in truth.held.values())
        assert retriever.delete(source=given_[0]) == count
        truth.drop(lambda p: p.source == given_[0])
    elif kind == "read":
        chosen = truth.among(given_[0])
        assert retriever.count(given_[0]) == len(chosen)
        page, following = retriever.scroll(filter=given_[0], limit=100)
        assert following is None
        assert {p.id: p for p in page} == {p.id: p for p in chosen}
        assert {p.id for p in retriever.get(sorted(truth.held))} == set(truth.held)
    else:
        ask(retriever, truth, kind, *given_)


def ask(retriever, truth, kind, text, k, spec):
    dense = truth.dense(text, spec)
    if kind == "grouped":
        hits = retriever.search(text, k, filter=spec, mode="dense", group_by="source")
        check_groups(hits, dense, {i: truth.held[i].source for i in dense}, k)
    elif kind == "diverse":
        hits = retriever.search(text, k, filter=spec, mode="dense", diversity=0.5)
        rows = {i: ENCODER.encode_passages([truth.held[i].text])[0] for i in dense}
        check_diverse(hits, dense, rows, k)
    else:
        if kind != "dense" and truth.stale:
            if retriever.info().engine == "server":
                return
            retriever.optimize()
            truth.stale = False
        expected = {"dense": dense, "sparse": truth.sparse(text, spec)}.get(kind)
        expected = truth.hybrid(text, spec) if expected is None else expected
        check_ranking(retriever.search(text, k, filter=spec, mode=kind), expected, k)


@pytest.mark.filterwarnings("ignore::sbert_retriever.errors.UnknownFieldWarning")
def test_two_hundred_operations_answer_as_numpy_does(lasting_engine):
    retriever = lasting_engine.open(model=ENCODER, sparse="bm25")
    performed = []

    @settings(
        max_examples=EXAMPLES,
        derandomize=True,
        deadline=None,
        database=None,
        phases=[Phase.generate],  # to shrink a failure would take minutes
        suppress_health_check=list(HealthCheck),
    )
    @given(st.lists(operations, min_size=LENGTH, max_size=LENGTH))
    def run(drawn):
        retriever.delete_all()
        truth = Truth()
        truth.stale = bool(performed)
        for operation in [*FIRST, *drawn]:
            perform(retriever, truth, operation)
            performed.append(operation[0])
        assert retriever.count() == len(truth.held)

    run()
    assert len(performed) >= EXAMPLES * LENGTH
    assert {"index", "prune", "delete", "dense", "sparse", "hybrid", "grouped", "diverse"} <= set(
        performed
    )
