"""Clusters of a collection: by hand, at the borders, and on real questions."""

from __future__ import annotations

import csv
import math
import sys
from xml.etree import ElementTree

import numpy as np
import pytest
from sklearn.cluster import KMeans
from sklearn.metrics import v_measure_score

from sbert_retriever import Passage, Retriever
from sbert_retriever.errors import InputError, InputTypeError, MissingExtraError
from sbert_retriever.mining import find_clusters, write_picture
from sbert_retriever.mining.partition import LARGEST_TREE, agglomerative, k_means
from sbert_retriever.mining.plane import principal_plane
from sbert_retriever.testing import HashEncoder

PLANE = HashEncoder(dim=2)


def sets(found):
    return sorted(sorted(cluster.ids) for cluster in found.clusters)


@pytest.mark.parametrize(
    "options",
    [
        {"threshold": 0.9},
        {"k": 3},
        {"k": 3, "method": "agglomerative"},
        {"threshold": 0.5, "method": "agglomerative"},
    ],
    ids=str,
)
def test_three_bundles_of_angles(engine, fill, circle, options) -> None:
    retriever = fill(engine.open(model=PLANE), circle(0, 10, 20, 120, 130, 140, 150, 240, 250, 259))
    found = find_clusters(retriever, **options)
    bundles = [["p000", "p001", "p002"], [f"p00{n}" for n in (3, 4, 5, 6)],
               ["p007", "p008", "p009"]]  # fmt: skip
    assert sets(found) == bundles
    largest, others = found.clusters[0], found.clusters[1:]
    assert sorted(largest.ids) == bundles[1]
    assert largest.size == 4
    assert [cluster.central.id for cluster in others] == ["p001", "p008"]
    assert others[0].central.text == "text of p001"
    # The mean of 0, 10 and 20 degrees points to 10.
    assert others[0].cohesion == pytest.approx((1 + 2 * math.cos(math.radians(10))) / 3, abs=1e-6)
    assert found.unassigned == 0
    assert sorted(found.ids) == sorted(name for bundle in bundles for name in bundle)
    for name, label in zip(found.ids, found.labels, strict=True):
        assert name in found.clusters[label].ids
    assert found.positions.shape == (10, 2)


def test_exact_copies_are_one_cluster_at_a_threshold_of_one(fill, circle) -> None:
    """scikit-learn keeps apart what lies at the distance itself."""
    with Retriever.open(":memory:", model=PLANE) as retriever:
        fill(retriever, circle(0, 0, 0, 90))
        found = find_clusters(retriever, threshold=1, method="agglomerative", min_size=1)
    assert sets(found) == [["p000", "p001", "p002"], ["p003"]]


def test_members_stand_in_the_order_of_their_closeness(fill, circle) -> None:
    """The mean of 0, 10, 20, 30 and 50 degrees points to about 22."""
    with Retriever.open(":memory:", model=PLANE) as retriever:
        fill(retriever, circle(0, 10, 20, 30, 50))
        (cluster,) = find_clusters(retriever, threshold=0).clusters
    assert cluster.ids == ("p002", "p003", "p001", "p000", "p004")


def test_smaller_clusters_are_dissolved(fill, circle) -> None:
    with Retriever.open(":memory:", model=PLANE) as retriever:
        fill(retriever, circle(0, 1, 2, 90, 91, 180))
        by_k = find_clusters(retriever, k=3, min_size=2)
        by_threshold = find_clusters(retriever, threshold=0.9)
        everyone = find_clusters(retriever, threshold=0.9, min_size=1)
    assert [cluster.size for cluster in by_k.clusters] == [3, 2]
    assert by_k.unassigned == 1
    assert [cluster.size for cluster in by_threshold.clusters] == [3]
    assert sorted(by_threshold.labels.tolist()) == [-1, -1, -1, 0, 0, 0]
    assert [cluster.size for cluster in everyone.clusters] == [3, 2, 1]


def test_a_filter_narrows_what_is_clustered(fill, circle) -> None:
    with Retriever.open(":memory:", model=PLANE) as retriever:
        fill(retriever, circle(0, 1, 2, 3, 4, 5))
        found = find_clusters(retriever, filter={"even": True})
    assert sets(found) == [["p000", "p002", "p004"]]
    assert found.ids == sorted(found.ids, key=found.ids.index)
    assert len(found.ids) == 3


