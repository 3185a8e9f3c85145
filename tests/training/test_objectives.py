"""Objectives: their gradients, values worked out by hand, and sentence-transformers' own."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer import losses
from sentence_transformers.sentence_transformer.losses import (
    BatchHardTripletLossDistanceFunction,
    TripletDistanceMetric,
)
from torch import Tensor

from sbert_retriever.errors import InputError
from sbert_retriever.training.objectives import OBJECTIVES, read_objective
from sbert_retriever.training.objectives.classification import softmax_classification
from sbert_retriever.training.objectives.distillation import margin_mse, vector_distillation
from sbert_retriever.training.objectives.in_batch import info_nce
from sbert_retriever.training.objectives.matryoshka import MatryoshkaModule
from sbert_retriever.training.objectives.pairs import (
    pair_binary,
    pair_classification,
    pair_distillation,
    pair_regression,
)
from sbert_retriever.training.objectives.regression import cosine_regression
from sbert_retriever.training.objectives.triplet import batch_all, batch_hard, triplet

ALL_PARTS = [
    ("u", "v"),
    ("|u-v|",),
    ("u*v",),
    ("|u-v|", "u*v"),
    ("u", "v", "u*v"),
    ("u", "v", "|u-v|"),
    ("u", "v", "|u-v|", "u*v"),
]
DISTANCES = ["euclidean", "cosine", "manhattan"]


def vectors(*shape: int, seed: int = 0) -> Tensor:
    made = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=made, dtype=torch.float64, requires_grad=True)


def columns(count: int, batch: int = 6, dim: int = 5) -> list[Tensor]:
    return [vectors(batch, dim, seed=seed) for seed in range(count)]


LABELS = torch.tensor([0, 1, 2, 0, 1, 2])
SCORES = torch.tensor([0.1, 0.9, 0.5, 0.0, 1.0, 0.3], dtype=torch.float64)

CASES: dict[str, Any] = {
    "cosine_regression": (lambda u, v: cosine_regression(u, v, SCORES), 2),
    **{
        f"triplet-{d}": (lambda a, p, n, d=d: triplet(a, p, n, distance=d, margin=1.0), 3)
        for d in DISTANCES
    },
    **{
        f"batch-all-{d}": (lambda x, d=d: batch_all(x, LABELS, distance=d, margin=1.0), 1)
        for d in DISTANCES
    },
    **{
        f"batch-hard-{d}": (lambda x, d=d: batch_hard(x, LABELS, distance=d, margin=1.0), 1)
        for d in DISTANCES
    },
    "in-batch": (lambda q, p: info_nce(q, p, temperature=0.5), 2),
    "in-batch-negatives-symmetric": (
        lambda q, p, n, m: info_nce(q, p, [n, m], temperature=0.5, symmetric=True),
        4,
    ),
    "dpr": (lambda q, p, n: info_nce(q, p, [n], temperature=1.0, similarity="dot"), 3),
    "distil-vectors": (lambda u, v: vector_distillation([u, v], vectors(6, 5, seed=9).detach()), 2),
    "distil-margins": (
        lambda q, p, n, m: margin_mse(q, p, [n, m], vectors(6, 2, seed=9).detach()),
        4,
    ),
}
for parts in ALL_PARTS:
    weight = vectors(3, 5 * len(parts), seed=7)
    CASES[f"classification-{'+'.join(parts)}"] = (
        lambda u, v, w, parts=parts: softmax_classification(u, v, LABELS, weight=w, parts=parts),
        (2, weight),
    )
PAIR_CASES: dict[str, Any] = {
    "pair-regression": (lambda z: pair_regression(z, SCORES), 1),
    "pair-binary": (lambda z: pair_binary(z, SCORES), 1),
    "pair-classification": (lambda z: pair_classification(z, LABELS), 3),
    "pair-distillation": (lambda z: pair_distillation(z, vectors(6, 1, seed=9).detach()), 1),
}


@pytest.mark.parametrize("name", CASES)
def test_the_gradient_is_that_of_finite_differences(name: str) -> None:
    function, needs = CASES[name]
    count, *more = needs if isinstance(needs, tuple) else (needs,)
    assert torch.autograd.gradcheck(function, [*columns(count), *more])


@pytest.mark.parametrize("name", PAIR_CASES)
def test_the_gradient_of_logits_is_that_of_finite_differences(name: str) -> None:
    function, labels = PAIR_CASES[name]
    assert torch.autograd.gradcheck(function, [vectors(6, labels)])


def test_the_gradient_of_matryoshka_is_that_of_finite_differences() -> None:
    parts = [read_objective("in-batch").build(dim) for dim in (2, 5)]
    module = MatryoshkaModule(parts, dims=(2, 5), weights=(0.5, 1.0), normalize=True)
    assert torch.autograd.gradcheck(lambda q, p: module([q, p], None), columns(2))


# Values against sentence-transformers ----------------------------------------------------


@pytest.fixture(scope="module")
def theirs(tiny: str) -> SentenceTransformer:
    """A model that their losses want to be made with; the embeddings are ours."""
    return SentenceTransformer(tiny, device="cpu")


def single(count: int, batch: int = 8) -> list[Tensor]:
    return [x.detach().float() for x in columns(count, batch=batch, dim=32)]


def same(ours: Tensor, their: Tensor) -> None:
    assert ours.item() == pytest.approx(their.item(), abs=1e-5)


def test_regression_is_their_cosine_similarity_loss(theirs) -> None:
    u, v = single(2)
    scores = torch.linspace(0, 1, 8)
    their = losses.CosineSimilarityLoss(theirs).compute_loss_from_embeddings([u, v], scores)
    same(cosine_regression(u, v, scores), their)


@pytest.mark.parametrize("parts", [("u", "v"), ("|u-v|",), ("u", "v", "|u-v|", "u*v")])
def test_classification_is_their_softmax_loss(theirs, parts, monkeypatch) -> None:
    u, v = single(2)
    labels = torch.tensor([0, 1, 2, 0, 1, 2, 0, 1])
    loss = losses.SoftmaxLoss(
        theirs,
        32,
        3,
        concatenation_sent_rep="u" in parts,
        concatenation_sent_difference="|u-v|" in parts,
        concatenation_sent_multiplication="u*v" in parts,
    )
    torch.nn.init.zeros_(loss.classifier.bias)
    home = "sentence_transformers.sentence_transformer.losses.softmax.embed_columns"
    monkeypatch.setattr(home, lambda *_: [u, v])
    ours = softmax_classification(u, v, labels, weight=loss.classifier.weight, parts=parts)
    same(ours, loss([], labels))


@pytest.mark.parametrize("distance", DISTANCES)
def test_triplet_is_their_triplet_loss(theirs, distance: str) -> None:
    a, p, n = single(3)
    metric = getattr(TripletDistanceMetric, distance.upper())
    loss = losses.TripletLoss(theirs, distance_metric=metric, triplet_margin=1.0)
    their = loss.compute_loss_from_embeddings([a, p, n], torch.zeros(8))
    same(triplet(a, p, n, distance=distance, margin=1.0), their)


@pytest.mark.parametrize("distance", ["euclidean", "cosine"])
@pytest.mark.parametrize("mining", ["all", "hard"])
def test_batch_triplets_are_theirs(theirs, distance: str, mining: str) -> None:
    (x,) = single(1)
    labels = torch.tensor([0, 0, 1, 1, 2, 2, 2, 0])
    metric = getattr(BatchHardTripletLossDistanceFunction, f"{distance}_distance")
    kind = losses.BatchAllTripletLoss if mining == "all" else losses.BatchHardTripletLoss
    their = kind(theirs, distance_metric=metric, margin=1.0).compute_loss_from_embeddings(
        [x], labels
    )
    ours = (batch_all if mining == "all" else batch_hard)(x, labels, distance=distance, margin=1.0)
    same(ours, their)


@pytest.mark.parametrize("negatives", [0, 2])
def test_in_batch_is_their_multiple_negatives_ranking_loss(theirs, negatives: int) -> None:
    q, p, *n = single(2 + negatives)
    loss = losses.MultipleNegativesRankingLoss(theirs, scale=20.0)
    their = loss.compute_loss_from_embeddings([q, p, *n], torch.zeros(8))
    same(info_nce(q, p, n, temperature=0.05), their)


def test_symmetric_in_batch_is_their_symmetric_loss(theirs) -> None:
    q, p = single(2)
    loss = losses.MultipleNegativesRankingLoss(
        theirs,
        scale=20.0,
        directions=("query_to_doc", "doc_to_query"),
        partition_mode="per_direction",
    )
    their = loss.compute_loss_from_embeddings([q, p], torch.zeros(8))
    same(info_nce(q, p, temperature=0.05, symmetric=True), their)


@pytest.mark.parametrize("negatives", [1, 2])
def test_distilled_margins_are_their_margin_mse(theirs, negatives: int) -> None:
    q, p, *n = single(2 + negatives)
    margins = single(1)[0][:, :negatives] * 3
    their = losses.MarginMSELoss(theirs).compute_loss_from_embeddings(
        [q, p, *n], margins[:, 0] if negatives == 1 else margins
    )
    same(margin_mse(q, p, n, margins), their)


def test_distilled_vectors_are_their_mse_loss(theirs, monkeypatch) -> None:
    u, v, teacher = single(3)
    home = "sentence_transformers.sentence_transformer.losses.embed_distill.embed_columns"
    monkeypatch.setattr(home, lambda *_: [u, v])
    same(vector_distillation([u, v], teacher), losses.MSELoss(theirs)([], teacher))


def test_matryoshka_is_the_sum_over_widths() -> None:
    q, p = single(2)
    parts = [read_objective("in-batch").build(dim) for dim in (8, 32)]
    module = MatryoshkaModule(parts, dims=(8, 32), weights=(0.25, 1.0), normalize=True)
    expected = 0.25 * info_nce(q[:, :8], p[:, :8]) + info_nce(q, p)
    same(module([q, p], None), expected)


def test_a_student_that_is_its_teacher_has_nothing_to_learn_at_any_width() -> None:
    """Vectors of length 1, cut and set to length 1 again, are compared with the teacher's alike."""
    (teacher,) = (torch.nn.functional.normalize(x, dim=1) for x in single(1))
    parts = [read_objective("distil-vectors").build(dim) for dim in (8, 32)]
    module = MatryoshkaModule(parts, dims=(8, 32), weights=(1.0, 1.0), normalize=True)
    assert module([teacher], teacher).item() == pytest.approx(0, abs=1e-12)


