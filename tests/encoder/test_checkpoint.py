"""What the files of a checkpoint say, in every spelling, and what is refused."""

from __future__ import annotations

import json
import pickle
from pathlib import Path

import pytest
import torch
from tokenizers import Tokenizer

from sbert_retriever import BiEncoder
from sbert_retriever.encoder.checkpoint import position_limit, read_checkpoint
from sbert_retriever.encoder.weights import fingerprint, load_state
from sbert_retriever.errors import ModelError, ModelFormatError
from sbert_retriever.testing import tiny_bert


@pytest.fixture
def folder(tmp_path) -> Path:
    return tiny_bert(tmp_path / "model")


def edit(path: Path, **changes) -> None:
    value = json.loads(path.read_text()) if path.is_file() else {}
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps({**value, **changes}))


def test_a_plain_folder_pools_by_the_mean(folder):
    """A transformers folder without modules.json: mean pooling, no normalising."""
    (folder / "modules.json").unlink()
    checkpoint = read_checkpoint(folder)
    assert (checkpoint.pooling, checkpoint.normalize) == (("mean",), False)


@pytest.mark.parametrize(
    ("config", "modes"),
    [
        ({"pooling_mode": "lasttoken", "embedding_dimension": 32}, ("last_token",)),
        ({"pooling_mode": ["cls", "weightedmean"]}, ("cls", "weighted_mean")),
        ({"pooling_mode_mean_tokens": True, "pooling_mode_cls_token": True}, ("cls", "mean")),
        ({"pooling_mode_mean_sqrt_len_tokens": True}, ("mean_sqrt_len",)),
        ({}, ("mean",)),
    ],
)
def test_old_and_new_spellings_of_pooling(folder, config, modes):
    (folder / "1_Pooling" / "config.json").write_text(json.dumps(config))
    assert read_checkpoint(folder).pooling == modes


@pytest.mark.parametrize(
    ("prompts", "default", "query", "passage"),
    [
        ({}, None, "", ""),
        ({"query": "query: ", "passage": "passage: "}, None, "query: ", "passage: "),
        ({"query": "q: ", "document": "", "passage": "p: "}, None, "q: ", "p: "),
        ({"query": "q: ", "corpus": "c: "}, "query", "q: ", "c: "),
        ({"query": "q: "}, "query", "q: ", ""),
        ({"sts": "s: ", "query": "q: "}, "sts", "q: ", "s: "),
    ],
)
def test_each_role_finds_its_prompt(folder, prompts, default, query, passage):
    edit(folder / "config_sentence_transformers.json", prompts=prompts, default_prompt_name=default)
    checkpoint = read_checkpoint(folder)
    assert checkpoint.prompt("query") == query
    assert checkpoint.prompt("passage") == passage


@pytest.mark.parametrize(
    ("name", "kind"), [("dot", "dot"), ("euclidean", "neg_l2"), ("manhattan", "neg_l1")]
)
def test_the_similarity_is_kept(folder, name, kind):
    edit(folder / "config_sentence_transformers.json", similarity_fn_name=name)
    assert read_checkpoint(folder).similarity == kind


def test_the_tokenizers_length_serves_where_the_model_names_none(folder):
    (folder / "sentence_bert_config.json").unlink()
    edit(folder / "tokenizer_config.json", model_max_length=40)
    assert read_checkpoint(folder).max_length == 40
    edit(folder / "tokenizer_config.json", model_max_length=int(1e30))
    assert read_checkpoint(folder).max_length == 64


def test_roberta_keeps_two_positions_for_padding():
    config = {"model_type": "roberta", "max_position_embeddings": 514, "pad_token_id": 1}
    assert position_limit(config) == 512
    assert position_limit({"model_type": "t5"}) is None


def test_code_from_a_repository_is_never_run(folder):
    edit(folder / "config.json", auto_map={"AutoModel": "modeling.Custom"})
    with pytest.raises(ModelFormatError, match="auto_map"):
        BiEncoder.load(folder)


@pytest.mark.parametrize("kind", ["custom.Thing", "sentence_transformers.models.WordEmbeddings"])
def test_an_unknown_module_is_named(folder, kind):
    modules = json.loads((folder / "modules.json").read_text())
    modules[1]["type"] = kind
    (folder / "modules.json").write_text(json.dumps(modules))
    with pytest.raises(ModelFormatError, match=kind):
        read_checkpoint(folder)


