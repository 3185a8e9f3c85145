"""Figures worked out by hand from a few records, and computed again from the file."""

import csv
import gzip
import io
import json
import math

import numpy as np
import pytest

from sbert_retriever.errors import InputError, ReadError
from sbert_retriever.evaluation.bootstrap import paired_bootstrap
from sbert_retriever.tradeoff.points import BASELINE, EVERYTHING, point
from sbert_retriever.tradeoff.records import (
    Records,
    Setting,
    Timing,
    read_records,
    write_records,
)
from sbert_retriever.tradeoff.report import recompute, summarise


def setting(truth="qrels", k=2):
    return Setting(
        location="folder",
        collection_name="default",
        passages=1000,
        dim=100,
        indexed=1000,
        engine="embedded",
        encoder="encoder",
        scorer="scorer",
        machine="machine",
        k=k,
        truth=truth,
        seed=3,
        created="2024-01-01T00:00:00+00:00",
        notes=("Something was left out.",),
    )


POINTS = (
    point(BASELINE, 2),
    point("slow and worse", 2, ef=500),
    point("50 dimensions", 2, exact=True, truncate_dim=50),
    point("cross-encoder 5", 2, rerank_depth=5),
    point(EVERYTHING, 2, everything=True),
)


def made(truth="qrels"):
    """Two queries: the baseline finds q1's passage second, the cross-encoder both first."""
    return Records(
        setting=setting(truth),
        points=POINTS,
        grades={"q1": {"a": 1}, "q2": {"b": 2, "c": 1}},
        answers={
            BASELINE: {"q1": ["x", "a"], "q2": ["b", "x"]},
            "slow and worse": {"q1": ["x", "a"], "q2": ["x", "b"]},
            "50 dimensions": {"q1": ["x", "y"], "q2": ["x", "y"]},
            "cross-encoder 5": {"q1": ["a", "x"], "q2": ["b", "c"]},
        },
        timings={
            BASELINE: [Timing("q1", 1.0, 2.0), Timing("q2", 3.0, 4.0)],
            "slow and worse": [Timing("q1", 1.0, 9.0), Timing("q2", 3.0, 9.0)],
            "50 dimensions": [Timing("q1", 1.0, 1.0), Timing("q2", 1.0, 1.0)],
            "cross-encoder 5": [Timing("q1", 1.0, 2.0, 97.0, 5), Timing("q2", 1.0, 2.0, 197.0, 4)],
            EVERYTHING: [Timing("q1", 0.0, 0.0, 5e4), Timing("q2", 0.0, 0.0, 7e4)],
        },
        memory_mb={BASELINE: 700.0},
        sampled_pairs=32,
    )


LOG3 = math.log2(3)
IDEAL2 = 2 + 1 / LOG3


def test_accuracy_by_hand():
    report = summarise(made())
    assert report[BASELINE].accuracy == {
        "nDCG@2": pytest.approx((1 / LOG3 + 2 / IDEAL2) / 2),
        "recall@2": pytest.approx((1 + 1 / 2) / 2),
        "MRR@2": pytest.approx((1 / 2 + 1) / 2),
    }
    assert report["cross-encoder 5"].accuracy == {
        "nDCG@2": pytest.approx(1.0),
        "recall@2": 1.0,
        "MRR@2": 1.0,
    }
    assert report[EVERYTHING].accuracy == {}
    assert report[EVERYTHING].extrapolated


def test_times_and_memory_by_hand():
    report = summarise(made())
    base = report[BASELINE]
    assert base.latency_ms["total"] == (5.0, pytest.approx(3 + 0.95 * 4))
    assert base.latency_ms["encode"] == (2.0, pytest.approx(1 + 0.95 * 2))
    assert base.per_second == pytest.approx(200.0)
    assert (base.memory_mb, base.vectors_mb) == (700.0, 0.4)
    assert report["50 dimensions"].vectors_mb == 0.2
    assert report["cross-encoder 5"].p50_ms == 150.0
    assert report["cross-encoder 5"].memory_mb is None
    assert (report["cross-encoder 5"].pairs, base.pairs) == (4.5, 0)


def test_the_front_is_fastest_first_and_leaves_out_what_is_beaten():
    report = summarise(made())
    names = [point.point.name for point in report.front]
    assert names == ["50 dimensions", BASELINE, "cross-encoder 5"]


def test_gains_are_those_of_the_bootstrap_over_queries():
    report = summarise(made())
    base = {"q1": 1 / LOG3, "q2": 2 / IDEAL2}
    expected = paired_bootstrap({"q1": 1.0, "q2": 1.0}, base, seed=3)
    found = report["cross-encoder 5"].gain
    assert found.mean == pytest.approx(expected.mean)
    assert (found.low, found.high) == (pytest.approx(expected.low), pytest.approx(expected.high))
    assert found.p == pytest.approx(expected.p)
    assert report[BASELINE].gain is None
    assert report[EVERYTHING].gain is None


def test_every_figure_comes_again_from_the_per_query_file(tmp_path):
    records = made()
    write_records(tmp_path / "t.jsonl", records)
    assert read_records(tmp_path / "t.jsonl") == records
    report = summarise(records)
    again = recompute(tmp_path / "t.jsonl")
    assert again == report
    assert again.to_json() == report.to_json()
    assert again.to_csv() == report.to_csv()
    assert again.table() == report.table()


def test_without_judgements_the_table_says_what_it_shows():
    report = summarise(made("rerank"))
    assert report.measures == ("nDCG@2", "overlap@2")
    assert report[BASELINE].accuracy["overlap@2"] == pytest.approx((1 + 1 / 2) / 2)
    assert "how far each point is from the deepest rerank, 'cross-encoder 5'" in report.table()
    assert "does not show how good" in report.table()
    assert "exact search" in summarise(made("exact")).table()


