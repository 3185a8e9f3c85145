"""A whole measurement on a small collection, against answers worked out separately."""

from dataclasses import replace

import numpy as np
import pytest
from qdrant_client import QdrantClient

from sbert_retriever import BiEncoder, Passage, Retriever
from sbert_retriever.encoder.late_interaction import maxsim
from sbert_retriever.errors import InputError
from sbert_retriever.index.storage import Storage
from sbert_retriever.testing import HashEncoder, mixed_vectors, tiny_bert
from sbert_retriever.tradeoff.files import write_all
from sbert_retriever.tradeoff.first_stage import Contents, CutVectors, read_contents
from sbert_retriever.tradeoff.measure import measure_tradeoff
from sbert_retriever.tradeoff.points import BASELINE, EVERYTHING, Grid, Means, operating_points
from sbert_retriever.tradeoff.records import Timing
from sbert_retriever.tradeoff.report import recompute, summarise
from sbert_retriever.tradeoff.timing import timed
from sbert_retriever.types import Fusion, Profile

GRID = Grid(depths=(2, 4), dimensions=(16,), late=3, late_rerank=2, early_stops=(6,), profiles=())


def names(records):
    return [point.name for point in records.points]


def test_every_point_is_measured_and_the_files_give_the_figures_again(
    collection, scorer, tmp_path, queries, qrels
):
    records = measure_tradeoff(
        collection, queries, qrels=qrels, scorer=scorer, grid=GRID, k=3, timed_queries=2
    )
    assert names(records) == [
        BASELINE,
        "16 dimensions",
        "cross-encoder 2",
        "cross-encoder 2 fused",
        "cross-encoder 2 weighted",
        "cross-encoder 4",
        "cross-encoder 4 fused",
        "cross-encoder 4 weighted",
        "cross-encoder 6, early stop",
        EVERYTHING,
    ]
    report = summarise(records)
    files = write_all(tmp_path, records, report)
    assert {path.name for path in files} == {
        f"tradeoff.{suffix}" for suffix in ("jsonl", "json", "csv", "png", "svg")
    }
    assert recompute(tmp_path / "tradeoff.jsonl") == report
    assert (report.queries, report.timed) == (4, 2)
    for point in report.points:
        assert set(point.accuracy) == (set() if point.extrapolated else set(report.measures))
        assert all(0 <= value <= 1 for value in point.accuracy.values())
    notes = " ".join(records.setting.notes)
    assert "every search is exact" in notes
    assert "no late interaction" in notes


def test_answers_are_those_of_the_stages_done_by_hand(collection, scorer, queries, qrels, texts):
    records = measure_tradeoff(
        collection, queries, qrels=qrels, scorer=scorer, grid=GRID, k=3, timed_queries=1
    )
    encoder = HashEncoder(dim=32)
    ids = list(texts)
    rows = encoder.encode_passages(texts.values())
    for query, text in queries.items():
        vector = encoder.encode_queries([text])[0]
        scores = rows @ vector
        first = [ids[n] for n in np.argsort(-scores, kind="stable")]
        found = records.answers[BASELINE][query]
        # Ties may come in another order.
        assert sorted(scores[ids.index(i)] for i in found) == pytest.approx(
            sorted(scores[ids.index(i)] for i in first[:3])
        )
        head = collection.search(text, 4)
        words = scorer.score([(text, hit.text) for hit in head])
        by_words = [head[n].id for n in np.argsort(-words, kind="stable")]
        assert records.answers["cross-encoder 4"][query] == by_words[:3]


def test_each_pair_is_scored_once_for_all_depths_and_modes(collection, queries, scorer):
    """What is timed is scored each time; what is answered, once."""
    grid = Grid(depths=(2, 4), late=0, early_stops=(), profiles=(), everything=False, dimensions=())
    measure_tradeoff(collection, queries, scorer=scorer, grid=grid, k=3, timed_queries=1)
    timed = 2 * (2 + 4)  # the warm-up and one query, at both depths
    assert len(scorer.pairs) == timed + 4 * len(queries)