# Values by hand --------------------------------------------------------------------------


def test_the_classifier_of_zeros_knows_nothing() -> None:
    """Equal logits for three labels cost log 3."""
    u, v = single(2)
    loss = softmax_classification(
        u, v, torch.zeros(8, dtype=torch.int64), weight=torch.zeros(3, 64), parts=("u", "v")
    )
    assert loss.item() == pytest.approx(math.log(3))


def test_batch_all_and_hard_by_hand() -> None:
    """Points 0, 1 of one label and 1.5 of another, margin 1.

    Anchor 0: positive at 1, negative at 1.5: 0.5. Anchor 1: positive at 1, negative at 0.5: 1.5.
    The anchor at 1.5 has no positive. Both means are 1.
    """
    x = torch.tensor([[0.0], [1.0], [1.5]])
    labels = torch.tensor([0, 0, 1])
    for mine in (batch_all, batch_hard):
        assert mine(x, labels, distance="euclidean", margin=1.0).item() == pytest.approx(1.0)


def test_a_batch_without_triplets_has_no_loss_and_a_gradient() -> None:
    x = torch.randn(3, 4, requires_grad=True)
    for mine in (batch_all, batch_hard):
        loss = mine(x, torch.tensor([0, 0, 0]), distance="cosine", margin=1.0)
        loss.backward()
        assert loss.item() == 0


