"""Tenants in one collection: by no call can one see, overwrite or delete what is another's."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from typing import Any

import pytest
from qdrant_client import models

from sbert_retriever import Passage, Profile, Retriever
from sbert_retriever.errors import InputError, InputTypeError
from sbert_retriever.index.points import point_id
from sbert_retriever.testing import HashEncoder, TableScorer

OURS = [
    Passage("doc", "our plans for the spring", {"kind": "plan"}, "plans.md"),
    Passage("note", "our note on costs", {"kind": "note"}, "notes.md"),
]
THEIRS = [
    Passage("doc", "their secret plans for the spring", {"kind": "plan", "own": 1}, "plans.md"),
    Passage("only", "their secret prices", {"kind": "price", "own": 1}, "prices.md"),
]
QUESTION = "their secret plans for the spring and prices"
ALL = models.Filter(
    should=[
        models.FieldCondition(key="_sbert.tenant", match=models.MatchValue(value="them")),
        models.HasIdCondition(has_id=[point_id("only", tenant="them")]),
        models.FieldCondition(key="metadata.own", match=models.MatchValue(value=1)),
    ]
)


@pytest.fixture(params=["plain", "words"])
def both(request, engine):
    """Two tenants of one collection, with and without words beside meanings."""
    sparse = "bm25" if request.param == "words" else None
    whole = engine.open(sparse=sparse)
    us, them = whole.with_tenant("us"), whole.with_tenant("them")
    us.index(OURS)
    them.index(THEIRS)
    return whole, us, them


VECTOR = HashEncoder(dim=64).encode_queries([QUESTION])[0]
# What each public method is asked, to get at what is theirs.
ATTACKS: dict[str, list[Callable[[Retriever], Any]]] = {
    "search": [
        lambda r: r.search(QUESTION, 50),
        lambda r: r.search(QUESTION, 50, filter={"own": 1}),
        lambda r: r.search(QUESTION, 50, filter=ALL),
        lambda r: r.search(QUESTION, 50, filter={"_sbert.tenant": "them"}),
        lambda r: r.search(QUESTION, 50, exact=True, expand="parent"),
    ],
    "search_detailed": [lambda r: r.search_detailed(QUESTION, 50, filter=ALL).hits],
    "search_batch": [
        lambda r: [h for hits in r.search_batch([QUESTION] * 2, 50, filter=ALL) for h in hits]
    ],
    "search_batch_detailed": [
        lambda r: [h for d in r.search_batch_detailed([QUESTION] * 2, 50) for h in d.hits]
    ],
    "search_by_vector": [
        lambda r: r.search_by_vector(VECTOR, 50),
        lambda r: r.search_by_vector(VECTOR, 50, filter=ALL),
    ],
    "similar": [lambda r: r.similar("doc", 50, filter=ALL), lambda r: r.similar("doc", 50)],
    "get": [lambda r: r.get(["only", "doc", point_id("only", tenant="them")])],
    "scroll": [
        lambda r: r.scroll(limit=50)[0],
        lambda r: r.scroll(filter=ALL)[0],
        lambda r: r.scroll(offset=point_id("only", tenant="them"))[0],
    ],
}
COUNTS: dict[str, list[Callable[[Retriever], int]]] = {
    "count": [lambda r: r.count({"own": 1}), lambda r: r.count(ALL)],
    "sources": [lambda r: r.sources().get("prices.md", 0)],
    "delete": [
        lambda r: r.delete(["only", point_id("only", tenant="them")]),
        lambda r: r.delete(source="prices.md"),
        lambda r: r.delete(filter={"own": 1}),
        lambda r: r.delete(filter=ALL),
    ],
}


def texts(found):
    return {item.text for item in found}


@pytest.mark.parametrize("name", ATTACKS)
@pytest.mark.filterwarnings("ignore::sbert_retriever.errors.UnknownFieldWarning")
def test_nothing_of_theirs_is_read(both, name):
    _, us, _ = both
    for attack in ATTACKS[name]:
        assert texts(attack(us)) <= texts(OURS)


@pytest.mark.parametrize("name", COUNTS)
@pytest.mark.filterwarnings("ignore::sbert_retriever.errors.UnknownFieldWarning")
def test_nothing_of_theirs_is_counted_or_deleted(both, name):
    _, us, them = both
    for attack in COUNTS[name]:
        assert attack(us) == 0
    assert texts(them.get(["doc", "only"])) == texts(THEIRS)


def test_one_id_is_two_passages(both):
    whole, us, them = both
    assert us.get(["doc"]) == OURS[:1]
    assert them.get(["doc"]) == THEIRS[:1]
    assert whole.count() == 4
    assert (us.count(), them.count()) == (2, 2)
    assert (us.info().count, whole.info().count) == (2, 4)


def test_nothing_of_theirs_is_overwritten_or_pruned(both):
    _, us, them = both
    changed = [Passage("only", "our own prices", {}, "prices.md"), OURS[0]]
    report = us.index(changed, prune=True, sources=["prices.md", "notes.md"])
    assert (report.added, report.unchanged, report.deleted) == (1, 1, 1)
    assert texts(them.get(["doc", "only"])) == texts(THEIRS)
    again = us.index([Passage("doc", OURS[0].text, {"kind": "changed"}, "plans.md")])
    assert (again.updated, again.encoded) == (1, 0)
    assert us.get(["doc"])[0].metadata == {"kind": "changed"}
    assert them.get(["doc"]) == THEIRS[:1]
    assert them.search(QUESTION, 1)[0].text == THEIRS[0].text


def test_the_sources_that_pruning_looks_at_are_ones_own(both):
    _, us, them = both
    assert us.sources() == {"notes.md": 1, "plans.md": 1}
    assert asyncio.run(them.asources()) == {"plans.md": 1, "prices.md": 1}


def test_deleting_everything_is_ones_own_everything(both):
    whole, us, them = both
    assert us.delete_all() == 2
    assert (us.count(), them.count(), whole.count()) == (0, 2, 2)


@pytest.mark.filterwarnings("ignore::sbert_retriever.errors.UnknownFieldWarning")
def test_in_an_event_loop_too(both):
    _, us, them = both

    async def ask():
        found = await us.asearch(QUESTION, 50, filter=ALL)
        found += (await us.asearch_batch([QUESTION], 50))[0]
        found += await us.asearch_by_vector(VECTOR, 50)
        found += await us.asimilar("doc", 50)
        found += await us.aget(["only"])
        found += (await us.ascroll())[0]
        deleted = await us.adelete(["only"]) + await us.adelete(source="prices.md")
        return found, deleted + await us.acount(ALL), await us.adelete_all()

    found, none, own = asyncio.run(ask())
    assert texts(found) <= texts(OURS)
    assert (none, own) == (0, 2)
    assert them.count() == 2


def test_a_bound_retriever_cannot_be_bound_anew(both):
    _, us, _ = both
    with pytest.raises(InputError, match="bound to tenant 'us': open the collection anew"):
        us.with_tenant("them")
    with pytest.raises(InputError, match="a profile is the whole collection's"):
        us.save_profile(Profile.named("fast"))
    assert us.with_reranker(TableScorer({})).count() == 2
    reranked = us.with_reranker(TableScorer({THEIRS[0].text: 9.0})).search(QUESTION, 5)
    assert texts(reranked) == texts(OURS)


def test_every_public_method_was_tried():
    """A method that comes later has to be tried here, too."""
    harmless = {
        *(
            "open",
            "close",
            "aclose",
            "info",
            "ainfo",
            "encoder",
            "store",
            "profile",
            "late_encoder",
        ),
        *("with_reranker", "with_tenant", "save_profile", "index", "delete_all", "optimize"),
        "make_filterable",
    }
    public = {
        name
        for name, _ in inspect.getmembers(Retriever)
        if not name.startswith("_") and f"a{name}" != name
    }
    twins = {f"a{name}" for name in public}
    assert public - twins - harmless == {*ATTACKS, *COUNTS}


def test_tenants_outlive_the_process_and_are_opened_by_name(lasting_engine):
    whole = lasting_engine.open()
    whole.index([Passage("shared", "for all to see")])
    us = lasting_engine.open(tenant="us")
    us.index(OURS)
    again = lasting_engine.open(tenant="us")
    assert again.count() == 2
    assert [p.id for p in again.get(["shared", "doc"])] == ["doc"]
    assert whole.count() == 3


@pytest.mark.parametrize(
    ("tenant", "message"),
    [("", "tenant is empty"), (3, "tenant is int, expected str"), ("\ud800", "lone surrogate")],
)
def test_a_tenant_has_a_name(tmp_path, tenant, message):
    with pytest.raises((InputError, InputTypeError), match=message):
        Retriever.open(tmp_path / "x", model=HashEncoder(), tenant=tenant)


def test_odd_names_are_told_apart(engine):
    whole = engine.open()
    names = ["a", "A", "a\x00", "a ", "ä", "them\x00doc", "x" * 5000]
    for number, name in enumerate(names):
        whole.with_tenant(name).index([Passage("doc", f"text {number}")])
    found = [whole.with_tenant(name).get(["doc"])[0].text for name in names]
    assert found == [f"text {number}" for number in range(len(names))]
    assert [whole.with_tenant(name).count() for name in names] == [1] * len(names)
