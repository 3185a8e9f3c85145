from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sbert_retriever import Profile, Retriever
from sbert_retriever.cli.filters import parsed_condition, parsed_filter
from sbert_retriever.errors import InputError

Run = Callable[..., Any]


def ids(answer: dict[str, list[dict[str, str]]]) -> list[str]:
    return [hit["id"] for hit in answer["hits"]]


def test_answers_equal_those_of_the_library(run: Run, animals: Path) -> None:
    outcome = run("query", animals, "cat in house", "-k", "2", "--json")
    with Retriever.open(animals) as retriever:
        hits = retriever.search("cat in house", 2)
    assert outcome.code == 0
    assert outcome.json["query"] == "cat in house"
    assert ids(outcome.json) == [hit.id for hit in hits]
    assert [hit["score"] for hit in outcome.json["hits"]] == pytest.approx(
        [hit.score for hit in hits], abs=1e-6
    )
    assert outcome.json["hits"][0].keys() == {
        "id", "score", "score_kind", "first_score", "first_score_kind", "rerank_score",
        "rerank_score_kind", "reranked", "cut_short", "fallback", "truncated", "text", "metadata",
        "source",
    }  # fmt: skip
    assert (outcome.json["candidates"], outcome.json["rescored"]) == (0, 0)
    assert outcome.json["timings_ms"]["rerank"] == 0
    assert outcome.err == ""


def test_a_colbert_model_puts_the_best_in_order(
    run: Run, animals: Path, colbert_folder: Callable[..., Path]
) -> None:
    folder = colbert_folder()
    outcome = run("query", animals, "cat in house", "--late-model", folder, "--json")
    assert outcome.code == 0, outcome.err
    with Retriever.open(animals, late_encoder=folder) as retriever:
        hits = retriever.search("cat in house", 5)
    assert ids(outcome.json) == [hit.id for hit in hits]
    assert {hit["score_kind"] for hit in outcome.json["hits"]} == {"maxsim"}
    wrong = run("query", animals, "cat in house", "--model", folder)
    assert wrong.code == 1
    assert "is a ColBERT model" in wrong.err


def test_a_text_finds_itself_first_and_is_printed_with_its_place(run: Run, animals: Path) -> None:
    outcome = run("query", animals, "the dog was with people", "-k", "1")
    first, text = outcome.out.splitlines()
    assert first.startswith(" 1. 1.000 cosine")
    assert "animals.jsonl" in first
    assert first.endswith("| b")
    assert text == "    the dog was with people"


@pytest.mark.parametrize(
    ("conditions", "found"),
    [
        (["lang=de"], {"c"}),
        (["year>=2021"], {"b", "c"}),
        (["year>=2020", "lang=en"], {"b"}),
        (["year=2019"], {"a"}),
        (["lang!=en"], {"c"}),
        (["year<2021"], {"a"}),
    ],
)
def test_filters(run: Run, animals: Path, conditions: list[str], found: set[str]) -> None:
    options = [word for condition in conditions for word in ("--filter", condition)]
    outcome = run("query", animals, "the", *options, "--json")
    assert set(ids(outcome.json)) == found


def test_a_filter_in_json_knows_every_operator(run: Run, animals: Path) -> None:
    either = json.dumps({"or": [{"lang": "de"}, {"year": {"lt": 2020}}]})
    outcome = run("query", animals, "the", "--filter-json", either, "--json")
    assert set(ids(outcome.json)) == {"a", "c"}


def test_numbers_of_csv_files_are_texts_and_are_found_all_the_same(
    run: Run, tiny: str, tmp_path: Path
) -> None:
    corpus = tmp_path / "c.csv"
    corpus.write_text("text,year\nthe cat,2019\nthe dog,2021\n", encoding="utf-8")
    run("index", corpus, "--to", tmp_path / "x", "--model", tiny)
    outcome = run("query", tmp_path / "x", "the", "--filter", "year=2021", "--json")
    assert [hit["text"] for hit in outcome.json["hits"]] == ["the dog"]