def test_a_module_outside_the_folder_is_refused(folder):
    modules = json.loads((folder / "modules.json").read_text())
    modules[1]["path"] = "../elsewhere"
    (folder / "modules.json").write_text(json.dumps(modules))
    with pytest.raises(ModelFormatError, match="outside"):
        read_checkpoint(folder)


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("config.json", "{"),
        ("config.json", "[1]"),
        ("modules.json", '["x"]'),
        ("tokenizer.json", "{}"),
        ("config_sentence_transformers.json", '{"similarity_fn_name": "secret"}'),
        ("1_Pooling/config.json", '{"pooling_mode": "median"}'),
        ("modules.json", "null"),
        *((f, "[" * 100_000) for f in ("config.json", "modules.json", "1_Pooling/config.json")),
    ],
)
def test_a_damaged_file_is_named(folder, file, text):
    (folder / file).write_text(text)
    with pytest.raises(ModelFormatError):
        BiEncoder.load(folder)


@pytest.mark.parametrize(
    "change",
    [
        {"hidden_size": 64},
        {"num_attention_heads": 3},
        {"num_attention_heads": 0},
        {"num_hidden_layers": 0},
        {"num_hidden_layers": -1},
        {"num_hidden_layers": 9},
        {"num_hidden_layers": "two"},
        {"model_type": "distilbert"},
        {"model_type": "llama"},
    ],
)
def test_a_config_of_another_model_is_refused(folder, change):
    """Weights that a config asks for and that are not there must not become random ones."""
    edit(folder / "config.json", **change)
    with pytest.raises(ModelFormatError):
        BiEncoder.load(folder, device="cpu").encode_queries(["text"])


@pytest.mark.parametrize("dtype", ["float32", "int8"])
@pytest.mark.parametrize(
    ("name", "shape"),
    [
        ("encoder.layer.1.attention.self.query.weight", (32, 16)),
        ("encoder.layer.1.intermediate.dense.weight", (128, 8)),
        ("encoder.layer.1.intermediate.dense.bias", (64,)),
        ("encoder.layer.0.output.dense.bias", (8,)),
        ("encoder.layer.1.output.LayerNorm.weight", (4,)),
        ("embeddings.LayerNorm.bias", (1,)),
        ("embeddings.position_embeddings.weight", (64, 1)),
        ("embeddings.word_embeddings.weight", (32,)),
    ],
)
def test_tensors_that_do_not_fit_each_other_are_refused(folder, name, shape, dtype):
    """A damaged or hostile model gives an error: never a broadcast, never memory past an end."""
    state = load_state(folder)
    key = next(key for key in state if key.endswith(name))
    state[key] = torch.zeros(shape)
    torch.save(state, folder / "pytorch_model.bin")
    (folder / "model.safetensors").unlink()
    with pytest.raises(ModelFormatError, match=f"{name} of shape"):
        BiEncoder.load(folder, device="cpu", dtype=dtype).encode_queries(["text"])


@pytest.mark.parametrize("key", ["num_hidden_layers", "num_attention_heads"])
def test_a_size_that_the_config_leaves_out_is_named(folder, key):
    """Not by a KeyError."""
    path = folder / "config.json"
    config = json.loads(path.read_text())
    del config[key]
    path.write_text(json.dumps(config))
    with pytest.raises(ModelFormatError, match=f"config.json says {key} None, expected"):
        BiEncoder.load(folder, device="cpu", dtype="float32").encode_queries(["text"])


@pytest.mark.parametrize("activation", ["gelu", "silu"])
def test_tokens_that_the_model_does_not_know_are_refused(folder, activation):
    """Words added to a tokenizer and not to its model: a sentence, and no lost GPU.

    With "silu" the model runs through transformers.
    """
    edit(folder / "config.json", hidden_act=activation)
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    known = tokenizer.get_vocab_size()
    tokenizer.add_tokens(["zyxwvu"])
    tokenizer.save(str(folder / "tokenizer.json"))
    encoder = BiEncoder.load(folder, device="cpu", dtype="float32")
    assert encoder.encode_queries(["a cat"]).shape == (1, encoder.dim)
    with pytest.raises(ModelError, match=f"token id {known}, and the model knows {known}"):
        encoder.encode_queries(["a zyxwvu"])


def test_a_pooling_without_its_file_is_refused(folder):
    """Half a download of a model that pools by CLS must not pool by the mean."""
    (folder / "1_Pooling" / "config.json").unlink()
    with pytest.raises(ModelFormatError, match="is missing"):
        BiEncoder.load(folder)


