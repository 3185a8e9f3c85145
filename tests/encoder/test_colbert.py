"""ColBERT checkpoints in both layouts, against transformers and numpy alone."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer
from transformers import BertModel

from sbert_retriever import BiEncoder, CrossEncoder, Passage, Profile, Retriever
from sbert_retriever.encoder.colbert import ColbertEncoder
from sbert_retriever.encoder.late_interaction import maxsim
from sbert_retriever.errors import InputTypeError, ModelFormatError
from sbert_retriever.testing import HashEncoder, tiny_bert

DIM, WIDTH, QUERY, PASSAGE = 8, 32, 10, 14
TEXTS = ["the cat sat, on the mat!", "a dog", "one two three four five six seven eight nine ten"]


def projection():
    generator = torch.Generator().manual_seed(7)
    return torch.randn(DIM, WIDTH, generator=generator)


def markers(folder):
    """Two tokens of the vocabulary, to mark with."""
    vocabulary = json.loads((folder / "tokenizer.json").read_text())["model"]["vocab"]
    return [token for token in vocabulary if token.isalpha() and len(token) == 1][:2]


@pytest.fixture
def plain(tmp_path):
    """A small BERT as a plain folder."""
    folder = tiny_bert(tmp_path / "bert", hidden=WIDTH)
    for name in ("modules.json", "config_sentence_transformers.json"):
        (folder / name).unlink(missing_ok=True)
    shutil.rmtree(folder / "1_Pooling", ignore_errors=True)
    return folder


@pytest.fixture
def authors(plain):
    """The layout of the authors' code."""
    state = {f"bert.{name}": x for name, x in load_file(plain / "model.safetensors").items()}
    save_file({**state, "linear.weight": projection()}, plain / "model.safetensors")
    first, second = markers(plain)
    said = {
        "query_maxlen": QUERY,
        "doc_maxlen": PASSAGE,
        "query_token_id": first,
        "doc_token_id": second,
        "mask_punctuation": True,
        "attend_to_mask_tokens": False,
    }
    (plain / "artifact.metadata").write_text(json.dumps(said))
    return plain


@pytest.fixture
def modules(plain):
    """The layout of a sentence-transformers folder for late interaction."""
    dense = plain / "1_Dense"
    dense.mkdir()
    save_file({"linear.weight": projection()}, dense / "model.safetensors")
    config = {
        "in_features": WIDTH,
        "out_features": DIM,
        "bias": False,
        "activation_function": "torch.nn.modules.linear.Identity",
    }
    (dense / "config.json").write_text(json.dumps(config))
    listed = [
        {"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"},
        {"idx": 1, "name": "1", "path": "1_Dense", "type": "pylate.models.Dense.Dense"},
    ]
    (plain / "modules.json").write_text(json.dumps(listed))
    first, second = markers(plain)
    said = {
        "query_prefix": first,
        "document_prefix": second,
        "query_length": QUERY,
        "document_length": PASSAGE,
        "attend_to_expansion_tokens": False,
        "skiplist_words": [",", "!", "."],
    }
    (plain / "config_sentence_transformers.json").write_text(json.dumps(said))
    return plain


def expected(folder, text, role):
    """By hand: tokens, marker, [MASK], BERT, projection, length 1, punctuation left out."""
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.no_truncation()
    tokenizer.no_padding()
    ids = tokenizer.encode(text).ids
    length = QUERY if role == "query" else PASSAGE
    if len(ids) > length - 1:
        ids = [*ids[: length - 2], ids[-1]]
    marker = tokenizer.token_to_id(markers(folder)[role == "passage"])
    ids = [ids[0], marker, *ids[1:]]
    own = len(ids)
    if role == "query":
        ids += [tokenizer.token_to_id("[MASK]")] * (QUERY - own)
    mask = torch.tensor([[1] * own + [0] * (len(ids) - own)])
    state = load_file(folder / "model.safetensors")
    model = BertModel.from_pretrained(folder, add_pooling_layer=False).eval()
    model.load_state_dict(
        {k.removeprefix("bert."): v for k, v in state.items() if "linear." not in k}, strict=False
    )
    with torch.no_grad():
        hidden = model(torch.tensor([ids]), attention_mask=mask).last_hidden_state[0]
    rows = (hidden @ projection().T).numpy()
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    marks = {tokenizer.token_to_id(sign) for sign in ",!."}
    kept = [n for n, i in enumerate(ids) if role == "query" or i not in marks]
    return rows[kept]


