"""Real texts, and sentence-transformers as the reference."""

from __future__ import annotations

import ast
import csv
import io
import json
import re
import zipfile
from pathlib import Path

import pytest

from sbert_retriever import BiEncoder
from sbert_retriever.encoder.folders import write_torch_folder
from sbert_retriever.encoder.packaged import find_packaged
from sbert_retriever.testing import tiny_bert


@pytest.fixture(scope="session")
def tiny_folder(tmp_path_factory) -> Path:
    return tiny_bert(tmp_path_factory.mktemp("tiny"))


@pytest.fixture(scope="session")
def tiny(tiny_folder) -> BiEncoder:
    return BiEncoder.load(tiny_folder, device="cpu", dtype="float32")


@pytest.fixture(scope="session")
def stsb(data_dir) -> list[tuple[str, str, float]]:
    """The English test set: 1,379 pairs with their gold scores."""
    with (data_dir / "stsb" / "stsb-en-test.csv").open(encoding="utf-8", newline="") as file:
        return [(left, right, float(score)) for left, right, score in csv.reader(file)]


@pytest.fixture(scope="session")
def sentences(stsb) -> list[str]:
    """500 different sentences."""
    return list(dict.fromkeys(text for pair in stsb for text in pair[:2]))[:500]


@pytest.fixture(scope="session")
def abstracts(data_dir) -> list[str]:
    """200 titles with their abstracts, which are stored as printed arrays of sentences."""
    with zipfile.ZipFile(data_dir / "scifact" / "scifact.zip") as archive:
        file = io.TextIOWrapper(archive.open("corpus_train.csv"), encoding="utf-8", newline="")
        rows = [row for row, _ in zip(csv.DictReader(file), range(200), strict=False)]
    return [f"{row['title']} {' '.join(_printed_strings(row['abstract']))}" for row in rows]


def _printed_strings(printed: str) -> list[str]:
    literals = re.findall(r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"", printed)
    return [ast.literal_eval(literal) for literal in literals]


@pytest.fixture(scope="session")
def reference():
    """Open a folder with sentence-transformers on the CPU."""
    from sentence_transformers import SentenceTransformer

    def load(folder):
        return SentenceTransformer(str(folder), device="cpu")

    return load


@pytest.fixture(scope="session")
def minilm_reference(reference):
    return reference(find_packaged("all-MiniLM-L6-v2").folder())


@pytest.fixture(scope="session")
def bge_reference(reference, tmp_path_factory):
    """The same dequantised weights, as a folder that sentence-transformers reads."""
    source = find_packaged("bge-small-en-v1.5").folder()
    folder = tmp_path_factory.mktemp("bge")
    write_torch_folder(source, folder)
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    write_json(folder / "config.json", {**config, "architectures": ["BertModel"]})
    write_json(folder / "sentence_bert_config.json", {"max_seq_length": 512})
    kinds = {"": "Transformer", "1_Pooling": "Pooling", "2_Normalize": "Normalize"}
    modules = [
        {"idx": i, "name": str(i), "path": path, "type": f"sentence_transformers.models.{kind}"}
        for i, (path, kind) in enumerate(kinds.items())
    ]
    write_json(folder / "modules.json", modules)
    pooling = {"word_embedding_dimension": 384, "pooling_mode_cls_token": True}
    write_json(folder / "1_Pooling" / "config.json", {**pooling, "pooling_mode_mean_tokens": False})
    (folder / "2_Normalize").mkdir()
    return reference(folder)


@pytest.fixture(scope="session")
def marco(data_dir) -> list[tuple[str, str]]:
    """200 judged pairs of MS MARCO: a query and a passage."""
    folder = data_dir / "beir-small-msmarco"
    corpus, queries = (
        {
            row["_id"]: row["text"]
            for row in map(json.loads, file.read_text("utf-8").split("\n")[:-1])
        }
        for file in (folder / "corpus.jsonl", folder / "queries.jsonl")
    )
    lines = (folder / "test.tsv").read_text(encoding="utf-8").split("\n")
    rows = [line.split("\t") for line in lines if line]
    pairs = [(queries[q], corpus[d]) for q, d, *_ in rows if q in queries and d in corpus]
    return pairs[:: len(pairs) // 200][:200]


@pytest.fixture(scope="session")
def cross_reference_folder(tmp_path_factory) -> Path:
    """The same dequantised weights, as a folder that sentence-transformers reads."""
    source = find_packaged("ms-marco-MiniLM-L12-v2").folder()
    return write_torch_folder(source, tmp_path_factory.mktemp("marco"))


@pytest.fixture(scope="session")
def cross_reference():
    """Logits of sentence-transformers' CrossEncoder: it would put a sigmoid on one label."""
    import torch
    from sentence_transformers import CrossEncoder

    def logits(folder, pairs):
        model = CrossEncoder(str(folder), device="cpu")
        return model.predict(pairs, activation_fn=torch.nn.Identity(), show_progress_bar=False)

    return logits


@pytest.fixture(scope="session")
def classifier_folder(tmp_path_factory):
    """Write a small random sequence classifier of an architecture of transformers."""
    import torch
    from transformers import AutoConfig, AutoModelForSequenceClassification

    def make(model_type="bert", **settings):
        folder = tiny_bert(tmp_path_factory.mktemp(model_type))
        for name in ("modules.json", "sentence_bert_config.json", "model.safetensors"):
            (folder / name).unlink()
        sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4}
        config = AutoConfig.for_model(
            model_type,
            vocab_size=400,
            intermediate_size=64,
            max_position_embeddings=66,
            initializer_range=0.5,
            **{**sizes, "pad_token_id": 0, "num_labels": 1, **settings},
        )
        torch.manual_seed(0)
        AutoModelForSequenceClassification.from_config(config).save_pretrained(folder)
        return folder

    return make


def write_json(path: Path, value: object) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(value), encoding="utf-8")