@pytest.mark.parametrize(
    "limit", [{"early_margin": 0.0}, {"early_batches": 1}, {"pair_length": 64}, {"late": 5}]
)
def test_a_rerank_that_leaves_something_out_is_no_truth(limit):
    assert point("whole", 10, rerank_depth=20).in_full
    assert not point("part", 10, rerank_depth=20, **limit).in_full


def test_table():
    lines = summarise(made()).table().splitlines()
    assert lines[0].split()[:4] == ["point", "nDCG@2", "recall@2", "MRR@2"]
    assert lines[1].startswith("*  bi-encoder ")
    assert lines[2].startswith("   slow and worse ")
    assert "~60,000 / ~69,000" in lines[5] or "~60,000 / 69,000" in lines[5]
    assert lines[5].split("over everything")[1].split()[:3] == ["?", "?", "?"]
    assert "Something was left out." in lines
    assert any(line.startswith("2 queries over 1,000 passages; times of 2") for line in lines)


def test_json_and_csv_hold_the_same_figures():
    report = summarise(made())
    whole = json.loads(report.to_json())
    rows = list(csv.DictReader(io.StringIO(report.to_csv())))
    assert [row["point"] for row in rows] == [point.name for point in POINTS]
    for row, entry in zip(rows, whole["points"], strict=True):
        assert float(row["total_p50_ms"]) == entry["total_p50_ms"]
        assert row["nDCG@2"] == ("" if entry["nDCG@2"] is None else str(entry["nDCG@2"]))
    assert whole["front"] == ["50 dimensions", BASELINE, "cross-encoder 5"]
    assert whole["setting"]["passages"] == 1000
    assert whole["points"][3]["settings"]["profile"]["rerank_depth"] == 5


def test_an_unknown_point_names_those_that_are():
    with pytest.raises(InputError, match="'cross-encoder 5'"):
        summarise(made())["cross-encoder 7"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "holds no setting"),
        ("nonsense\n", "line 1: no line of a per-query file"),
        ('{"kind": "answer"}\n', "line 1"),
        ('{"kind": "else"}\n', "line 1"),
        ("[]\n", "line 1"),
        ('{"kind": "setting", "format": 99}\n', "format 99, expected 1"),
    ],
)
def test_files_that_are_no_per_query_file(tmp_path, text, said):
    path = tmp_path / "t.jsonl"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ReadError, match=said):
        read_records(path)
    with pytest.raises(ReadError, match="cannot be read"):
        read_records(tmp_path / "absent.jsonl")


def test_a_per_query_file_that_was_cut_is_told(tmp_path):
    """Between two lines, where no half line gives it away: points lack their answers or times."""
    whole, path = tmp_path / "whole.jsonl", tmp_path / "t.jsonl"
    write_records(whole, made())
    lines = whole.read_text(encoding="utf-8").splitlines(keepends=True)
    # A setting, 5 points, the truth of 2 queries, then 2 answers and 2 times of each point in turn.
    for kept, lacking in [
        (1, "no point 'bi-encoder'"),
        (8, "no answers of 'bi-encoder' and 8 more"),
        (10, "no answers of 'slow and worse' and 7 more"),
        (12, "no answers of 'slow and worse' and 6 more"),
        (24, "no times of 'cross-encoder over everything'. .*measure again"),
    ]:
        path.write_text("".join(lines[:kept]), encoding="utf-8")
        with pytest.raises(ReadError, match=f"is not whole: it has {lacking}"):
            recompute(path)


def test_a_compressed_file_that_is_damaged_is_told(tmp_path):
    path = tmp_path / "t.jsonl.gz"
    write_records(tmp_path / "t.jsonl", made())
    packed = gzip.compress((tmp_path / "t.jsonl").read_bytes())
    path.write_bytes(packed)
    assert read_records(path) == made()
    for damaged in (packed[:-20], packed[:12] + b"\xff" * 40 + packed[52:], b"none"):
        path.write_bytes(damaged)
        with pytest.raises(ReadError, match="cannot be read"):
            read_records(path)


def test_the_plot_draws_every_point_and_its_name(tmp_path):
    from sbert_retriever.tradeoff.plot import draw, write_plots

    report = summarise(made())
    paths = write_plots(report, tmp_path / "plot")
    assert [path.name for path in paths] == ["plot.png", "plot.svg"]
    assert paths[0].read_bytes().startswith(b"\x89PNG")
    assert b"<svg" in paths[1].read_bytes()
    figure = draw(report)
    axes = figure.axes[0]
    names = {text.get_text() for text in axes.texts}
    assert {point.name for point in POINTS[:-1]} <= names
    assert any("over everything: 60.0 s, extrapolated" in name for name in names)
    assert axes.get_xscale() == "log"
    renderer = figure.canvas.get_renderer()
    boxes = [t.get_window_extent(renderer) for t in axes.texts if t.get_text() in report_names()]
    for number, box in enumerate(boxes):
        assert not any(box.overlaps(other) for other in boxes[number + 1 :])


def report_names():
    return {point.name for point in POINTS[:-1]}


def test_the_same_figures_give_the_same_picture(tmp_path):
    from sbert_retriever.tradeoff.plot import write_plots

    report = summarise(made())
    first = write_plots(report, tmp_path / "one")[0].read_bytes()
    assert write_plots(report, tmp_path / "two")[0].read_bytes() == first


def test_percentiles_are_those_of_numpy():
    report = summarise(made())
    totals = [3.0, 7.0]
    assert report[BASELINE].p95_ms == pytest.approx(float(np.percentile(totals, 95)))
