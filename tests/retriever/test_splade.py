"""SPLADE as the sparse encoder: the formula on a random model, and a collection that uses one."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

from sbert_retriever import Passage, Retriever
from sbert_retriever.errors import ContractError, FallbackWarning, ModelError, ModelFormatError
from sbert_retriever.sparse.splade import Splade
from sbert_retriever.testing import HashEncoder, tiny_bert

TEXTS = ["the cat was in the house", "a dog", "", "long " * 100]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random BERT with a masked language model's head."""
    from transformers import AutoConfig, AutoModelForMaskedLM

    path = tiny_bert(tmp_path_factory.mktemp("models") / "splade")
    torch.manual_seed(0)
    model = AutoModelForMaskedLM.from_config(AutoConfig.from_pretrained(path))
    # What was never trained would give every word of the vocabulary a weight.
    model.cls.predictions.bias.data.fill_(-0.1)
    for name in ("modules.json", "model.safetensors"):
        (path / name).unlink(missing_ok=True)
    model.save_pretrained(path)
    return path


@pytest.fixture(scope="module")
def splade(folder: Path) -> Splade:
    return Splade.load(folder, device="cpu", dtype="float32", max_length=32)


def test_weights_are_those_of_the_formula(folder: Path, splade: Splade) -> None:
    """The strongest vote of a text's tokens counts, log(1 + relu(logit)); padding has none."""
    from transformers import AutoModelForMaskedLM, AutoTokenizer

    model = AutoModelForMaskedLM.from_pretrained(folder).eval()
    tokenizer = AutoTokenizer.from_pretrained(folder)
    found = splade.encode_passages(TEXTS)
    for text, vector in zip(TEXTS, found, strict=True):
        inputs = tokenizer(text, truncation=True, max_length=32, return_tensors="pt")
        with torch.inference_mode():
            logits = model(
                input_ids=inputs["input_ids"], attention_mask=inputs["attention_mask"]
            ).logits[0]
        expected = np.log1p(np.maximum(logits.numpy(), 0)).max(axis=0)
        dense = np.zeros_like(expected)
        dense[vector.indices] = vector.values
        assert np.abs(dense - expected).max() < 1e-5


@pytest.mark.parametrize("pooled", ["max", "sum"])
@pytest.mark.parametrize("activation", ["relu", "log1p_relu"])
def test_a_folder_of_sentence_transformers_gives_its_vectors(
    pooled: str, activation: str, folder: Path, tmp_path: Path
) -> None:
    """Its two modules were unknown: no SPLADE saved by it today could be loaded."""
    from sentence_transformers import SparseEncoder
    from sentence_transformers.sparse_encoder.modules import MLMTransformer, SpladePooling

    pooling = SpladePooling(pooling_strategy=pooled, activation_function=activation)
    theirs = SparseEncoder(modules=[MLMTransformer(str(folder)), pooling], device="cpu")
    theirs.save_pretrained(str(tmp_path / "model"))
    expected = theirs.encode(TEXTS, convert_to_sparse_tensor=False).cpu().numpy()
    ours = Splade.load(tmp_path / "model", device="cpu", dtype="float32")
    for vector, row in zip(ours.encode_passages(TEXTS), expected, strict=True):
        dense = np.zeros_like(row)
        dense[vector.indices] = vector.values
        assert np.abs(dense - row).max() < 1e-5
    changed = {
        name: value for name, value in ours.identity.settings.items() if name != "max_length"
    }
    assert len(changed) == (pooled != "max") + (activation != "relu")


def test_unknown_ways_to_pool_are_refused(folder: Path, tmp_path: Path) -> None:
    path = tmp_path / "model"
    shutil.copytree(folder, path)
    (path / "1_SpladePooling").mkdir()
    kinds = ("MLMTransformer", "SpladePooling")
    modules = [
        {"type": f"sentence_transformers.sparse_encoder.models.{kind}", "path": where}
        for kind, where in zip(kinds, ("", "1_SpladePooling"), strict=True)
    ]
    (path / "modules.json").write_text(json.dumps(modules))
    config = path / "1_SpladePooling" / "config.json"
    config.write_text('{"pooling_strategy": "median"}')
    with pytest.raises(ModelFormatError, match="pools by 'median' after 'relu', expected one of"):
        Splade.load(path)
    config.write_text('{"pooling_strategy": "max"}')
    assert Splade.load(path).identity.settings == Splade.load(folder).identity.settings
    (path / "modules.json").write_text(json.dumps(modules[:1]))
    with pytest.raises(ModelFormatError, match="has the modules MLMTransformer, and SPLADE"):
        Splade.load(path)