def test_without_judgements_the_deepest_rerank_is_the_truth(collection, scorer, queries):
    records = measure_tradeoff(collection, queries, scorer=scorer, grid=GRID, k=3, timed_queries=1)
    assert records.setting.truth == "rerank"
    report = summarise(records)
    assert report["cross-encoder 4"].accuracy == {"nDCG@3": 1.0, "overlap@3": 1.0}
    for query, grades in records.grades.items():
        assert list(grades.values()) == [3, 2, 1]
        assert list(grades) == records.answers["cross-encoder 4"][query]


def test_without_judgements_and_scorer_exact_search_is_the_truth(collection, queries):
    records = measure_tradeoff(collection, queries, grid=GRID, k=3, timed_queries=1)
    assert records.setting.truth == "exact"
    assert summarise(records)[BASELINE].accuracy["overlap@3"] == 1.0


def test_late_interaction_puts_the_candidates_in_the_order_of_maxsim(
    tmp_path, scorer, queries, qrels, texts
):
    encoder = BiEncoder.load(tiny_bert(tmp_path / "model"), dtype="float32")
    with Retriever.open(":memory:", model=encoder) as retriever:
        retriever.index((Passage(i, text) for i, text in texts.items()), on_truncate="ignore")
        records = measure_tradeoff(
            retriever,
            queries,
            qrels=qrels,
            scorer=scorer,
            grid=Grid(
                depths=(),
                dimensions=(),
                late=4,
                late_rerank=2,
                early_stops=(),
                profiles=(),
                everything=False,
            ),
            k=4,
            timed_queries=1,
        )
        assert names(records) == [BASELINE, "MaxSim 4", "MaxSim 4, cross-encoder 2"]
        for query, text in queries.items():
            hits = retriever.search(text, 4)
            asked = encoder.encode_tokens([text], role="query")[0]
            tokens = encoder.encode_tokens([hit.text for hit in hits], role="passage")
            scores = [maxsim(asked, rows) for rows in tokens]
            order = [hits[n].id for n in np.argsort(-np.array(scores), kind="stable")]
            assert records.answers["MaxSim 4"][query] == order
            words = scorer.score([(text, texts[i]) for i in order[:2]])
            swapped = [1, 0] if words[1] > words[0] else [0, 1]
            expected = [order[n] for n in swapped] + order[2:]
            assert records.answers["MaxSim 4, cross-encoder 2"][query] == expected


def test_a_model_of_its_own_makes_the_points_of_late_interaction(
    tmp_path, queries, qrels, texts, colbert_folder
):
    """Its name goes into the profiles, and token vectors that the collection keeps stay unread."""
    folder = colbert_folder()
    grid = Grid(depths=(), dimensions=(), late=4, early_stops=(), profiles=(), everything=False)
    settings = {"device": "cpu", "dtype": "float32"}
    model = tiny_bert(tmp_path / "model")
    with Retriever.open(tmp_path / "a", model=model, storage=Storage(tokens=True)) as retriever:
        retriever.index((Passage(i, text) for i, text in texts.items()), on_truncate="ignore")
    with Retriever.open(tmp_path / "a", late_encoder=folder, **settings) as retriever:
        records = measure_tradeoff(retriever, queries, qrels=qrels, grid=grid, k=4, timed_queries=1)
        encoder = retriever.late_encoder
        for query, text in queries.items():
            hits = retriever.search(text, 4, profile=Profile(rerank_depth=0))
            asked = encoder.encode_tokens([text], role="query")[0]
            tokens = encoder.encode_tokens([hit.text for hit in hits], role="passage")
            order = np.argsort([-maxsim(asked, rows) for rows in tokens], kind="stable")
            assert records.answers["MaxSim 4"][query] == [hits[n].id for n in order]
    profiles = {point.name: point.profile for point in records.points}
    assert profiles["MaxSim 4"].late_encoder == str(folder)
    assert profiles[BASELINE].late_encoder is None
    notes = " ".join(records.setting.notes)
    assert f"Token vectors for MaxSim are those of {folder} (float32, cpu)." in notes
    assert "are kept with the collection" not in notes


