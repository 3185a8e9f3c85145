"""The same operations on every engine and on plain numpy: the same answers.

Two hundred operations are drawn by seed (hypothesis, derandomized). What they should give is
computed here from all vectors: cosines by a matrix product, BM25 from the term weights and the
document frequencies, fusion by its documented formula, filters by a Python predicate, groups by
walking down the whole ranking.

Where the engines honestly differ, and what the comparison therefore allows:

* Passages with equal scores come in any order, and any of them may have the last place.
* float32 sums differ in the last bits: scores are compared within 1e-5.
* Words of passages that were deleted or replaced count in BM25's document frequencies until the
  engine tidies up: the embedded one when it is told to, a server when it likes, the client's local
  mode at once. Searches by words that come in between are looked at loosely, and are asked again
  once the embedded engine has tidied up.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace
from itertools import groupby

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
LEAST = 0.2137  # a threshold that no cosine comes near
WORDS = ["amber", "birch", "cedar", "delta", "ember", "fjord", "grove", "heath", "inlet", "jetty"]
ENCODER = HashEncoder(dim=DIM)
BM25 = Bm25()


# --- what is drawn ------------------------------------------------------------------------------

texts = st.lists(st.sampled_from(WORDS), min_size=1, max_size=7).map(" ".join)
numbers = st.integers(0, 9)
ids = st.integers(0, 49).map("p{}".format)  # groups and diversity look at 50 candidates
kinds = st.sampled_from(["tree", "water", "land"])
sources = st.sampled_from(["a.md", "b.md"])
sizes = st.integers(1, 12)
metadata = st.fixed_dictionaries({"n": numbers, "kind": kinds})
passages = st.builds(Passage, ids, texts, metadata, st.none() | sources)
conditions = st.one_of(
    st.builds(lambda kind: {"kind": kind}, kinds),
    st.builds(lambda n: {"n": {"gte": n}}, numbers),
    st.builds(lambda n, kind: {"or": [{"n": n}, {"not": {"kind": kind}}]}, numbers, kinds),
    st.builds(lambda source: {"_sbert.source": source}, sources),
)
filters = st.none() | conditions


def batches(largest):
    return st.lists(passages, min_size=1, max_size=largest)


def operation(kind, *arguments):
    return st.tuples(st.just(kind), *arguments)


OPERATIONS = {
    "index": [batches(12)],
    "prune": [batches(6)],
    "describe": [metadata, st.none() | sources, conditions],
    "delete": [st.lists(ids, min_size=1, max_size=4)],
    "delete_where": [conditions],
    "delete_source": [sources],
    "read": [filters, sizes],
    "dense": [texts, sizes, filters, st.sampled_from([None, LEAST])],
    "by_vector": [st.integers(0, 2**32 - 1), sizes, filters],
    "similar": [sizes, filters],
    "sparse": [texts, sizes, filters],
    "hybrid": [texts, sizes, filters],
    "grouped": [texts, sizes, filters, st.sampled_from(["source", "kind", "n"]), st.integers(1, 3)],
    "grouped_words": [texts, sizes, filters, st.sampled_from(["sparse", "hybrid"])],
    "diverse": [texts, sizes, filters, st.sampled_from([0.0, 0.3, 0.5, 1.0])],
    "tidy": [],
}
operations = st.sampled_from(list(OPERATIONS)).flatmap(lambda k: operation(k, *OPERATIONS[k]))
FIRST = [
    Passage(
        f"p{n}",
        " ".join(WORDS[n % 7 : n % 7 + 1 + n % 4]),
        {"n": n % 10, "kind": ["tree", "water", "land"][n % 3]},
        ["a.md", "b.md", "c.md", None][n % 4],
    )
    for n in range(40)
]


# --- what it should give ------------------------------------------------------------------------


def matches(spec, passage):
    """Whether a passage is one that a filter means."""
    if spec is None:
        return True
    if "or" in spec:
        return any(matches(part, passage) for part in spec["or"])
    if "not" in spec:
        return not matches(spec["not"], passage)
    if "kind" in spec:
        return passage.metadata["kind"] == spec["kind"]
    if "_sbert.source" in spec:
        return passage.source == spec["_sbert.source"]
    n, wanted = passage.metadata["n"], spec["n"]
    return n >= wanted["gte"] if isinstance(wanted, dict) else n == wanted


class Truth:
    """What a collection should hold and answer."""

    def __init__(self):
        self.held = {}

    def index(self, batch, *, prune=False):
        """Write, and count as the report does; the first of those with one id is kept."""
        first, counts, texts = {}, Counter(), set()
        for passage in batch:
            if passage.id in first:
                counts["unchanged" if passage == first[passage.id] else "failed"] += 1
                continue
            first[passage.id] = passage
            before = self.held.get(passage.id)
            same = before == passage
            counts["added" if before is None else "unchanged" if same else "updated"] += 1
            if before is None or before.text != passage.text:
                texts.add(passage.text)
        counts["encoded"] = len(texts)
        self.held |= first
        if prune:
            gone = {p.source for p in first.values()} - {None}
            counts["deleted"] = self.drop(lambda p: p.source in gone and p.id not in first)
        return counts

    def drop(self, doomed):
        before = len(self.held)
        self.held = {i: p for i, p in self.held.items() if not doomed(p)}
        return before - len(self.held)

    def among(self, spec):
        return [p for p in self.held.values() if matches(spec, p)]

    def by_vector(self, query, spec):
        chosen = self.among(spec)
        rows = ENCODER.encode_passages([p.text for p in chosen]).astype(np.float64)
        cosines = rows @ (query / np.linalg.norm(query))
        return dict(zip((p.id for p in chosen), cosines.tolist(), strict=True))

    def dense(self, text, spec):
        return self.by_vector(ENCODER.encode_queries([text])[0].astype(np.float64), spec)

    def sparse(self, text, spec):
        """Sums of term weight times ln(1 + (N - n + 0.5) / (n + 0.5)), over all N passages."""
        terms = set(BM25.encode_queries([text])[0].indices)
        encoded = BM25.encode_passages([p.text for p in self.held.values()])
        vectors = {
            i: dict(zip(v.indices, v.values, strict=True))
            for i, v in zip(self.held, encoded, strict=True)
        }
        frequency = Counter(term for vector in vectors.values() for term in vector)
        rarity = {
            t: math.log(1 + (len(vectors) - frequency[t] + 0.5) / (frequency[t] + 0.5))
            for t in terms
        }
        found = {}
        for passage in self.among(spec):
            weights = vectors[passage.id]
            if common := terms & set(weights):
                found[passage.id] = sum(weights[t] * rarity[t] for t in common)
        return found

    def hybrid(self, text, spec):
        """The cosine and 0.15 of the share of the best BM25 score: no name is in the question."""
        words = self.sparse(text, spec)
        best = max(words.values(), default=1.0)
        cosines = self.dense(text, spec)
        return {i: cosine + 0.15 * words.get(i, 0.0) / best for i, cosine in cosines.items()}


# --- comparing ----------------------------------------------------------------------------------


def near(scores):
    return pytest.approx(scores, abs=TOLERANCE)


def check_scores(hits, expected):
    """Nothing twice, and each with its own score."""
    assert len({hit.id for hit in hits}) == len(hits)
    assert {hit.id: hit.score for hit in hits} == near({hit.id: expected[hit.id] for hit in hits})


def check_ranking(hits, expected, k):
    """The k best, in falling order; ties as they come."""
    check_scores(hits, expected)
    best = sorted(expected.values(), reverse=True)[:k]
    assert [hit.score for hit in hits] == near(best)


def check_groups(hits, expected, group_of, k, size):
    """The best of each of the k best groups, group after group."""
    check_scores(hits, expected)
    groups = {}
    for i, score in expected.items():
        groups.setdefault(group_of(i), []).append(score)
    found = [(key, list(run)) for key, run in groupby(hits, lambda hit: group_of(hit.id))]
    assert len({key for key, _ in found}) == len(found)
    for key, run in found:
        assert [h.score for h in run] == near(sorted(groups[key], reverse=True)[:size])
    best = sorted((max(scores) for scores in groups.values()), reverse=True)[:k]
    assert [run[0].score for _, run in found] == near(best)


def check_diverse(hits, expected, vectors, k, diversity):
    """Each choice has the greatest margin of nearness over likeness to those before it."""
    check_scores(hits, expected)
    chosen = []
    for hit in hits:
        margins = {
            i: (1 - diversity) * score
            - diversity * max(float(vectors[i] @ vectors[j]) for j in chosen)
            if chosen
            else score
            for i, score in expected.items()
            if i not in chosen
        }
        assert margins[hit.id] == near(max(margins.values()))
        chosen.append(hit.id)
    assert len(chosen) == min(k, len(expected))


class Trial:
    """One collection beside its truth: each method is an operation on both."""

    def __init__(self, retriever):
        self.retriever, self.truth = retriever, Truth()
        self.engine = retriever.info().engine
        self.stale = False
        self.later = []
        if retriever.delete_all():
            self.changed()
        self.index(FIRST)
        self.tidy()

    def changed(self):
        self.stale = self.engine != "local"

    # Writing

    def index(self, batch, *, prune=False):
        report = self.retriever.index(batch, prune=prune)
        counts = self.truth.index(batch, prune=prune)
        names = ("added", "updated", "unchanged", "deleted", "failed", "encoded")
        assert {n: getattr(report, n) for n in names} == {n: counts[n] for n in names}
        if report.updated or report.deleted:
            self.changed()

    def prune(self, batch):
        self.index(batch, prune=True)

    def describe(self, data, source, spec):
        """Other metadata and another source for texts that stay."""
        self.index([replace(p, metadata=data, source=source) for p in self.truth.among(spec)])

    def delete(self, gone):
        assert self.retriever.delete(gone) == self.truth.drop(lambda p: p.id in gone)
        self.changed()

    def delete_where(self, spec):
        assert self.retriever.delete(filter=spec) == self.truth.drop(lambda p: matches(spec, p))
        self.changed()

    def delete_source(self, source):
        assert self.retriever.delete(source=source) == self.truth.drop(lambda p: p.source == source)
        self.changed()

    def tidy(self):
        self.retriever.optimize()
        self.stale = self.stale and self.engine == "server"

    # Reading

    def read(self, spec, page_size):
        expected = {p.id: p for p in self.truth.among(spec)}
        assert self.retriever.count(spec) == len(expected)
        page, offset = self.retriever.scroll(filter=spec, limit=page_size)
        found = list(page)
        while offset is not None:
            page, offset = self.retriever.scroll(filter=spec, limit=page_size, offset=offset)
            found += page
        assert len(found) == len(expected)
        assert {p.id: p for p in found} == expected
        asked = [f"p{n}" for n in range(49, -1, -1)]
        assert self.retriever.get(asked) == [
            self.truth.held[i] for i in asked if i in self.truth.held
        ]

    # Searching

    def dense(self, text, k, spec, least):
        hits = self.retriever.search(text, k, filter=spec, mode="dense", score_threshold=least)
        expected = self.truth.dense(text, spec)
        kept = {i: s for i, s in expected.items() if least is None or s >= least}
        check_ranking(hits, kept, k)

    def by_vector(self, seed, k, spec):
        vector = np.random.default_rng(seed).normal(size=DIM)
        hits = self.retriever.search_by_vector(vector, k, filter=spec)
        check_ranking(hits, self.truth.by_vector(vector, spec), k)

    def similar(self, k, spec):
        for one in list(self.truth.held.values())[:2]:
            expected = self.truth.dense(one.text, spec)
            expected.pop(one.id, None)
            check_ranking(self.retriever.similar(one.id, k, filter=spec), expected, k)

    def sparse(self, text, k, spec):
        self.by_words(text, k, spec, "sparse")

    def hybrid(self, text, k, spec):
        self.by_words(text, k, spec, "hybrid")

    def by_words(self, text, k, spec, mode):
        expected = getattr(self.truth, mode)(text, spec)
        hits = self.retriever.search(text, k, filter=spec, mode=mode)
        if not self.stale:
            check_ranking(hits, expected, k)
            return
        assert len({hit.id for hit in hits} & set(expected)) == len(hits) == min(k, len(expected))
        assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)
        self.later.append((mode, text, k, spec))

    def grouped(self, text, k, spec, field, size):
        hits = self.retriever.search(
            text, k, filter=spec, mode="dense", group_by=field, group_size=size
        )
        check_groups(hits, self.truth.dense(text, spec), self.group_by(field), k, size)

    def grouped_words(self, text, k, spec, mode):
        """Groups of what words find, or words and meanings."""
        if self.stale:
            self.later.append(("grouped_words", text, k, spec, mode))
            return
        hits = self.retriever.search(text, k, filter=spec, mode=mode, group_by="kind", group_size=2)
        check_groups(hits, getattr(self.truth, mode)(text, spec), self.group_by("kind"), k, 2)

    def group_by(self, field):
        """The group of an id; a passage without a source is a group of its own."""

        def group_of(i):
            passage = self.truth.held[i]
            return (passage.source or i) if field == "source" else passage.metadata[field]

        return group_of

    def diverse(self, text, k, spec, diversity):
        hits = self.retriever.search(text, k, filter=spec, mode="dense", diversity=diversity)
        rows = {p.id: ENCODER.encode_passages([p.text])[0] for p in self.truth.among(spec)}
        check_diverse(hits, self.truth.dense(text, spec), rows, k, diversity)

    def end(self):
        """Tidy up, and ask again what words of deleted passages disturbed."""
        self.tidy()
        for kind, *arguments in [] if self.stale else self.later:
            getattr(self, kind)(*arguments)
        assert self.retriever.count() == len(self.truth.held)


@pytest.mark.filterwarnings("ignore::sbert_retriever.errors.UnknownFieldWarning")
def test_two_hundred_operations_answer_as_numpy_does(lasting_engine):
    retriever = lasting_engine.open(model=ENCODER, sparse="bm25")
    performed = Counter()

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
        trial = Trial(retriever)
        for kind, *arguments in drawn:
            getattr(trial, kind)(*arguments)
            performed[kind] += 1
        trial.end()

    run()
    assert performed.total() == EXAMPLES * LENGTH
    assert set(performed) == set(OPERATIONS)
