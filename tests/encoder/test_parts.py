"""Pooling, batching, precision and the shipped test doubles, by hand."""

from __future__ import annotations

import math
import sys

import numpy as np
import pytest
import torch

from sbert_retriever.encoder import precision
from sbert_retriever.encoder.batching import token_batches
from sbert_retriever.encoder.pooling import pool
from sbert_retriever.errors import DeviceError, InputError, InputTypeError
from sbert_retriever.testing import HashEncoder, mixed_blocks, mixed_vectors
from sbert_retriever.types import Encoder

# One text of three tokens and one of two, whose padding is large on purpose.
HIDDEN = torch.tensor(
    [[[1.0, -2.0], [3.0, 0.0], [5.0, 2.0]], [[4.0, -8.0], [2.0, -4.0], [99.0, 99.0]]]
)
MASK = torch.tensor([[True, True, True], [True, True, False]])


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        ("mean", [[3, 0], [3, -6]]),
        ("max", [[5, 2], [4, -4]]),
        ("cls", [[1, -2], [4, -8]]),
        ("last_token", [[5, 2], [2, -4]]),
        ("mean_sqrt_len", [[9 / math.sqrt(3), 0], [6 / math.sqrt(2), -12 / math.sqrt(2)]]),
        ("weighted_mean", [[22 / 6, 4 / 6], [8 / 3, -16 / 3]]),
    ],
)
def test_padding_never_counts(mode, expected):
    found = pool(HIDDEN, MASK, (mode,))
    assert found.numpy() == pytest.approx(np.array(expected), abs=1e-5)
    assert pool(HIDDEN[:1], None, (mode,)).numpy() == pytest.approx(
        np.array(expected[:1]), abs=1e-5
    )


def test_pooling_is_done_in_float32():
    found = pool(torch.ones(1, 3000, 1, dtype=torch.bfloat16), None, ("mean",))
    assert found.dtype == torch.float32
    assert found.item() == 1.0


def ids_of(*lengths):
    return [np.full(n, n, dtype=np.int32) for n in lengths]


def test_batches_are_longest_first_and_lose_no_row():
    batches = list(token_batches(ids_of(3, 9, 1, 9, 4, 40), max_tokens=18))
    assert [batch.rows for batch in batches] == [(5,), (1, 3), (4, 0, 2)]


def test_a_full_batch_ends_where_the_length_changes():
    batches = list(token_batches(ids_of(5, 5, 4, 4, 4), max_tokens=100, full_tokens=10))
    assert [batch.rows for batch in batches] == [(0, 1), (2, 3, 4)]


def test_padding_is_masked_and_equal_lengths_need_no_mask():
    (batch,) = token_batches(ids_of(3, 1), max_tokens=10)
    ids, mask = batch.padded(7, device=torch.device("cpu"))
    assert ids.tolist() == [[3, 3, 3], [1, 7, 7]]
    assert mask.tolist() == [[True, True, True], [True, False, False]]
    (batch,) = token_batches(ids_of(2, 2), max_tokens=10)
    assert batch.padded(7, device=torch.device("cpu"))[1] is None


def test_auto_takes_bfloat16_on_a_cpu_with_amx_or_on_amds(monkeypatch):
    cpu = torch.device("cpu")
    for features, expected in (
        ({"amx_bf16", "avx512_bf16"}, torch.bfloat16),
        ({"avx512_bf16", "amd"}, torch.bfloat16),
        ({"amd"}, torch.float32),
        ({"avx512_bf16"}, torch.float32),
        (set(), torch.float32),
    ):
        monkeypatch.setattr(precision, "cpu_features", lambda f=features: frozenset(f))
        assert precision.choose_dtype("auto", cpu) == expected
    assert precision.choose_dtype("bfloat16", cpu) == torch.bfloat16


def test_a_device_that_is_absent_is_said_to_be():
    with pytest.raises(DeviceError, match="cuda:99"):
        precision.choose_device("cuda:99")
    for name in ("gpu", "cuda:x", ""):
        with pytest.raises(InputError, match="expected auto, cpu"):
            precision.choose_device(name)
    assert precision.choose_device("cpu") == torch.device("cpu")


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_a_gpu_gives_the_same_vectors(tiny, tiny_folder):
    from sbert_retriever import BiEncoder

    fast = BiEncoder.load(tiny_folder, device="cuda", dtype="float32")
    texts = ["cat", "one two three", ""]
    assert fast.encode_passages(texts) == pytest.approx(tiny.encode_passages(texts), abs=1e-4)


def test_the_hash_encoder_is_an_encoder():
    encoder = HashEncoder(dim=16)
    assert isinstance(encoder, Encoder)
    vectors = encoder.encode_passages(["cats purr", "", "Purr, cats!"])
    assert vectors.dtype == np.float32
    assert np.linalg.norm(vectors, axis=1) == pytest.approx([1, 1, 1])
    assert vectors[0] == pytest.approx(vectors[2])
    assert encoder.encode_queries([]).shape == (0, 16)
    with pytest.raises(InputTypeError):
        encoder.encode_queries("cat")


def test_mixed_vectors_repeat_and_hold_queries_out():
    base = HashEncoder(32).encode_passages([f"word{n} other{n}" for n in range(50)])
    first = mixed_vectors(base, 300, noise=0.05, queries=20, seed=3)
    again = mixed_vectors(base, 300, noise=0.05, queries=20, seed=3)
    assert np.array_equal(first.vectors, again.vectors)
    assert np.linalg.norm(first.queries, axis=1) == pytest.approx(np.ones(20), abs=1e-5)
    assert (first.queries @ first.vectors.T).max() < 1 - 1e-6
    clean = mixed_vectors(base, 10, noise=0.0, queries=1, seed=3)
    spanned = np.linalg.lstsq(base.T, clean.vectors.T, rcond=None)[0]
    assert base.T @ spanned == pytest.approx(clean.vectors.T, abs=1e-4)


def test_mixed_blocks_are_the_mixed_vectors_in_parts():
    base = HashEncoder(8).encode_passages([f"word{n} other{n}" for n in range(50)])
    whole = mixed_vectors(base, 20_000, queries=7, seed=3)
    blocks = list(mixed_blocks(base, 20_007, seed=3))
    assert [len(block) for block in blocks] == [8192, 8192, 3623]
    assert np.array_equal(np.concatenate(blocks), np.concatenate(whole))
    assert list(mixed_blocks(base, 0)) == []


def test_the_test_doubles_need_no_torch():
    """`HashEncoder` and `mixed_vectors` load neither torch nor transformers."""
    import subprocess

    code = (
        "import sys; from sbert_retriever.testing import HashEncoder;"
        "HashEncoder().encode_queries(['a']); assert 'torch' not in sys.modules"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
