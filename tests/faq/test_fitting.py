"""Learning when to answer, beside scikit-learn and by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score

from sbert_retriever.errors import ContractError, InputError
from sbert_retriever.faq.calibration import Calibration, Thresholds
from sbert_retriever.faq.fitting import (
    auroc,
    calibration_error,
    fitted,
    out_of_fold,
    threshold_for,
)
from sbert_retriever.faq.learning import Sample, calibrated
from sbert_retriever.faq.opening import Setup

NAMES = ("score", "margin", "share")
SETUP = Setup(model="m", mode="dense")


def drawn(n: int = 2000, seed: int = 0) -> Sample:
    """Scores whose chance of being right is known: 1 / (1 + exp(-(8 s - 4)))."""
    draw = np.random.default_rng(seed)
    values = np.column_stack(
        [draw.uniform(0, 1, n), draw.uniform(0, 0.3, n), draw.uniform(0, 1, n)]
    )
    right = draw.uniform(size=n) < 1 / (1 + np.exp(4 - 8 * values[:, 0]))
    inside = right | (draw.uniform(size=n) < 0.3)
    return Sample(
        features=NAMES,
        values=values,
        right=right,
        listed=right,
        in_scope=inside,
        exact=0,
        exact_right=0,
        unclear=0,
    )


def test_the_same_chances_as_scikit_learn() -> None:
    sample = drawn()
    weights = np.where(sample.in_scope, 1.2, 0.7)
    ours = fitted(sample.values, sample.right, features=NAMES, weights=weights)
    theirs = LogisticRegression(C=1e6, max_iter=10_000, tol=1e-10)
    theirs.fit(sample.values, sample.right, sample_weight=weights)
    expected = theirs.predict_proba(sample.values)[:, 1]
    np.testing.assert_allclose(ours.chances(sample.values), expected, atol=1e-4)
    one = dict(zip(NAMES, sample.values[0], strict=True))
    assert ours.chance(one) == pytest.approx(expected[0], abs=1e-4)


def test_perfectly_told_apart_classes_keep_finite_weights() -> None:
    values = np.linspace(0, 1, 100)[:, None]
    model = fitted(values, values[:, 0] > 0.5, features=("score",))
    assert np.isfinite(model.weights).all()
    assert model.chance({"score": 0.9}) > 0.99
    constant = fitted(np.ones((100, 1)), np.arange(100) < 30, features=("score",))
    assert constant.chance({"score": 1.0}) == pytest.approx(0.3, abs=1e-3)


def test_out_of_fold_chances_come_from_models_that_did_not_see_the_question() -> None:
    """Of random labels nothing can be learned: in the fold it looks as if it could."""
    draw = np.random.default_rng(1)
    values, right = draw.normal(size=(60, 20)), draw.uniform(size=60) < 0.5
    names = tuple(map(str, range(20)))
    seen = fitted(values, right, features=names).chances(values)
    unseen = out_of_fold(values, right, features=names, weights=np.ones(60), folds=5, seed=0)
    assert auroc(seen, right) > 0.8
    assert 0.2 < auroc(unseen, right) < 0.7


def test_the_same_question_is_in_one_fold() -> None:
    """Each of 20 random questions eight times: seen in another fold, its label was known."""
    draw = np.random.default_rng(1)
    values, right = draw.normal(size=(20, 20)), np.arange(20) < 10
    values, right, same = (np.tile(a, (8, 1)[: a.ndim]) for a in (values, right, np.arange(20)))
    names, weights = tuple(map(str, range(20))), np.ones(160)
    apart = out_of_fold(
        values, right, features=names, weights=weights, folds=5, seed=0, same=same * 7
    )
    leaking = out_of_fold(values, right, features=names, weights=weights, folds=5, seed=0)
    assert auroc(leaking, right) > 0.99
    assert auroc(apart, right) < 0.8
    assert len(np.unique(apart.round(12))) <= 20  # copies have one chance
    settings = {"features": names, "weights": np.ones(20), "folds": 5, "seed": 0}
    alone = out_of_fold(values[:20], right[:20], **settings)
    each = out_of_fold(values[:20], right[:20], **settings, same=same[:20])
    np.testing.assert_array_equal(alone, each)


def test_a_threshold_keeps_its_promise_on_other_questions() -> None:
    """A threshold that meets the target just so on its own sample misses it every second time."""
    kept = 0
    for seed in range(20):
        own, other = drawn(1000, seed), drawn(20_000, 100 + seed)
        report = calibrated(own, SETUP, target=0.9)
        calibration = report.calibration
        answered = calibration.right.chances(other.values) >= calibration.answer_at
        kept += other.right[answered].mean() >= 0.9
    assert kept >= 15


def test_thresholds_by_hand() -> None:
    chances = np.array([0.9, 0.9, 0.8, 0.7])
    # Of the two at 0.9 one is right: neither alone may be answered.
    assert threshold_for(chances, np.array([1, 0, 1, 1], dtype=bool), target=0.9) is None
    many = np.repeat(chances, 500)
    right = np.repeat([True, True, True, False], 500)
    assert threshold_for(many, right, target=0.95) == 0.8
    assert threshold_for(many, right, target=0.5) == 0.7
    # Weighted: the wrong ones count four times as much, 1500 right against 2000 wrong.
    weights = np.where(right, 1.0, 4.0)
    assert threshold_for(many, right, target=0.5, weights=weights) == 0.8


def test_questions_that_do_not_count_may_be_the_surest() -> None:
    """A share of 0 out of scope divided by nothing where such a question came first."""
    sample = drawn(400)
    values = sample.values.copy()
    values[np.flatnonzero(~sample.in_scope)[0], 0] = 1.5
    odd = replace(sample, values=values)
    report = calibrated(odd, SETUP, target=0.8, share=0.0)
    assert report.calibration.out_of_scope_share == 0
    assert report.curve[0].precision == 0  # that question alone, which counts for nothing
    inside = sample.rows(np.flatnonzero(sample.in_scope))
    alone = calibrated(inside, SETUP, target=0.8)
    assert report.calibration.precision == pytest.approx(alone.calibration.precision, abs=0.05)
    none = np.array([0.0, 1.0, 1.0])
    chances, right = np.array([0.9, 0.8, 0.7]), np.array([False, True, True])
    assert threshold_for(chances, right, target=0.1, weights=none) == 0.7


def test_auroc_beside_scikit_learn_with_ties() -> None:
    draw = np.random.default_rng(3)
    scores, positive = draw.integers(0, 5, 300).astype(float), draw.uniform(size=300) < 0.4
    assert auroc(scores, positive) == pytest.approx(roc_auc_score(positive, scores))
    assert auroc(scores, np.ones(300, dtype=bool)) is None


def test_calibration_error_by_hand() -> None:
    # Bins of 1/15: 0.1 and 0.11 share one (mean 0.105, none right), 0.95 is alone and right.
    chances = np.array([0.1, 0.11, 0.95])
    right = np.array([False, False, True])
    assert calibration_error(chances, right) == pytest.approx((0.21 + 0.05) / 3)


def test_a_report_says_what_another_share_would_do() -> None:
    sample = drawn(4000)
    report = calibrated(sample, SETUP, target=0.9)
    answered_at_own = report.calibration.precision
    own = report.calibration.out_of_scope_share
    assert own == pytest.approx((~sample.in_scope).mean())
    shares = sorted(report.by_share)
    assert [report.by_share[s] for s in shares] == sorted(report.by_share.values(), reverse=True)
    between = [report.by_share[s] for s in shares if s <= own][-1]
    assert between >= answered_at_own >= report.by_share[0.5] - 1e-9
    assert report.curve[0].coverage < report.curve[-1].coverage == 1.0
    strict = calibrated(sample, SETUP, target=0.9, share=0.6).calibration
    assert strict.answer_at > 0
    assert strict.coverage < report.calibration.coverage
    assert strict.out_of_scope_share == pytest.approx(0.6)


def test_a_wrong_entry_by_feedback_is_not_out_of_scope() -> None:
    """Another entry may answer: such questions were counted as if none did."""
    inside, outside = drawn(1000, 1), drawn(1000, 2)
    labelled = inside.rows(np.flatnonzero(inside.in_scope))
    others = outside.rows(np.flatnonzero(~outside.in_scope))
    half, n = len(others.right) // 2, len(labelled.right)

    def with_others(unknown: np.ndarray | None) -> Sample:
        both = {
            name: np.concatenate([getattr(labelled, name), getattr(others, name)])
            for name in ("values", "right", "listed", "in_scope")
        }
        if unknown is not None:
            unknown = np.concatenate([np.zeros(n, dtype=bool), unknown])
        return replace(labelled, **both, unknown=unknown)

    said = np.arange(len(others.right)) < half
    known, some = with_others(None), with_others(said)
    report, mixed = (calibrated(each, SETUP, target=0.8) for each in (known, some))
    assert (report.scope_unknown, mixed.scope_unknown) == (0, half)
    assert (report.in_scope, mixed.in_scope) == (n, n)
    # They count where they are known to be wrong, and the same questions are answered.
    assert mixed.calibration.precision == report.calibration.precision
    assert mixed.calibration.coverage == report.calibration.coverage
    left = len(others.right) - half
    assert mixed.calibration.out_of_scope_share == pytest.approx(left / (n + left))
    kept = np.flatnonzero(~np.concatenate([np.zeros(n, dtype=bool), said]))
    score = known.values[kept, 0]
    assert mixed.auroc["score"] == pytest.approx(roc_auc_score(known.in_scope[kept], score))
    told = calibrated(some, SETUP, target=0.8, share=0.3).calibration
    assert told.out_of_scope_share == pytest.approx(0.3)


def test_a_report_prints_and_draws(tmp_path) -> None:
    report = calibrated(drawn(), SETUP, target=0.9)
    table = report.table()
    assert "precision" in table
    assert f"confidence {report.calibration.answer_at:.3f}" in table
    assert len(report.thinned(12)) == 12
    report.plot(tmp_path / "curve.png")
    assert (tmp_path / "curve.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("n", "target", "says"),
    [(20, 0.9, "give 30 at least"), (400, 1.0, "the best is")],
)
def test_what_cannot_be_learned_is_said(n: int, target: float, says: str) -> None:
    with pytest.raises(InputError, match=says):
        calibrated(drawn(n), SETUP, target=target)


def test_a_calibration_survives_its_metadata() -> None:
    import json

    kept = calibrated(drawn(), SETUP, target=0.9).calibration
    assert Calibration.from_metadata(json.loads(json.dumps(kept.to_metadata()))) == kept
    with pytest.raises(ContractError, match="make one anew"):
        Calibration.from_metadata({**kept.to_metadata(), "later": 1})


def test_thresholds_are_numbers() -> None:
    asked = Thresholds(score=0.7, margin=0.1, choose=0.5)
    assert asked.outcome(score=0.7, margin=0.1) == "answer"
    assert asked.outcome(score=0.9, margin=0.09) == "choose"
    assert asked.outcome(score=0.49, margin=0.4) == "abstain"
    with pytest.raises(InputError, match=r"Thresholds.score is nan"):
        Thresholds(score=float("nan"), choose=0.5)