def test_the_model_of_words_is_opened_again_as_is_said_for_all(
    splade: Splade, tmp_path: Path
) -> None:
    """It went to the GPU, in bfloat16, whatever was said; int8 is not for it."""
    with Retriever.open(tmp_path, model=HashEncoder(), sparse=splade):
        pass
    with Retriever.open(tmp_path, model=HashEncoder(), device="cpu", dtype="float16") as again:
        assert again.store.sparse_encoder()._dtype is torch.float16
    with Retriever.open(tmp_path, model=HashEncoder(), device="cpu", dtype="int8") as again:
        assert again.store.sparse_encoder()._dtype.is_floating_point


def test_tokens_that_the_model_does_not_know_are_refused(folder: Path, tmp_path: Path) -> None:
    """A GPU that looks one up is lost to its process, and a CPU raised an IndexError."""
    from transformers import AutoModelForMaskedLM

    small = tmp_path / "small"
    shutil.copytree(folder, small)
    model = AutoModelForMaskedLM.from_pretrained(folder)
    model.resize_token_embeddings(50)
    model.save_pretrained(small)
    with pytest.raises(ModelError, match="and the model knows 50: it is another model's"):
        Splade.load(small, device="cpu", dtype="float32").encode_passages(TEXTS)


def test_a_batch_without_memory_is_halved_and_nothing_is_lost(folder: Path, monkeypatch) -> None:
    """On a device that has room for three texts at a time."""
    short = Splade.load(folder, device="cpu", dtype="float32", max_length=32)
    texts = [f"the cat {'house ' * (n % 4)}" for n in range(20)]
    expected = short.encode_passages(texts)
    model, refused = short._loaded(), []

    def small(*, input_ids, attention_mask):
        if len(input_ids) > 3:
            refused.append(len(input_ids))
            raise torch.OutOfMemoryError("simulated: out of memory")
        return model(input_ids=input_ids, attention_mask=attention_mask)

    small.get_input_embeddings = model.get_input_embeddings
    monkeypatch.setattr(short, "_model", small)
    with pytest.warns(FallbackWarning, match="halves$"):
        found = short.encode_passages(texts)
    assert refused
    for vector, right in zip(found, expected, strict=True):
        assert vector.indices == right.indices
        assert vector.values == pytest.approx(right.values, abs=1e-5)


def test_a_collection_with_learnt_terms_opens_again(folder: Path, tmp_path: Path) -> None:
    def opened(**more: object) -> Retriever:
        return Retriever.open(
            tmp_path / "index", model=HashEncoder(dim=64), device="cpu", dtype="float32", **more
        )

    with opened(sparse=str(folder)) as retriever:
        retriever.index([Passage(str(n), text) for n, text in enumerate(TEXTS[:2])])
        expected = retriever.search("the cat", 2, mode="sparse")
    assert [hit.score_kind for hit in expected] == ["dot", "dot"]
    with opened() as retriever:
        assert retriever.info().sparse == str(folder)
        again = retriever.search("the cat", 2, mode="sparse")
    assert [(h.id, pytest.approx(h.score, abs=1e-5)) for h in expected] == [
        (h.id, h.score) for h in again
    ]
    with pytest.raises(ContractError, match="open it as it is, or index"):
        opened(sparse="bm25")


def test_what_is_no_masked_language_model_is_refused(tmp_path: Path) -> None:
    other = tiny_bert(tmp_path / "bi-encoder")
    with pytest.raises(ModelFormatError, match=r"Transformer, Pooling.* and SPLADE is a masked"):
        Splade.load(other)
    (other / "modules.json").unlink()
    with pytest.raises(ModelFormatError, match="is BertModel, and SPLADE is a masked language"):
        Splade.load(other)