@pytest.mark.parametrize("layout", ["authors", "modules"])
@pytest.mark.parametrize("role", ["query", "passage"])
def test_token_vectors_are_those_worked_out_by_hand(request, layout, role):
    folder = request.getfixturevalue(layout)
    encoder = ColbertEncoder.load(folder, device="cpu", dtype="float32")
    found = encoder.encode_tokens(TEXTS, role=role)
    for text, rows in zip(TEXTS, found, strict=True):
        assert rows.dtype == np.float32
        np.testing.assert_allclose(rows, expected(folder, text, role), atol=1e-5)
    if role == "query":
        assert {len(rows) for rows in found} == {QUERY}


def test_candidates_are_put_in_order_by_it(authors):
    encoder = ColbertEncoder.load(authors, device="cpu", dtype="float32")
    profile = Profile(candidates=3, rerank_depth=0, late=3)
    with Retriever.open(":memory:", model=HashEncoder(dim=16), late_encoder=authors) as retriever:
        retriever.index([Passage(f"p{n}", text) for n, text in enumerate(TEXTS)])
        hits = retriever.search("the cat on a mat", 3, profile=profile)
    query = encoder.encode_tokens(["the cat on a mat"], role="query")[0]
    passages = encoder.encode_tokens(TEXTS, role="passage")
    scores = {f"p{n}": maxsim(query, rows) for n, rows in enumerate(passages)}
    assert [hit.id for hit in hits] == sorted(scores, key=lambda i: -scores[i])
    assert {hit.id: hit.score for hit in hits} == pytest.approx(scores, abs=1e-4)
    assert {hit.score_kind for hit in hits} == {"maxsim"}


@pytest.mark.parametrize("layout", ["authors", "modules"])
def test_one_kind_of_model_is_not_taken_for_another(request, layout, tmp_path):
    folder = request.getfixturevalue(layout)
    with pytest.raises(ModelFormatError, match="is a ColBERT checkpoint, which gives a vector a"):
        BiEncoder.load(folder)
    with pytest.raises(ModelFormatError):
        CrossEncoder.load(folder)
    other = tiny_bert(tmp_path / "other")
    with pytest.raises(ModelFormatError, match="is no ColBERT checkpoint"):
        ColbertEncoder.load(other)
    with pytest.raises(InputTypeError, match="late_encoder is int, expected a ColBERT"):
        Retriever.open(":memory:", model=HashEncoder(), late_encoder=3)


def test_a_layer_that_is_more_than_a_projection_is_refused(modules):
    config = json.loads((modules / "1_Dense" / "config.json").read_text())
    (modules / "1_Dense" / "config.json").write_text(json.dumps({**config, "bias": True}))
    with pytest.raises(ModelFormatError, match="expected a projection with neither"):
        ColbertEncoder.load(modules)


def test_a_projection_that_does_not_fit_is_refused(authors):
    state = load_file(authors / "model.safetensors")
    save_file({**state, "linear.weight": torch.ones(DIM, 5)}, authors / "model.safetensors")
    encoder = ColbertEncoder.load(authors, device="cpu", dtype="float32")
    with pytest.raises(ModelFormatError, match=r"of shape \(8, 5\), expected \(dim, 32\)"):
        encoder.encode_tokens(["a"], role="query")
