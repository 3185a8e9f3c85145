"""Operating points are plain, checked, and survive a file."""

from __future__ import annotations

import dataclasses

import pytest

from sbert_retriever.errors import InputError, InputTypeError
from sbert_retriever.rerank import EarlyStop, RerankOptions
from sbert_retriever.types import Profile


@pytest.mark.parametrize("name", ["fast", "balanced", "accurate"])
def test_a_named_profile_survives_a_file(name, tmp_path):
    profile = Profile.named(name)
    assert profile.name == name
    profile.save(tmp_path / "profile.json")
    assert Profile.load(tmp_path / "profile.json") == profile
    with pytest.raises(dataclasses.FrozenInstanceError):
        profile.candidates = 1


def test_each_costs_more_than_the_one_before():
    fast, balanced, accurate = map(Profile.named, ("fast", "balanced", "accurate"))
    assert fast.rerank_depth < balanced.rerank_depth < accurate.rerank_depth
    assert fast.candidates <= balanced.candidates <= accurate.candidates


def test_it_prints_what_is_set():
    profile = Profile(name="mine", budget_ms=200, ef=64)
    assert str(profile) == (
        "mine: candidates=50, rerank_depth=None, rerank_mode='replace', budget_ms=200, ef=64"
    )


def test_zero_is_a_value_and_none_is_unset():
    assert Profile(rerank_depth=0, budget_ms=0, fuse_weight=0.0, rerank_mode="fuse").budget_ms == 0


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"candidates": 0}, InputError),
        ({"candidates": 2.5}, InputTypeError),
        ({"candidates": True}, InputTypeError),
        ({"rerank_depth": -1}, InputError),
        ({"rerank_mode": "mix"}, InputError),
        ({"fuse_weight": 1.5, "rerank_mode": "fuse"}, InputError),
        ({"fuse_weight": 0.5}, InputError),
        ({"pair_length": 4}, InputError),
        ({"budget_ms": float("nan")}, InputError),
        ({"budget_ms": float("inf")}, InputError),
        ({"early_batches": 0}, InputError),
        ({"ef": 0}, InputError),
        ({"truncate_dim": 0}, InputError),
        ({"exact": "yes"}, InputTypeError),
        ({"name": 3}, InputTypeError),
    ],
)
def test_values_out_of_range_are_refused(fields, error):
    with pytest.raises(error, match=next(iter(fields))):
        Profile(**fields)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "cannot be read"),
        ("[1]", "holds list"),
        ('{"depth": 3}', "depth"),
        ('{"candidates": 0}', "candidates is 0"),
        ('{"fusion": {"weight": 0.3}}', "fusion holds weight, expected some of .*'sparse_weight'"),
    ],
)
def test_a_file_that_holds_no_profile_is_refused(text, said, tmp_path):
    path = tmp_path / "profile.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match=said):
        Profile.load(path)


def test_an_unknown_name_lists_the_known_ones():
    with pytest.raises(InputError, match="fast, balanced, accurate"):
        Profile.named("quick")


def test_a_file_that_is_absent_is_named(tmp_path):
    with pytest.raises(InputError, match=r"absent\.json"):
        Profile.load(tmp_path / "absent.json")


def test_a_profile_says_what_the_reranker_does():
    profile = Profile(
        rerank_depth=20, rerank_mode="fuse", fuse_weight=0.0, early_batches=2, budget_ms=0
    )
    asked = RerankOptions.of(profile, k=5)
    assert (asked.k, asked.candidates, asked.mode, asked.weight) == (5, 20, "fuse", 0.0)
    assert (asked.budget_ms, asked.early_stop) == (0, EarlyStop(stable_batches=2))
    assert RerankOptions.of(Profile(), k=None) == RerankOptions()