@pytest.mark.parametrize(
    "options", [{}, {"k": 1}, {"k": 1, "method": "agglomerative"}, {"min_size": 1}], ids=str
)
@pytest.mark.parametrize("n", [0, 1])
def test_an_empty_collection_and_one_passage(fill, circle, options, n) -> None:
    with Retriever.open(":memory:", model=PLANE) as retriever:
        fill(retriever, circle(*[30] * n))
        found = find_clusters(retriever, **options)
    lone = 1 if n and options else 0
    assert [cluster.ids for cluster in found.clusters] == [("p000",)] * lone
    assert found.positions.tolist() == [[0, 0]] * n
    assert found.shown == 0


@pytest.mark.parametrize(
    "options", [{}, {"k": 5}, {"threshold": 1, "method": "agglomerative"}], ids=str
)
def test_all_equal_vectors_are_one_cluster_without_nan(fill, circle, options) -> None:
    """Of five means only one has passages."""
    with Retriever.open(":memory:", model=PLANE) as retriever:
        fill(retriever, circle(*[30] * 12))
        found = find_clusters(retriever, **options)
    if options.get("method") != "agglomerative":
        assert [cluster.size for cluster in found.clusters] == [12]
        assert found.clusters[0].cohesion == pytest.approx(1)
    assert np.abs(found.positions).max() < 1e-6
    assert 0 <= found.shown <= 1


def test_opposite_vectors_have_no_middle_and_still_a_cluster(fill, circle) -> None:
    with Retriever.open(":memory:", model=PLANE) as retriever:
        fill(retriever, circle(0, 180))
        (cluster,) = find_clusters(retriever, k=1).clusters
    assert sorted(cluster.ids) == ["p000", "p001"]
    assert cluster.cohesion == 0


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"k": 4}, "k is 4 and there are 3 passages"),
        ({"k": 4, "method": "agglomerative"}, "k is 4 and there are 3 passages"),
        ({"k": 0}, "k is 0"),
        ({"k": 2, "seed": -1}, "seed is -1, expected 0 or more"),
        ({"k": 2, "seed": 2**32}, "seed is 4294967296, expected 4294967295 or less"),
        ({"min_size": 0}, "min_size is 0"),
        ({"threshold": 1.5}, "expected a cosine, from -1 to 1"),
        ({"threshold": math.nan}, "expected a cosine, from -1 to 1"),
        ({"method": "dbscan"}, "method is 'dbscan'"),
        ({"method": "communities", "k": 2}, "communities have no k"),
        ({"method": "kmeans"}, "kmeans takes k"),
        ({"k": 2, "threshold": 0.5}, "kmeans takes k and no threshold"),
        ({"method": "agglomerative"}, "either k or a threshold"),
        ({"method": "agglomerative", "k": 2, "threshold": 0.5}, "either k or a threshold"),
    ],
    ids=str,
)
def test_wrong_use(fill, circle, options, said) -> None:
    with Retriever.open(":memory:", model=PLANE) as retriever:
        fill(retriever, circle(0, 1, 2))
        with pytest.raises(InputError, match=said):
            find_clusters(retriever, **options)
        with pytest.raises(InputTypeError, match=r"k is 2\.5"):
            find_clusters(retriever, k=2.5)


def test_a_tree_of_too_many_passages_is_refused_before_it_is_begun() -> None:
    with pytest.raises(InputError, match="narrow them with a filter"):
        agglomerative(np.ones((LARGEST_TREE + 1, 1), np.float32), k=2)


def test_without_scikit_learn_the_line_that_installs_it_is_named(monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "sklearn.cluster", None)
    rows = np.eye(3, dtype=np.float32)
    for run in (lambda: k_means(rows, 2), lambda: agglomerative(rows, k=2)):
        with pytest.raises(MissingExtraError, match=r'pip install "\.\[eval\]" in the checkout'):
            run()


# The map -----------------------------------------------------------------------------------


def test_the_plane_keeps_distances_of_what_lies_in_a_plane() -> None:
    """A rectangle of 6 by 2, turned into five dimensions: 90 % of the variance is on one axis."""
    corners = np.array([[3, 1], [3, -1], [-3, 1], [-3, -1]], dtype=np.float64)
    axes, _ = np.linalg.qr(np.random.default_rng(0).standard_normal((5, 5)))
    rows = (corners @ axes[:, :2].T + 7).astype(np.float32)
    plane = principal_plane(rows)
    assert np.abs(plane.positions) == pytest.approx(np.abs(corners), abs=1e-5)
    assert plane.shown == pytest.approx(1)
    assert principal_plane(rows + np.float32([[0], [0], [0], [0]])).positions.tolist() == (
        plane.positions.tolist()
    )