def test_the_widths_of_the_walk_are_measured_where_there_is_a_graph():
    means = Means(dim=384, graph=True, cosine=True, tokens=True, scorer=True, lengths=True)
    points = operating_points(Grid(), means, k=10)
    assert [p.name for p in points] == [
        BASELINE,
        *("ef 16", "ef 64", "ef 256", "exact"),
        *("192 dimensions", "96 dimensions", "48 dimensions", "MaxSim 100"),
        *(f"cross-encoder {n}{how}" for n in (5, 10, 20, 50, 100) for how in ("", " fused")),
        "cross-encoder 100, early stop",
        "cross-encoder 20, 128 tokens",
        "MaxSim 100, cross-encoder 20",
        *("fast", "balanced", "accurate"),
        EVERYTHING,
    ]
    fused = {p.name: (p.candidates, p.rerank) for p in points if p.fused}
    assert fused == {
        "cross-encoder 5 fused": (10, 5),
        "cross-encoder 10 fused": (10, 10),
        "cross-encoder 20 fused": (20, 20),
        "cross-encoder 50 fused": (50, 50),
        "cross-encoder 100 fused": (100, 100),
        "balanced": (20, 20),
        "accurate": (50, 50),
    }


@pytest.mark.parametrize(
    ("lacking", "gone"),
    [
        ("graph", {"ef 16", "ef 64", "ef 256", "exact"}),
        ("cosine", {"192 dimensions", "96 dimensions", "48 dimensions"}),
        ("tokens", {"MaxSim 100", "MaxSim 100, cross-encoder 20"}),
        ("lengths", {"cross-encoder 20, 128 tokens"}),
    ],
)
def test_what_a_collection_lacks_is_not_measured(lacking, gone):
    means = Means(dim=384, graph=True, cosine=True, tokens=True, scorer=True, lengths=True)
    every = {p.name for p in operating_points(Grid(), means, k=10)}
    left = operating_points(Grid(), replace(means, **{lacking: False}), k=10)
    assert every - {p.name for p in left} == gone
    alone = operating_points(Grid(), replace(means, scorer=False), k=10)
    assert all("cross" not in p.name and not p.rerank for p in alone)


def test_cut_vectors_are_searched_exactly_and_normalised_again():
    rows = mixed_vectors(np.eye(24, dtype=np.float32), 200, queries=5)
    contents = Contents([str(n) for n in range(200)], rows.vectors, [])
    cut = CutVectors(contents, 8)
    unit = rows.vectors[:, :8] / np.linalg.norm(rows.vectors[:, :8], axis=1, keepdims=True)
    for query in rows.queries:
        scores = unit.astype(np.float64) @ (query[:8] / np.linalg.norm(query[:8]))
        expected = [str(n) for n in np.argsort(-scores, kind="stable")[:10]]
        assert cut.search(query, 10) == expected
    assert len(cut.search(rows.queries[0], 500)) == 200


