"""The same vectors as sentence-transformers, and the published correlations."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import spearmanr

from sbert_retriever import BiEncoder
from sbert_retriever.encoder.packaged import find_packaged
from sbert_retriever.testing import tiny_bert

TEXTS = ["the cat", "", "Hello world, query! " * 2, "zebra", "one two three four. " * 9]


def largest_difference(encoder, reference, texts):
    ours = encoder.encode_passages(texts, on_truncate="ignore")
    return np.abs(ours - reference.encode(texts)).max()


@pytest.mark.data
def test_minilm_equals_the_reference_on_real_text(minilm, minilm_reference, sentences, abstracts):
    assert largest_difference(minilm, minilm_reference, sentences) < 1e-5
    assert largest_difference(minilm, minilm_reference, abstracts[:24]) < 1e-5


@pytest.mark.data
def test_bge_equals_the_reference_on_real_text(bge, bge_reference, sentences, abstracts):
    assert largest_difference(bge, bge_reference, sentences) < 1e-5
    assert largest_difference(bge, bge_reference, abstracts[:24]) < 1e-5


@pytest.mark.data
@pytest.mark.full
def test_bge_equals_the_reference_on_all_abstracts(bge, bge_reference, abstracts):
    assert largest_difference(bge, bge_reference, abstracts) < 1e-5


@pytest.mark.data
@pytest.mark.full
def test_minilm_equals_the_reference_on_all_abstracts(minilm, minilm_reference, abstracts):
    assert largest_difference(minilm, minilm_reference, abstracts) < 1e-5


@pytest.mark.parametrize(
    "pooling", ["mean", "max", "cls", "mean_sqrt_len", "weighted_mean", "last_token"]
)
@pytest.mark.parametrize("normalize", [True, False])
def test_each_pooling_equals_the_reference(pooling, normalize, reference, tmp_path):
    folder = tiny_bert(tmp_path / "model", pooling=pooling, normalize=normalize)
    ours = BiEncoder.load(folder, device="cpu", dtype="float32")
    assert largest_difference(ours, reference(folder), TEXTS) < 1e-5


def spearman(encoder, stsb):
    """Rank correlation x 100 of cosine and gold (paper, section 4)."""
    texts = list(dict.fromkeys(text for pair in stsb for text in pair[:2]))
    vectors = dict(zip(texts, encoder.encode_passages(texts), strict=True))
    cosine = [vectors[left] @ vectors[right] for left, right, _ in stsb]
    return 100 * spearmanr(cosine, [pair[2] for pair in stsb]).statistic


@pytest.mark.data
@pytest.mark.parametrize("dtype", ["float32", pytest.param("bfloat16", marks=pytest.mark.full)])
@pytest.mark.parametrize(
    ("name", "known"), [("all-MiniLM-L6-v2", 82.03), ("bge-small-en-v1.5", 85.79)]
)
def test_stsb_correlation_is_the_known_one(name, known, dtype, stsb):
    encoder = BiEncoder.load(name, device="cpu", dtype=dtype)
    assert spearman(encoder, stsb) == pytest.approx(known, abs=0.05)


@pytest.mark.data
def test_bfloat16_stays_close_to_float32(minilm, sentences):
    rough = BiEncoder.load("all-MiniLM-L6-v2", device="cpu", dtype="bfloat16")
    cosine = (minilm.encode_passages(sentences) * rough.encode_passages(sentences)).sum(axis=1)
    assert cosine.min() > 0.999
    assert rough.encode_passages(["a"]).dtype == np.float32


def test_first_numbers_of_a_known_vector(minilm):
    """Taken from sentence-transformers 6.2, all-MiniLM-L6-v2, float32."""
    vector = minilm.encode_queries(["hello"])[0]
    known = [-0.06277175, 0.05495882, 0.05216482, 0.08579004, -0.08274891]
    assert vector[:5] == pytest.approx(known, abs=1e-6)


def test_checkpoint_saved_by_todays_reference(minilm_reference, tmp_path):
    """Folders written by the newest release, with its new class names and keys, read the same."""
    minilm_reference.save(str(tmp_path))
    saved = BiEncoder.load(tmp_path, device="cpu", dtype="float32")
    assert saved.max_length == 256
    assert largest_difference(saved, minilm_reference, ["a", "b c"]) < 1e-5


def test_dense_prompts_and_several_poolings(reference, tmp_path):
    """A Dense layer, prompts by role and concatenated poolings give the reference's vectors."""
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.base.modules import Dense, Normalize
    from sentence_transformers.sentence_transformer.modules import Pooling

    transformer = reference(tiny_bert(tmp_path / "tiny"))[0]
    modules = [transformer, Pooling(32, ("cls", "mean")), Dense(64, 16), Normalize()]
    prompts = {"query": "query: ", "document": "passage: "}
    theirs = SentenceTransformer(modules=modules, device="cpu", prompts=prompts)
    theirs.save(str(tmp_path / "whole"))
    ours = BiEncoder.load(tmp_path / "whole", device="cpu", dtype="float32")
    assert ours.dim == 16
    assert np.abs(ours.encode_queries(TEXTS[:3]) - theirs.encode_query(TEXTS[:3])).max() < 1e-5
    assert np.abs(ours.encode_passages(TEXTS[:3]) - theirs.encode_document(TEXTS[:3])).max() < 1e-5


def test_prompt_left_out_of_pooling(reference, tmp_path):
    """A model that excludes its prompt from pooling gives the reference's vectors."""
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Pooling

    transformer = reference(tiny_bert(tmp_path / "tiny"))[0]
    pooling = Pooling(32, "mean", include_prompt=False)
    theirs = SentenceTransformer(
        modules=[transformer, pooling], device="cpu", prompts={"query": "find this: "}
    )
    theirs.save(str(tmp_path / "whole"))
    ours = BiEncoder.load(tmp_path / "whole", device="cpu", dtype="float32")
    assert np.abs(ours.encode_queries(TEXTS[:3]) - theirs.encode_query(TEXTS[:3])).max() < 1e-5


def test_other_architectures_run_through_transformers(reference, tmp_path):
    """A DistilBERT, which has no forward pass of our own, gives the reference's vectors."""
    import torch
    from transformers import DistilBertConfig, DistilBertModel

    folder = tiny_bert(tmp_path)
    torch.manual_seed(0)
    config = DistilBertConfig(
        vocab_size=500, dim=32, n_layers=2, n_heads=4, hidden_dim=64, max_position_embeddings=64
    )
    DistilBertModel(config).save_pretrained(folder)
    ours = BiEncoder.load(folder, device="cpu", dtype="float32")
    assert largest_difference(ours, reference(folder), TEXTS) < 1e-5


def test_packaged_minilm_needs_no_reference_at_run_time():
    """The weights' folder is found by the package's metadata."""
    assert (find_packaged("all-MiniLM-L6-v2").folder() / "model.safetensors").is_file()