def test_torch_files_of_tensors_are_read(folder):
    expected = load_state(folder)
    torch.save(expected, folder / "pytorch_model.bin")
    (folder / "model.safetensors").unlink()
    found = load_state(folder)
    assert all(torch.equal(found[name], expected[name]) for name in expected)


def test_a_pickle_that_runs_code_is_refused(folder, tmp_path):
    """A weights file that would run code when unpickled is an error and runs nothing."""
    mark = tmp_path / "ran"

    class Evil:
        def __reduce__(self):
            return (Path.touch, (mark,))

    (folder / "model.safetensors").unlink()
    (folder / "pytorch_model.bin").write_bytes(pickle.dumps(Evil(), protocol=2))
    with pytest.raises(ModelFormatError, match="safetensors"):
        load_state(folder)
    assert not mark.exists()


def test_a_torch_file_without_names_is_refused(folder):
    (folder / "model.safetensors").unlink()
    torch.save([torch.ones(2)], folder / "pytorch_model.bin")
    with pytest.raises(ModelFormatError, match="holds a list, expected tensors by name"):
        load_state(folder)


def test_an_encoder_decoder_is_refused_when_its_weights_are_read(folder):
    """A model with a decoder has no hidden states of a text alone to pool."""
    edit(folder / "config.json", model_type="t5", d_model=32, is_encoder_decoder=True)
    encoder = BiEncoder.load(folder, device="cpu")
    with pytest.raises(ModelFormatError, match="encoder-decoder"):
        encoder.encode_queries(["text"])


def test_shards_are_put_together(folder):
    from safetensors.torch import save_file

    state = load_state(folder)
    (folder / "model.safetensors").unlink()
    places = {name: f"model-{i % 2}.safetensors" for i, name in enumerate(sorted(state))}
    for file in set(places.values()):
        save_file({n: x for n, x in state.items() if places[n] == file}, folder / file)
    edit(folder / "model.safetensors.index.json", weight_map=places)
    assert load_state(folder).keys() == state.keys()


def test_missing_and_damaged_weights_are_said(folder):
    (folder / "model.safetensors").write_bytes(b"nonsense")
    with pytest.raises(ModelFormatError, match="cannot be read"):
        BiEncoder.load(folder).encode_queries(["cat"])
    (folder / "model.safetensors").unlink()
    with pytest.raises(ModelFormatError, match="no weights"):
        BiEncoder.load(folder)


def test_a_tensor_that_is_missing_is_named(folder):
    edit(folder / "config.json", num_hidden_layers=3)
    with pytest.raises(ModelError, match=r"encoder\.layer\.2"):
        BiEncoder.load(folder).encode_queries(["cat"])


def test_the_fingerprint_sees_weights_and_what_comes_after_them(folder, tmp_path):
    first = fingerprint(read_checkpoint(folder))
    assert first == fingerprint(read_checkpoint(tiny_bert(tmp_path / "same")))
    assert first != fingerprint(read_checkpoint(tiny_bert(tmp_path / "seed", seed=1)))
    assert first != fingerprint(read_checkpoint(tiny_bert(tmp_path / "cls", pooling="cls")))
    assert first != fingerprint(read_checkpoint(tiny_bert(tmp_path / "raw", normalize=False)))


def test_texts_are_lowercased_where_the_model_says_so(folder):
    """do_lower_case holds even where the tokenizer itself keeps case, and offsets stay right."""
    tokenizer = json.loads((folder / "tokenizer.json").read_text())
    tokenizer["normalizer"] = None
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer))
    edit(folder / "sentence_bert_config.json", do_lower_case=True)
    lower = BiEncoder.load(folder, dtype="float32")
    assert lower.encode_queries(["THE CAT"]) == pytest.approx(
        lower.encode_queries(["the cat"]), abs=1e-6
    )
    assert lower.token_offsets(["THE CAT"]) == [[(0, 3), (4, 7)]]


def test_a_folder_with_only_a_vocabulary_is_read(folder):
    expected = BiEncoder.load(folder, dtype="float32").encode_queries(["the cat"])
    (folder / "tokenizer.json").unlink()
    found = BiEncoder.load(folder, dtype="float32").encode_queries(["the cat"])
    assert found == pytest.approx(expected, abs=1e-6)