def test_the_share_that_the_plane_keeps() -> None:
    """Variances 9, 4 and 1 along three axes."""
    rows = np.float32([[3, 0, 0], [-3, 0, 0], [0, 2, 0], [0, -2, 0], [0, 0, 1], [0, 0, -1]])
    assert principal_plane(rows).shown == pytest.approx(13 / 14)
    assert principal_plane(rows[:, :1]).positions[:, 1].tolist() == [0] * 6


@pytest.fixture
def three(fill, circle):
    with Retriever.open(":memory:", model=PLANE) as retriever:
        fill(retriever, circle(0, 1, 2, 120, 121, 122, 123, 200))
        retriever.index([Passage("odd", "costs $5 or $x_\x1b^2$, 漢字")])
        yield find_clusters(retriever, threshold=0.9)


def test_a_picture_as_png_and_as_svg(three, tmp_path) -> None:
    png = write_picture(three, tmp_path / "map.png")
    assert png.read_bytes().startswith(b"\x89PNG")
    svg = write_picture(three, tmp_path / "map.svg")
    assert ElementTree.parse(svg).getroot().tag.endswith("svg")


def test_texts_with_signs_of_formulas_and_foreign_letters_are_drawn(three, tmp_path) -> None:
    from dataclasses import replace

    central = Passage("odd", "costs $5 or $x_\x1b^2$, 漢字")
    first = replace(three.clusters[0], central=central)
    odd = replace(three, clusters=[first, *three.clusters[1:]])
    assert write_picture(odd, tmp_path / "map.svg").stat().st_size > 1000


def test_a_picture_of_nothing(tmp_path) -> None:
    with Retriever.open(":memory:", model=PLANE) as retriever:
        found = find_clusters(retriever)
    assert write_picture(found, tmp_path / "map.png").exists()


def test_a_picture_elsewhere_or_of_another_kind_is_refused(three, tmp_path) -> None:
    with pytest.raises(InputError, match=r"ends in '.pdf', expected .png or .svg"):
        write_picture(three, tmp_path / "map.pdf")
    with pytest.raises(InputError, match="is no folder"):
        write_picture(three, tmp_path / "absent" / "map.png")
    (tmp_path / "folder.png").mkdir()
    with pytest.raises(InputError, match="cannot be written: name a file"):
        write_picture(three, tmp_path / "folder.png")
    assert [path.name for path in tmp_path.iterdir()] == ["folder.png"]


# Real questions ----------------------------------------------------------------------------


@pytest.mark.full
@pytest.mark.data
def test_banking77_beside_k_means_alone(data_dir, minilm, fill, capsys) -> None:
    """V-measure against the 77 intents; a passage in no cluster counts as one of its own.

    The two k-means begin from other rows, since the store has an order of its own: their figures
    differ as those of two seeds do.
    """
    with (data_dir / "banking77" / "test.csv").open(encoding="utf-8", newline="") as file:
        questions = [(row["text"], row["category"]) for row in csv.DictReader(file)]
    rows = minilm.encode_passages([text for text, _ in questions])
    intents = [intent for _, intent in questions]
    k = len(set(intents))
    figures = {}
    for seed in (0, 1, 2):
        reference = KMeans(n_clusters=k, random_state=seed, n_init="auto").fit_predict(rows)
        name = f"scikit-learn's KMeans on the same vectors, seed {seed}"
        figures[name] = v_measure_score(intents, reference)
    with Retriever.open(":memory:", model=minilm) as retriever:
        fill(retriever, rows, [str(n) for n in range(len(rows))])
        for options in (
            *({"k": k, "seed": seed} for seed in (0, 1, 2)),
            {"k": k, "method": "agglomerative"},
            {"threshold": 0.75},
            {"threshold": 0.65},
        ):
            found = find_clusters(retriever, **options)
            labels = [n if n >= 0 else -1 - place for place, n in enumerate(found.labels.tolist())]
            truth = [intents[int(name)] for name in found.ids]
            name = f"{options}: {len(found.clusters)} clusters, {found.unassigned} in none"
            figures[name] = v_measure_score(truth, labels)
    with capsys.disabled():
        print(f"\nbanking77 test, {len(questions)} questions, {k} intents, V-measure:")
        print("\n".join(f"  {value:.4f} {name}" for name, value in figures.items()), end="")
    assert all(0.6 < value < 1 for value in figures.values())
