"""Large batches in chunks, hard negatives, and packaged models as a start."""

from __future__ import annotations

import pytest
import torch

from sbert_retriever import Passage, Profile, Retriever, TrainConfig, TrainData, TrainStep
from sbert_retriever.encoder.checkpoint import read_checkpoint
from sbert_retriever.encoder.packaged import find_packaged
from sbert_retriever.errors import InputError
from sbert_retriever.testing import HashEncoder, TableScorer
from sbert_retriever.training import InBatch, mine_hard_negatives
from sbert_retriever.training.collating import CollateTexts
from sbert_retriever.training.learning import learning_of
from sbert_retriever.training.models import load_model
from sbert_retriever.training.readers import read_examples
from sbert_retriever.training.transformer import load_pair_transformer


def loss_and_gradients(rows, tiny: str, *, chunk_size: int | None, dropout: float):
    data = TrainData(kind="pairs", rows=rows("pairs"))
    step = TrainStep(objective=InBatch(), data=(data,), chunk_size=chunk_size)
    model = load_model(TrainConfig(model=tiny, steps=(step,), dropout=dropout))
    learning = learning_of(step, model).train()
    torch.manual_seed(5)
    loss = learning(**CollateTexts(model, "in-batch")(read_examples(data)))
    loss.backward()
    gradients = [p.grad for p in learning.parameters() if p.grad is not None]
    return loss.item(), gradients


def test_chunks_give_the_gradient_of_the_whole_batch(rows, tiny: str) -> None:
    whole, gradients = loss_and_gradients(rows, tiny, chunk_size=None, dropout=0.0)
    cached, in_chunks = loss_and_gradients(rows, tiny, chunk_size=5, dropout=0.0)
    assert cached == pytest.approx(whole, abs=1e-6)
    for one, other in zip(gradients, in_chunks, strict=True):
        assert torch.allclose(one, other, atol=1e-5)


def test_chunks_are_computed_again_under_the_same_dropout(rows, tiny: str) -> None:
    """A second draw would make the gradient that of another loss.

    The gradient along a direction is then far from the difference of the loss itself.
    """
    data = TrainData(kind="pairs", rows=rows("pairs"))
    step = TrainStep(objective=InBatch(), data=(data,), chunk_size=5)
    model = load_model(TrainConfig(model=tiny, steps=(step,), dropout=0.3))
    learning = learning_of(step, model).double().train()
    batch = CollateTexts(model, "in-batch")(read_examples(data))
    weight = model.transformer.embeddings.word_embeddings.weight

    def loss() -> torch.Tensor:
        torch.manual_seed(5)
        vectors = [learning._vectors(model, column) for column in batch["columns"]]
        return learning.objective(vectors, None)

    loss().backward()
    direction = torch.randn_like(weight) * 1e-3
    expected = (weight.grad * direction).sum().item()
    with torch.no_grad():
        weight += direction / 2
        above = loss().item()
        weight -= direction
        below = loss().item()
    assert above - below == pytest.approx(expected, rel=1e-2)


@pytest.mark.parametrize(
    ("kind", "last", "passes"),
    [
        pytest.param("bi-encoder", "a cat sat here", 1, id="alike"),
        pytest.param("bi-encoder", "a cat sat here " * 4, 3, id="one much longer"),
        pytest.param("two-encoders", "a cat sat here", 2, id="two encoders"),
    ],
)
def test_columns_of_like_length_go_through_an_encoder_together(
    tiny: str, kind: str, last: str, passes: int
) -> None:
    """And have the vectors that they have alone."""
    rows = [
        {"query": "a dog ran", "positive": "the dog", "negatives": [last]},
        {"query": "the cat sat", "positive": "a cat ran here", "negatives": ["the dog sat"]},
    ]
    data = TrainData(kind="ranking", rows=rows)
    step = TrainStep(objective=InBatch(), data=(data,))
    model = load_model(TrainConfig(model=tiny, kind=kind, steps=(step,), dropout=0.0))
    columns = CollateTexts(model, "in-batch")(read_examples(data))["columns"]
    encoders = [model.query, model.passage] if kind == "two-encoders" else [model]
    alone = [encoders[min(n, len(encoders) - 1)](column) for n, column in enumerate(columns)]
    asked = []
    for encoder in encoders:
        encoder.register_forward_hook(lambda *_: asked.append(1))
    given = []
    learning = learning_of(step, model)
    learning.objective.register_forward_pre_hook(lambda _, arguments: given.extend(arguments[0]))
    learning(columns)
    assert len(asked) == passes
    for one, other in zip(given, alone, strict=True):
        assert torch.allclose(one, other, atol=1e-6)


@pytest.mark.parametrize(
    "name",
    ["ms-marco-MiniLM-L12-v2", pytest.param("bge-small-en-v1.5", marks=pytest.mark.full)],
)
def test_a_packaged_export_is_a_start(name: str) -> None:
    """Every weight of the export's BERT is taken, its classifier where the labels are as many."""
    packaged = find_packaged(name)
    assert packaged is not None
    folder = packaged.folder()
    assert folder is not None
    checkpoint = read_checkpoint(folder, packaged)
    model = load_pair_transformer(
        checkpoint, labels=("relevance",), weights="pretrained", dropout=None
    )
    from sbert_retriever.encoder.onnx_weights import load_onnx_bert

    _, state, labels = load_onnx_bert(folder)
    own = model.state_dict()
    for key, tensor in state.items():
        full = key if key in own else f"bert.{key}"
        assert torch.equal(own[full], tensor), key
    assert labels == (1 if "marco" in name else 0)


