"""Triplet accuracy, against sentence-transformers; and triplets out of SciFact."""

import pytest
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.evaluation import TripletEvaluator

from sbert_retriever.errors import InputError, ReadError
from sbert_retriever.evaluation.scifact import Abstract, read_abstracts
from sbert_retriever.evaluation.triplets import (
    Triplets,
    measure_triplets,
    read_triplets,
    triplets_of,
)

ROWS = [
    ("the cat", "the dog", "water"),
    ("many people", "more people work", "the cat"),
    ("how long", "find the way", "how long is it"),
    ("a little water", "water", "a house"),
]


def test_by_hand(table_encoder):
    """Near by angle and far by distance, and a tie, which is not nearer."""
    table = {"a": [1, 0], "p": [9, 1], "n": [1, 1], "same": [1, 1]}
    given = Triplets("t", ("a", "a"), ("p", "n"), ("n", "same"))
    found = measure_triplets(table_encoder(table), given).figures
    assert found == {
        "accuracy_cosine": 50.0,
        "accuracy_dot": 50.0,
        "accuracy_euclidean": 0.0,
        "accuracy_manhattan": 0.0,
    }


def test_against_the_evaluator_of_sentence_transformers(tiny_folder, tiny_encoder):
    columns = [list(column) for column in zip(*ROWS, strict=True)]
    ours = measure_triplets(tiny_encoder, Triplets("t", *map(tuple, columns))).figures
    model = SentenceTransformer(str(tiny_folder), device="cpu")
    for name in ("cosine", "dot", "euclidean", "manhattan"):
        theirs = TripletEvaluator(*columns, similarity_fn_names=[name])(model)
        assert ours[f"accuracy_{name}"] == pytest.approx(100 * theirs[f"{name}_accuracy"])


def test_files(file):
    read = read_triplets(file("t.tsv", "a\tb\tc\nd\te\tf\n"))
    assert read == Triplets("t", ("a", "d"), ("b", "e"), ("c", "f"))
    named = file("named.tsv", "anchor\tpositive\tnegative\na\tb\tc\n")
    assert read_triplets(named) == Triplets("named", ("a",), ("b",), ("c",))
    line = '{"anchor": "a", "positive": "b", "negative": "c"}\n'
    assert read_triplets(file("t.jsonl", line)) == Triplets("t", ("a",), ("b",), ("c",))


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("t.tsv", "a\tb\tc\nd\te\n", r"t\.tsv, line 2: 2 fields"),
        ("t.tsv", "", "holds no triplet"),
        ("t.tsv", "a\tb\tc\nd\t\tf\n", r"t\.tsv, line 2: a text is empty"),
        ("t.jsonl", '{"anchor": "a", "positive": "b"}\n', r"line 1: no 'negative'"),
        ("t.jsonl", "{", r"t\.jsonl, line 1: not JSON"),
    ],
)
def test_what_does_not_fit_is_refused_with_file_and_line(file, name, text, said):
    with pytest.raises(ReadError, match=said):
        read_triplets(file(name, text))


@pytest.mark.data
def test_triplets_of_scifact_keep_to_their_split(data_dir):
    """Anchor and positive are two sentences of one abstract, the negative is of another one."""
    abstracts = list(read_abstracts(data_dir / "scifact"))
    homes = {}
    for abstract in abstracts:
        for sentence in abstract.sentences:
            homes.setdefault(sentence, set()).add(abstract.id)
    seen = {}
    for split in ("train", "test"):
        given = triplets_of(abstracts, split=split)
        seen[split] = set().union(*(homes[text] for text in given.anchors))
        for anchor, positive, negative in zip(
            given.anchors, given.positives, given.negatives, strict=True
        ):
            assert homes[anchor] & homes[positive]
            assert homes[negative] - homes[anchor]
    assert len(triplets_of(abstracts)) == 1036
    # A sentence that several abstracts have says nothing of the split.
    assert len(seen["train"] & seen["test"]) < 5
    assert triplets_of(abstracts, most=3) == triplets_of(abstracts, most=3)
    assert triplets_of(abstracts, most=3) != triplets_of(abstracts, most=3, seed=1)


def test_too_few_abstracts_and_unknown_splits_are_refused():
    with pytest.raises(InputError, match="split is 'dev'"):
        triplets_of([], split="dev")
    with pytest.raises(InputError, match="0 abstracts of 2 sentences or more"):
        triplets_of([Abstract("1", "t", ("One short.", "Two short."))])


def test_a_broken_archive_is_refused(file):
    path = file("scifact/scifact.zip", b"not a zip")
    with pytest.raises(ReadError, match=r"scifact\.zip cannot be read"):
        list(read_abstracts(path.parent))
