"""Texts end to end: the same states as padded, in every floating type."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from sbert_retriever import BiEncoder
from sbert_retriever.encoder import backbone
from sbert_retriever.encoder.attention import by_text, packs_well
from sbert_retriever.encoder.batching import token_batches
from sbert_retriever.encoder.packing import packed

CPU = torch.device("cpu")


def test_texts_lie_end_to_end():
    texts = packed([np.array([7, 8, 9]), np.array([5])], [np.array([0, 0, 1]), np.array([0])],
                   device=CPU)  # fmt: skip
    assert texts.ids.tolist() == [7, 8, 9, 5]
    assert texts.places.tolist() == [0, 1, 2, 0]
    assert texts.types.tolist() == [0, 0, 1, 0]
    assert texts.starts.tolist() == [0, 3, 4]
    assert texts.starts.dtype == torch.int32
    assert texts.longest == 3


def test_states_are_spread_over_rows_of_one_length():
    states = torch.arange(8.0).view(4, 2)
    grid, mask = packed([np.zeros(3), np.zeros(1)], None, device=CPU).spread(states)
    assert grid.tolist() == [[[0, 1], [2, 3], [4, 5]], [[6, 7], [0, 0], [0, 0]]]
    assert mask.tolist() == [[True, True, True], [True, False, False]]
    grid, mask = packed([np.zeros(2), np.zeros(2)], None, device=CPU).spread(states)
    assert grid.shape == (2, 2, 2)
    assert mask is None


def test_attention_stays_within_a_text():
    """Two texts of one key each: every query gives its own text's value, whatever it asks."""
    texts = packed([np.zeros(1), np.zeros(1)], None, device=CPU)
    q, k = torch.randn(2, 1, 4), torch.randn(2, 1, 4)
    v = torch.tensor([[[1.0, 2, 3, 4]], [[5.0, 6, 7, 8]]])
    assert by_text(q, k, v, texts).tolist() == v.tolist()


@pytest.mark.parametrize(
    ("dtype", "bound"), [("float32", 1e-5), ("bfloat16", 3e-2), ("float16", 3e-3)]
)
def test_packed_equals_padded(tiny_folder, dtype, bound, monkeypatch):
    """The way that GPUs go, on the CPU: vectors and token vectors of texts of many lengths."""
    texts = [" ".join(["cat", "one", "zebra"] * (n % 9)) for n in range(50)]
    padded, flat = (BiEncoder.load(tiny_folder, device="cpu", dtype=dtype) for _ in range(2))
    flat._runner._loaded()[0].packs_well = True
    ways = [x.encode_passages(texts, on_truncate="ignore") for x in (padded, flat)]
    assert np.abs(ways[0] - ways[1]).max() < bound
    tokens = [x.encode_tokens(texts, role="passage") for x in (padded, flat)]
    for left, right in zip(*tokens, strict=True):
        assert left.shape == right.shape
        assert np.abs(left - right).max() < 3 * bound


def test_the_packed_way_reads_no_padding(tiny_folder):
    encoder = BiEncoder.load(tiny_folder, device="cpu", dtype="float32")
    model = encoder._runner._loaded()[0]
    model.packs_well = True
    (batch,) = token_batches([np.arange(5, 5 + n, dtype=np.int32) for n in (9, 2)], max_tokens=99)
    with torch.inference_mode():
        hidden, mask = backbone.hidden_states(model, batch, pad_id=0, device=CPU)
    assert hidden.shape[:2] == (2, 9)
    assert mask.sum(1).tolist() == [9, 2]


def test_no_kernel_is_claimed_for_the_cpu():
    assert not packs_well(CPU, torch.bfloat16, 64)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_a_gpu_packs_and_gives_the_same_vectors(tiny_folder, tiny):
    """In bfloat16, through the kernel where this torch has it; and 10,000 texts keep their rows."""
    texts = [" ".join(["cat", "one", "zebra"] * (n % 9)) for n in range(10_000)]
    fast = BiEncoder.load(tiny_folder, device="cuda", dtype="bfloat16")
    found, exact = (x.encode_passages(texts, on_truncate="ignore") for x in (fast, tiny))
    assert np.abs(found - exact).max() < 5e-2
