"""Two orders made one, and the weight that suits a development split."""

from __future__ import annotations

import numpy as np
import pytest

from sbert_retriever.errors import InputError
from sbert_retriever.rerank import fit_weight, reciprocal_rank_fusion, weighted_sum


def test_nothing_fused_is_nothing():
    assert reciprocal_rank_fusion([]).shape == weighted_sum([], [], weight=0.5).shape == (0,)


def test_equal_scores_count_as_the_middle():
    assert weighted_sum([1.0, 1.0], [0.0, 1.0], weight=0.5).tolist() == [0.25, 0.75]


def test_ties_of_the_second_stage_rank_in_the_first_stage_s_order():
    fused = reciprocal_rank_fusion([5.0, 5.0, 5.0], k=0)
    assert fused.tolist() == pytest.approx([2, 1, 2 / 3])


def test_the_weight_goes_to_the_stage_that_is_right():
    """A stage that puts the relevant passage first gets the weight; equally good ones share it."""
    right, wrong, gains = [3.0, 2.0, 1.0], [1.0, 2.0, 3.0], [1, 0, 0]
    assert fit_weight([(wrong, right, gains)]) > 0.5
    assert fit_weight([(right, wrong, gains)]) < 0.5
    assert fit_weight([(right, right, gains)]) == 0.5


def test_a_mixture_wins_where_each_stage_is_half_right():
    """Two passages; at a weight of 1 the second query is lost, at 0 the first."""
    queries = [
        ([0.0, 0.4, 1.0], [1.0, 0.9, 0.0], [0, 1, 0]),
        ([1.0, 0.9, 0.0], [0.0, 0.4, 1.0], [0, 1, 0]),
    ]
    assert fit_weight(queries, k=1) == pytest.approx(0.5)


def test_nothing_relevant_is_nothing_to_fit_on():
    with pytest.raises(InputError, match="nothing to fit on"):
        fit_weight([([1.0], [1.0], [0]), (np.empty(0), np.empty(0), np.empty(0))])