@pytest.mark.parametrize("wrong", ["lang", "=en", ""])
def test_a_condition_without_field_or_operator_is_refused(wrong: str) -> None:
    with pytest.raises(InputError, match="FIELD=VALUE"):
        parsed_condition(wrong)


def test_conditions_and_json_must_all_hold() -> None:
    assert parsed_filter(None, None) is None
    assert parsed_filter(["a=x"], '{"b": 1}') == {"and": [{"a": "x"}, {"b": 1}]}
    assert parsed_condition("a=null") == {"a": None}
    assert parsed_condition("a=NaN") == {"a": "NaN"}
    assert parsed_condition("a=x=y") == {"a": "x=y"}
    deep = "[" * 100_000
    assert parsed_condition(f"a={deep}") == {"a": deep}
    with pytest.raises(InputError, match="object"):
        parsed_filter(None, "[1]")


def test_questions_from_the_standard_input_one_a_line(
    run: Run, animals: Path, monkeypatch: pytest.MonkeyPatch, records: Any
) -> None:
    texts = [str(record["text"]) for record in records]
    monkeypatch.setattr(sys, "stdin", io.StringIO("\n".join(texts) + "\n\n"))
    outcome = run("query", animals, "-k", "1", "--json")
    answers = [json.loads(line) for line in outcome.out.splitlines()]
    assert [answer["query"] for answer in answers] == texts
    assert [ids(answer) for answer in answers] == [["a"], ["b"], ["c"]]


