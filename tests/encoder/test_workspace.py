"""Memory that is used again must never show in a result."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from transformers import BertConfig, BertModel

from sbert_retriever.encoder.bert import BertBackbone, read_weights
from sbert_retriever.encoder.packing import packed
from sbert_retriever.encoder.workspace import Workspace

CPU = torch.device("cpu")


def models(inner: int, dtype: torch.dtype = torch.float32) -> tuple[BertModel, BertBackbone]:
    """Transformers' and ours, of the same random weights."""
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=50, hidden_size=32, num_hidden_layers=3, num_attention_heads=4,
        intermediate_size=inner, max_position_embeddings=40, initializer_range=0.3,
    )  # fmt: skip
    reference = BertModel(config).eval()
    weights = read_weights(config.to_dict(), reference.state_dict(), device=CPU, dtype=dtype)
    return reference, BertBackbone(weights)


def ids(*lengths: int) -> torch.Tensor:
    return torch.arange(sum(lengths)).reshape(len(lengths), -1) % 50


@pytest.mark.parametrize("inner", [8, 32, 96, 128])
def test_hidden_states_are_those_of_transformers_whatever_the_inner_width(inner):
    """Also where a map's result has the width of what it is made from."""
    reference, ours = models(inner)
    for batch in (ids(9, 9), ids(30), ids(3, 3, 3, 3)):  # smaller and larger than the one before
        with torch.inference_mode():
            expected = reference(batch).last_hidden_state
            assert torch.allclose(ours(batch, None), expected, atol=1e-5)


def test_a_result_is_not_overwritten_by_the_next_one():
    _, ours = models(128)
    first = ours(ids(9, 9), None)
    texts = packed([row.numpy() for row in ids(9, 9)], None, device=CPU)
    starts = ours.packed(texts, first_only=True)
    kept = first.clone(), starts.clone()
    ours(ids(30) + 7, None)
    assert torch.equal(first, kept[0])
    assert torch.equal(starts, kept[1])
    assert torch.allclose(starts, first[:, 0], atol=1e-5)


def test_threads_do_not_share_memory():
    _, ours = models(128)
    batches = [(ids(length, length) + length) % 50 for length in range(2, 10)]
    expected = [ours(batch, None) for batch in batches]
    ready = threading.Barrier(len(batches))

    def again(number: int) -> bool:
        ready.wait(60)
        return all(torch.equal(ours(batches[number], None), expected[number]) for _ in range(40))

    with ThreadPoolExecutor(len(batches)) as pool:
        assert all(pool.map(again, range(len(batches))))


def test_one_model_runs_in_and_out_of_inference_mode():
    _, ours = models(128)
    with torch.inference_mode():
        expected = ours(ids(9), None).clone()
    assert torch.equal(ours(ids(9), None), expected)


def test_an_array_is_given_again_for_its_kind_and_type():
    space, like = Workspace(), torch.zeros(1)
    wide = space.take("wide", 4, 6, like=like)
    assert wide.shape == (4, 6)
    assert space.take("wide", 2, 5, like=like).data_ptr() == wide.data_ptr()
    assert space.take("narrow", 4, 6, like=like).data_ptr() != wide.data_ptr()
    assert space.take("wide", 4, 6, like=like.half()).dtype == torch.float16
    assert space.take("wide", 100, 6, like=like).shape == (100, 6)


def test_what_is_very_large_or_elsewhere_is_not_kept():
    space = Workspace()
    assert space.take("wide", 2**20, 64, like=torch.zeros(1)) is None
    assert space.take("wide", 1, 1, like=torch.zeros(1, device="meta")) is None
