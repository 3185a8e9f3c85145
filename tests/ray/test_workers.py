"""How many workers there are, where nothing or too much was said."""

from __future__ import annotations

import math

import pytest
from sbert_ray import Workers
from sbert_ray.workers import Pool, settled

from sbert_retriever.errors import InputError, InputTypeError


@pytest.mark.parametrize(
    ("asked", "resources", "pool"),
    [
        # One for every four cores, or on a small machine for all of them.
        (Workers(), {"CPU": 2}, Pool(count=1, cpus=2, gpus=0)),
        (Workers(), {"CPU": 18}, Pool(count=4, cpus=4, gpus=0)),
        # One for each GPU, whatever the cores; or several that share one.
        (Workers(), {"CPU": 64, "GPU": 8}, Pool(count=8, cpus=1, gpus=1)),
        (Workers(gpus=0.5), {"CPU": 64, "GPU": 2}, Pool(count=4, cpus=1, gpus=0.5)),
        (Workers(gpus=0), {"CPU": 64, "GPU": 8}, Pool(count=16, cpus=4, gpus=0)),
        # The cores are shared out among as many as were asked for.
        (Workers(count=3), {"CPU": 8}, Pool(count=3, cpus=2, gpus=0)),
        (Workers(count=2, cpus=0.5), {"CPU": 1}, Pool(count=2, cpus=0.5, gpus=0)),
        # A tenth of a core fits ten times: 1.0 // 0.1 is 9.
        (Workers(count=10, cpus=0.1), {"CPU": 1.0}, Pool(count=10, cpus=0.1, gpus=0)),
        (Workers(cpus=0.1), {"CPU": 4.0}, Pool(count=40, cpus=0.1, gpus=0)),
    ],
)
def test_what_is_left_open_is_chosen(asked, resources, pool) -> None:
    assert settled(asked, resources, growing=False) == pool


@pytest.mark.parametrize(
    ("asked", "resources"),
    [(Workers(count=8), {"CPU": 2}), (Workers(gpus=1), {"CPU": 2}), (Workers(cpus=4), {"CPU": 2})],
)
def test_what_does_not_fit_is_refused_where_nothing_can_be_added(asked, resources) -> None:
    """Ray would wait for it without end; a cluster may grow, and is waited for."""
    with pytest.raises(InputError, match="were asked for, and there are 2 CPUs and 0 GPUs"):
        settled(asked, resources, growing=False)
    assert settled(asked, resources, growing=True).count >= 1


@pytest.mark.parametrize(
    "wrong", [{"count": 0}, {"cpus": 1.5}, {"gpus": -1}, {"cpus": math.inf}, {"gpus": math.nan}]
)
def test_numbers_out_of_range_are_refused(wrong) -> None:
    with pytest.raises(InputError, match="Workers"):
        Workers(**wrong)


@pytest.mark.parametrize(
    "wrong", [{"count": 2.5}, {"count": "2"}, {"count": True}, {"cpus": "2"}, {"gpus": False}]
)
def test_what_is_no_number_of_workers_is_refused(wrong) -> None:
    """Not by Ray, or by a comparison deep inside."""
    with pytest.raises(InputTypeError, match=rf"Workers.{next(iter(wrong))} is .*number"):
        Workers(**wrong)