def test_questions_in_another_encoding_are_told_of(
    run: Run, animals: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was called a fault of the program."""
    piped = io.TextIOWrapper(io.BytesIO("où est le chat\n".encode("latin-1")), encoding="utf-8")
    monkeypatch.setattr(sys, "stdin", piped)
    outcome = run("query", animals)
    assert (outcome.code, outcome.out) == (1, "")
    assert "holds the byte 0xf9, which is no utf-8 text" in outcome.err
    assert outcome.err.count("\n") == 1


def test_a_threshold_is_on_the_printed_scale(run: Run, animals: Path) -> None:
    outcome = run("query", animals, "the dog was with people", "--threshold", "0.999", "--json")
    assert ids(outcome.json) == ["b"]


def test_nothing_found_is_a_success_and_says_so(run: Run, animals: Path) -> None:
    outcome = run("query", animals, "cat", "--filter", "lang=fr")
    assert outcome.code == 0
    assert "nothing found" in outcome.out


def test_a_field_that_no_passage_has_is_a_plain_warning(run: Run, animals: Path) -> None:
    outcome = run("query", animals, "cat", "--filter", "langg=en")
    assert outcome.code == 0
    assert outcome.err.startswith("sbert-retriever: warning: no passage has the metadata field")
    assert len(outcome.err.splitlines()) == 1


def test_a_document_cannot_steer_the_terminal(
    run: Run, tiny: str, tmp_path: Path, write_jsonl: Any
) -> None:
    corpus = write_jsonl(tmp_path / "c.jsonl", [{"text": "the \x1b[31mcat\x07"}])
    run("index", corpus, "--to", tmp_path / "x", "--model", tiny)
    for full in ((), ("--full",)):
        assert "\x1b" not in run("query", tmp_path / "x", "cat", *full).out


def test_neighbours_bring_the_text_around(run: Run, tiny: str, tmp_path: Path) -> None:
    parts = [f"the {word} was in the house." for word in ("cat", "dog", "vector", "model")]
    text = "\n\n".join(parts)
    (tmp_path / "a.txt").write_text(text, encoding="utf-8")
    run(
        "index", tmp_path / "a.txt", "--to", tmp_path / "x", "--model", tiny,
        "--chunk-tokens", "8", "--chunk-overlap", "0",
    )  # fmt: skip
    outcome = run(
        "query", tmp_path / "x", "the dog was in the house.", "-k", "1", "--json",
        "--expand", "neighbours",
    )  # fmt: skip
    assert outcome.json["hits"][0]["text"] == "\n".join(parts[:3])


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("-k", "0"), "k is 0"),
        (("--expand", "sideways"), "'sideways'"),
        (("--filter", "x"), "FIELD=VALUE"),
        (("--device", "tpu"), "tpu"),
        (("--nonsense",), "--nonsense"),
    ],
)
def test_wrong_use_exits_with_2_and_one_line(
    run: Run, animals: Path, arguments: tuple[str, ...], said: str
) -> None:
    outcome = run("query", animals, "cat", *arguments)
    assert outcome.code == 2
    assert outcome.out == ""
    assert said in outcome.err
    assert len(outcome.err.splitlines()) == 1


def test_groups_and_variety_are_those_of_the_library(run: Run, animals: Path) -> None:
    for words, options in (
        (["--group-by", "lang"], {"group_by": "lang"}),
        (["--group-by", "lang", "--group-size", "2"], {"group_by": "lang", "group_size": 2}),
        (["--diversity", "0.9"], {"diversity": 0.9}),
        (["--distinct", "0.5"], {"distinct": 0.5}),
    ):
        outcome = run("query", animals, "cat in house", "-k", "2", "--json", *words)
        assert outcome.code == 0, outcome.err
        with Retriever.open(animals) as retriever:
            hits = retriever.search("cat in house", 2, **options)
        assert ids(outcome.json) == [hit.id for hit in hits]
    grouped = run("query", animals, "cat in house", "-k", "2", "--group-by", "lang", "--json")
    assert [hit["metadata"]["lang"] for hit in grouped.json["hits"]] in (["en", "de"], ["de", "en"])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--group-by", ""], "group_by is ''"),
        (["--group-by", "lang", "--group-size", "0"], "group_size is 0"),
        (["--group-by", "lang", "--diversity", "0.5"], "give one of them"),
        (["--diversity", "2"], "diversity is 2, expected 0 to 1"),
        (["--fusion", "sum"], "Fusion.method is 'sum', expected 'boost', 'weighted'"),
        (["--sparse-weight", "7"], "sparse_weight"),
    ],
)
def test_what_no_hits_can_be_chosen_by_is_one_line(
    run: Run, animals: Path, options: list[str], message: str
) -> None:
    outcome = run("query", animals, "cat", *options)
    assert outcome.code == 2
    assert message in outcome.err
    assert len(outcome.err.splitlines()) == 1


def test_a_rerank_threshold_leaves_out_what_is_scored_below(run: Run, animals: Path) -> None:
    every = run("query", animals, "cat in house", "--candidates", "3", "--json").json["hits"]
    least = (every[0]["score"] + every[1]["score"]) / 2
    outcome = run("query", animals, "cat in house", "--rerank-threshold", str(least), "--json")
    assert outcome.code == 0, outcome.err
    assert ids(outcome.json) == [every[0]["id"]]


def test_a_rerank_says_what_it_did_and_what_it_cost(run: Run, animals: Path) -> None:
    outcome = run("query", animals, "cat in house", "-k", "2", "--rerank", "--candidates", "3")
    assert outcome.code == 0, outcome.err
    first = outcome.out.splitlines()[0]
    assert " logit (" in first
    assert " cosine)" in first
    assert "rescored 3 of 3 candidates: encode " in outcome.err
    asked = run("query", animals, "cat in house", "-k", "2", "--candidates", "3", "--json")
    with Retriever.open(animals, reranker="ms-marco-MiniLM-L12-v2") as retriever:
        expected = retriever.search_detailed("cat in house", 2, candidates=3)
    assert ids(asked.json) == [hit.id for hit in expected.hits]
    assert [hit["score"] for hit in asked.json["hits"]] == pytest.approx(
        [hit.score for hit in expected.hits], abs=1e-4
    )
    assert asked.json["hits"][0]["reranked"] is True
    assert asked.json["hits"][0]["first_score_kind"] == "cosine"
    assert (asked.json["candidates"], asked.json["rescored"]) == (3, 3)


def test_the_price_can_be_set_in_milliseconds(run: Run, animals: Path) -> None:
    nothing = run("query", animals, "cat in house", "--budget-ms", "0", "--json")
    assert nothing.code == 0, nothing.err
    assert "0 ms for the rerank are too short" in nothing.err
    assert all(hit["cut_short"] and not hit["reranked"] for hit in nothing.json["hits"])
    ample = run("query", animals, "cat in house", "--budget-ms", "60000", "--json")
    assert ample.json["rescored"] == ample.json["candidates"] == 3


def test_profiles_by_name_and_the_collections_own(run: Run, animals: Path) -> None:
    with Retriever.open(animals) as retriever:
        retriever.save_profile(
            Profile(
                name="mine", candidates=2, rerank_mode="fuse", reranker="ms-marco-MiniLM-L12-v2"
            )
        )
    saved = run("query", animals, "cat in house", "--json")
    assert {hit["score_kind"] for hit in saved.json["hits"][:2]} == {"rrf"}
    assert saved.json["candidates"] == 2
    fast = run("query", animals, "cat in house", "--profile", "fast", "--json")
    assert fast.json["candidates"] == 0
    replaced = run("query", animals, "cat in house", "--rerank-mode", "replace", "--json")
    assert replaced.json["hits"][0]["score_kind"] == "logit"
    balanced = run("query", animals, "cat in house", "--profile", "balanced", "--json")
    assert balanced.json["candidates"] == 3


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--profile", "quick"], "no profile 'quick'"),
        (["--candidates", "0"], "candidates is 0, expected 1 or more"),
        (["--budget-ms", "-5"], "budget_ms is -5, expected 0 or more"),
        (["--rerank-mode", "mix"], "rerank_mode is 'mix'"),
        (["--reranker", "all-MiniLM-L6-v2"], "all-MiniLM-L6-v2"),
    ],
)
def test_what_no_rerank_can_follow_is_one_line(
    run: Run, animals: Path, options: list[str], message: str
) -> None:
    outcome = run("query", animals, "cat", *options)
    assert outcome.code in (1, 2)
    assert message in outcome.err
    assert len(outcome.err.splitlines()) == 1


def test_words_beside_meanings(run: Run, tiny: str, tmp_path: Path, write_jsonl: Any) -> None:
    records = [{"id": "a", "text": "valve XK-4711 of the house"}, {"id": "b", "text": "the cat"}]
    path = write_jsonl(tmp_path / "parts.jsonl", records)
    to = tmp_path / "parts"
    made = run("index", path, "--to", to, "--id-field", "id", "--model", tiny, "--sparse", "bm25")
    assert made.code == 0, made.err
    assert "words by bm25" in made.err
    assert run("info", to, "--json").json["sparse"] == "bm25"
    found = run("query", to, "XK-4711", "--mode", "sparse", "--json").json["hits"]
    assert [(hit["id"], hit["score_kind"]) for hit in found] == [("a", "bm25")]
    both = run("query", to, "XK-4711", "--json").json["hits"]
    assert [hit["score_kind"] for hit in both] == ["fused", "fused"]
    ranks = run("query", to, "XK-4711", "--fusion", "rrf", "--sparse-weight", "1", "--json")
    # By words alone, the first of one ranking: 1 / (60 + 1).
    assert ranks.json["hits"][0]["score"] == pytest.approx(1 / 61)
    assert ranks.json["hits"][0]["score_kind"] == "rrf"
    wrong = run("query", to, "cat", "--mode", "words")
    assert wrong.code == 2
    assert "mode is 'words', expected 'dense', 'sparse', 'hybrid'" in wrong.err