def test_binary_by_hand() -> None:
    """A logit of 0 costs log 2, whatever the target."""
    assert pair_binary(torch.zeros(4, 1), torch.tensor([0, 1, 0.5, 1])).item() == pytest.approx(
        math.log(2)
    )


# Settings --------------------------------------------------------------------------------


def test_every_objective_is_made_by_name() -> None:
    for name, kind in OBJECTIVES.items():
        assert isinstance(read_objective(name), kind)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("softmax", "'softmax' is not one of classification, regression"),
        ({"name": "triplet", "margins": 1}, "no setting 'margins', expected distance, margin"),
        ({"name": "triplet", "margin": 0}, "margin is 0, expected a number above 0"),
        ({"name": "triplet", "distance": "l3"}, "distance is 'l3', expected one of euclidean"),
        ({"name": "batch-triplet", "mining": "semi"}, "mining is 'semi', expected one of all"),
        ({"name": "in-batch", "temperature": float("nan")}, "temperature is nan"),
        ({"name": "classification", "labels": ["yes"]}, "expected two or more"),
        ({"name": "classification", "labels": ["yes", "Yes"]}, "each once"),
        ({"name": "classification", "labels": "yes"}, "expected a list"),
        ({"name": "classification", "concatenation": ["u", "w"]}, "expected one or more of u, v"),
        ({"name": "classification", "concatenation": []}, "expected one or more of u, v"),
    ],
)
def test_wrong_settings_are_refused_by_name(given, words: str) -> None:
    with pytest.raises(InputError) as caught:
        read_objective(given)
    assert words in str(caught.value)


def test_a_negative_that_is_there_twice_weighs_once() -> None:
    """Row 0 has n0 twice, row 1 has two of its own: five candidates, each once."""
    torch.manual_seed(0)
    q, p, n, m = torch.randn(4, 2, 6).unbind()
    m[0] = n[0] + 0.1 * torch.randn(6)  # another draw of dropout
    mark = torch.tensor([[False, True], [False, False]])
    found = info_nce(q, p, [n, m], temperature=0.5, similarity="dot", repeated=mark)
    candidates = [p[0], p[1], n[0], n[1], m[1]]
    rows = [[(row @ c).item() / 0.5 for c in candidates] for row in q]
    expected = [-math.log(math.exp(s[i]) / sum(map(math.exp, s))) for i, s in enumerate(rows)]
    assert found.item() == pytest.approx(sum(expected) / 2, abs=1e-5)