def test_a_collection_is_read_once_and_sampled_evenly():
    with Retriever.open(client=QdrantClient(":memory:"), model=HashEncoder(dim=16)) as retriever:
        retriever.index(Passage(str(n), f"text {n}") for n in range(30))
        counts = np.zeros(30)
        for seed in range(300):
            contents = read_contents(retriever, vectors=seed == 0, sample=3, seed=seed)
            assert len(contents.sample) == len(set(contents.sample)) == 3
            if seed == 0:
                assert sorted(contents.ids, key=int) == [str(n) for n in range(30)]
                assert contents.vectors.shape == (30, 16)
            for text in contents.sample:
                counts[int(text.split()[1])] += 1
        # Each is expected 30 times, give or take 5.2.
        assert counts.min() > 8
        assert counts.max() < 56
        assert len(read_contents(retriever, vectors=False, sample=99, seed=0).sample) == 30


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"qrels": {"other": {"cats": 1}}}, "none is in both"),
        ({"k": 0}, "k is 0"),
        ({"timed_queries": 0}, "timed_queries 0"),
    ],
)
def test_wrong_use(collection, queries, options, said):
    with pytest.raises(InputError, match=said):
        measure_tradeoff(collection, queries, **options)
    with pytest.raises(InputError, match="no query"):
        measure_tradeoff(collection, {})


def test_an_empty_collection_is_refused(queries):
    with (
        Retriever.open(":memory:", model=HashEncoder()) as retriever,
        pytest.raises(InputError, match="empty"),
    ):
        measure_tradeoff(retriever, queries)


def test_queries_without_judgements_are_left_out_and_counted(collection, queries):
    records = measure_tradeoff(
        collection,
        queries,
        qrels={"q1": {"cats": 1}, "gone": {"cats": 1}},
        grid=Grid(dimensions=()),
        timed_queries=1,
    )
    assert list(records.grades) == ["q1"]
    assert any(note.startswith("3 queries without judgements") for note in records.setting.notes)
    assert any(note.startswith("1 judged queries have no text") for note in records.setting.notes)


def test_a_grid_no_deeper_than_what_was_asked_for():
    shallow = Grid(depths=(5, 10)).no_deeper_than(10)
    means = Means(dim=384, graph=False, cosine=False, tokens=True, scorer=True, lengths=True)
    assert [p.name for p in operating_points(shallow, means, k=10)] == [
        *(BASELINE, "MaxSim 100", "cross-encoder 5", "cross-encoder 5 fused"),
        *("cross-encoder 10", "cross-encoder 10 fused", "cross-encoder 10, early stop"),
        *("cross-encoder 10, 128 tokens", "MaxSim 100, cross-encoder 10", "fast", EVERYTHING),
    ]
    none = operating_points(Grid(depths=()).no_deeper_than(0), means, k=10)
    assert [p.name for p in none] == [BASELINE, "MaxSim 100", "fast"]


def test_a_grid_says_what_is_wrong_with_it():
    with pytest.raises(InputError, match="below its least"):
        Grid(depths=(0,))
    with pytest.raises(InputError, match="unknown"):
        Grid(modes=("swap",))
    with pytest.raises(InputError, match="has a budget"):
        Grid(profiles=(Profile(name="quick", budget_ms=50),))


def test_each_query_begins_with_another_point():
    """Who asks first warms the caches for the rest, and no point is to pay for the others."""
    asked = []

    def way(name):
        def ask(query, text):
            asked.append(name)
            return Timing(query, len(text), 0.0)

        return ask

    queries = {"1": "x", "2": "xx", "3": "xxx", "4": "x"}
    times, _ = timed({name: way(name) for name in "abc"}, queries)
    assert "".join(asked) == "abc" + "abc" + "bca" + "cab" + "abc"
    assert [timing.encode for timing in times["b"]] == [1, 2, 3, 1]


@pytest.mark.parametrize(
    "grid",
    [
        Grid(fusions=(Fusion(method="rrf", k=20), Fusion(method="rrf", k=60))),
        Grid(profiles=(Profile(candidates=30), Profile(candidates=50))),
    ],
)
def test_two_points_of_one_name_are_refused(grid) -> None:
    """Both rows of the table had the figures of the second."""
    there = dict.fromkeys(("graph", "cosine", "tokens", "scorer", "lengths", "words"), True)
    means = Means(dim=384, **there)
    with pytest.raises(InputError, match="has several points of the name"):
        operating_points(grid, means, k=10)