PASSAGES = {
    "purr": "cats purr when they are happy",
    "sleep": "cats purr and sleep",
    "bark": "dogs bark at cats",
    "run": "trains run on rails",
}


@pytest.fixture
def animals():
    with Retriever.open(":memory:", model=HashEncoder(dim=256)) as retriever:
        retriever.index([Passage(id, text) for id, text in PASSAGES.items()])
        yield retriever


def test_the_nearest_passages_that_are_no_positive_are_negatives(animals) -> None:
    pairs = [("do cats purr", PASSAGES["purr"]), ("do cats purr", PASSAGES["sleep"])]
    found = mine_hard_negatives(animals, pairs, negatives=1, candidates=4)
    assert [row["negatives"] for row in found.rows] == [[PASSAGES["bark"]]] * 2
    assert read_examples(TrainData(kind="ranking", rows=found.rows))[1].texts == (
        "do cats purr",
        PASSAGES["sleep"],
        PASSAGES["bark"],
    )


def test_a_saved_profile_has_no_say_in_what_is_near(tmp_path) -> None:
    """Its cross-encoder put the candidates in order, or its absence ended the run."""
    with Retriever.open(tmp_path, model=HashEncoder(dim=256)) as retriever:
        retriever.index([Passage(id, text) for id, text in PASSAGES.items()])
        pairs = [("do cats purr", PASSAGES["purr"])]
        before = mine_hard_negatives(retriever, pairs, negatives=3, candidates=4)
        retriever.save_profile(Profile.named("balanced"))
        assert mine_hard_negatives(retriever, pairs, negatives=3, candidates=4) == before
        upside_down = TableScorer({text: -n for n, text in enumerate(PASSAGES.values())})
        reranking = retriever.with_reranker(upside_down)
        assert mine_hard_negatives(reranking, pairs, negatives=3, candidates=4) == before


def test_a_query_that_is_a_passage_too_is_not_its_own_negative(animals) -> None:
    """Questions are mined among questions, where each is the nearest to itself."""
    pairs = [(PASSAGES["purr"], PASSAGES["sleep"])]
    [row] = mine_hard_negatives(animals, pairs, negatives=4, candidates=4).rows
    assert sorted(row["negatives"]) == sorted([PASSAGES["bark"], PASSAGES["run"]])


def test_what_the_cross_encoder_takes_for_an_answer_is_no_negative(animals) -> None:
    """The positive scores 5, another passage 4: with a margin of 3 it is left out."""
    scorer = TableScorer({PASSAGES["purr"]: 5.0, PASSAGES["sleep"]: 4.0, PASSAGES["bark"]: -1.0})
    pairs = [("do cats purr", PASSAGES["purr"])]
    found = mine_hard_negatives(animals, pairs, candidates=3, negatives=2, scorer=scorer)
    assert PASSAGES["sleep"] not in found.rows[0]["negatives"]
    assert PASSAGES["bark"] in found.rows[0]["negatives"]
    assert found.filtered == 1
    none = mine_hard_negatives(
        animals, pairs, candidates=3, negatives=2, scorer=scorer, margin=50.0
    )
    assert (none.rows, none.without) == ((), 1)


def test_several_answers_of_a_query_are_judged_each_by_its_own_score(animals) -> None:
    """One answer scores 5, the other 2, the passage left 0: only 5 is above it by 3.

    Each text is scored once, though the query stands in two pairs.
    """
    asked: list[tuple[str, str]] = []

    class Counting(TableScorer):
        def score(self, pairs):
            asked.extend(pairs)
            return super().score(pairs)

    scorer = Counting(
        {PASSAGES["purr"]: 5.0, PASSAGES["sleep"]: 2.0, PASSAGES["bark"]: 0.0, PASSAGES["run"]: 9.0}
    )
    pairs = [("do cats purr", PASSAGES["purr"]), ("do cats purr", PASSAGES["sleep"])]
    shares: list[float] = []
    found = mine_hard_negatives(
        animals, pairs, candidates=4, negatives=2, scorer=scorer, on_share=shares.append
    )
    assert [row["positive"] for row in found.rows] == [PASSAGES["purr"]]
    assert found.rows[0]["negatives"] == [PASSAGES["bark"]]
    assert (found.without, found.filtered) == (1, 3)
    assert len(asked) == len(set(asked)) == 4
    assert shares == [1.0]


def test_queries_beyond_a_block_keep_their_own_answers(animals) -> None:
    pairs = [(f"cats purr {number}", PASSAGES["purr"]) for number in range(150)]
    found = mine_hard_negatives(animals, pairs, negatives=1, candidates=2)
    assert [row["query"] for row in found.rows] == [query for query, _ in pairs]
    for row in found.rows:
        near = [hit.text for hit in animals.search(row["query"], 2)]
        assert row["negatives"] == [text for text in near if text != PASSAGES["purr"]][:1]


@pytest.mark.parametrize("margin", [float("nan"), float("inf")])
def test_a_margin_that_is_no_number_is_refused(animals, margin: float) -> None:
    with pytest.raises(InputError, match=r"margin is (nan|inf), expected a number of logits"):
        mine_hard_negatives(animals, [], margin=margin)


def test_too_few_candidates_are_refused(animals) -> None:
    with pytest.raises(InputError, match="candidates=2, expected 3 or more"):
        mine_hard_negatives(animals, [], negatives=3, candidates=2)
