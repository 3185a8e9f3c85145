"""A server that takes its time over some questions."""

from __future__ import annotations

from time import monotonic

import pytest

from sbert_retriever import Retriever
from sbert_retriever.errors import UnknownFieldWarning
from sbert_retriever.index.steps import RetryPolicy
from sbert_retriever.testing import HashEncoder


def opened(listener, **options):
    return Retriever.open(
        listener.url, model=HashEncoder(dim=16), collection_name="docs", **options
    )


def test_nothing_found_is_an_answer_though_the_reason_cannot_be_told(listener):
    """Which fields no passage has was counted, for as long as a search may take, and then failed.

    The question takes longer than the client waits, and would be asked again for a minute.
    """
    retriever = opened(listener, timeout_s=1, retry=RetryPolicy(deadline_s=60))
    listener.slow = {"points/scroll": 1.5}
    began = len(listener.asked)
    assert retriever.search("tea", filter={"kind": "green"}) == []
    scrolls = [path for _, path, _, _ in listener.asked[began:] if path.endswith("/scroll")]
    assert len(scrolls) == 1
    retriever.close()


@pytest.mark.filterwarnings("ignore::sbert_retriever.errors.UnknownFieldWarning")
def test_a_field_is_looked_for_by_one_passage_and_no_count(listener):
    retriever = opened(listener)
    began = len(listener.asked)
    assert retriever.search("tea", filter={"kind": "green"}) == []
    paths = [path.rpartition("/")[2] for _, path, _, _ in listener.asked[began:]]
    assert "count" not in paths
    retriever.close()


def scrolls(listener, began):
    return sum(path.endswith("/scroll") for _, path, _, _ in listener.asked[began:])


def test_of_many_fields_the_first_few_are_looked_for(listener):
    """Each of hundreds was asked after, for up to a second each."""
    retriever = opened(listener)
    began = len(listener.asked)
    fields = {f"f{n:03}": "green" for n in range(200)}
    with pytest.warns(UnknownFieldWarning, match="'f000', 'f001', .* 'f007': the filter"):
        assert retriever.search("tea", filter=fields) == []
    assert scrolls(listener, began) == 8
    began = len(listener.asked)
    with pytest.warns(UnknownFieldWarning, match="'f007': the filter"):
        assert retriever.search("tea", filter={name: {"gte": 1} for name in fields}) == []
    # Eight are of no passage; the next eight have no number, and no text.
    assert scrolls(listener, began) == 8 + 2 * 8
    retriever.close()


@pytest.mark.filterwarnings("ignore::sbert_retriever.errors.UnknownFieldWarning")
def test_all_fields_together_are_looked_for_within_a_second(listener):
    """Each had a second of its own."""
    retriever = opened(listener)
    listener.pause_s = 0.3
    began = len(listener.asked)
    assert retriever.search("tea", filter={f"f{n}": "green" for n in range(8)}) == []
    assert 1 <= scrolls(listener, began) <= 4  # which begin at 0, 0.3, 0.6 and 0.9 s
    retriever.close()


def test_a_long_name_is_cut_where_it_is_shown(listener):
    retriever = opened(listener)
    with pytest.warns(UnknownFieldWarning) as warned:
        assert retriever.search("tea", filter={"x" * 5000: "green"}) == []
    assert f"field '{'x' * 79}…': the filter" in str(warned[0].message)
    retriever.close()


@pytest.mark.full
def test_a_server_that_answers_gets_its_time_to_count(listener):
    """It was said to be away: opening waited three seconds for a count of all passages."""
    opened(listener).close()
    listener.slow = {"points/count": 4.0}
    before = monotonic()
    retriever = opened(listener, timeout_s=2)
    assert monotonic() - before > 2
    assert retriever.count() == 0
    retriever.close()
