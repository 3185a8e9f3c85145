"""ColBERT checkpoints: token vectors worked out with transformers and numpy, text by text."""

from __future__ import annotations

import json
import string

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer
from transformers import AutoTokenizer, BertConfig, BertModel

from sbert_retriever import BiEncoder, CrossEncoder
from sbert_retriever.encoder.colbert import ColbertEncoder
from sbert_retriever.encoder.late_interaction import maxsim
from sbert_retriever.errors import InputError, InputTypeError, ModelError, ModelFormatError
from sbert_retriever.rerank.late import TokenEncoder
from sbert_retriever.testing import tiny_bert

TEXTS = ["the cat sleeps", "", "A dog, a house!", "the dog " * 20, "...", "[MASK] cat"]
LAYOUTS = ["colbert-ai", "pylate"]


def load(folder, **settings):
    return ColbertEncoder.load(folder, **{"device": "cpu", "dtype": "float32"} | settings)


class Reference:
    """The paper's section 3.2, by hand: one text at a time, no padding beside the query's own."""

    def __init__(self, folder, *, markers, lengths, skipped, attend=False, fill=True):
        self.tokenizer = AutoTokenizer.from_pretrained(folder)
        state = load_file(folder / "model.safetensors")
        projection = folder / "1_Dense" / "model.safetensors"
        self.projection = (load_file(projection) if projection.is_file() else state)[
            "linear.weight"
        ].numpy()
        self.model = BertModel(BertConfig.from_pretrained(folder)).eval()
        own = {n.removeprefix("bert."): t for n, t in state.items() if n != "linear.weight"}
        self.model.load_state_dict(own)
        self.markers, self.lengths, self.attend, self.fill = markers, lengths, attend, fill
        self.skipped = {self.tokenizer.convert_tokens_to_ids(word) for word in skipped}

    def ids(self, text, role):
        """The ids of one text, and how many of them are its own."""
        of = self.tokenizer.convert_tokens_to_ids
        limit = self.lengths[role]
        pieces = self.tokenizer(text, add_special_tokens=False)["input_ids"][: limit - 3]
        ids = [of("[CLS]"), of(self.markers[role]), *pieces, of("[SEP]")]
        own = len(ids)
        if role == "query" and self.fill:
            ids += [of("[MASK]")] * (limit - own)
        return ids, own

    def encode(self, text, role):
        ids, own = self.ids(text, role)
        seen = len(ids) if self.attend else own
        mask = torch.tensor([[1] * seen + [0] * (len(ids) - seen)])
        with torch.inference_mode():
            hidden = self.model(torch.tensor([ids]), attention_mask=mask).last_hidden_state
        rows = hidden[0].numpy() @ self.projection.T
        rows = rows / np.linalg.norm(rows, axis=1, keepdims=True)
        kept = [i for i, x in enumerate(ids) if role == "query" or x not in self.skipped]
        return rows[kept]


SETTINGS = {
    "colbert-ai": {
        "markers": {"query": "[unused0]", "passage": "[unused1]"},
        "skipped": list(string.punctuation),
    },
    "pylate": {"markers": {"query": "[Q] ", "passage": "[D] "}, "skipped": list(".,?!")},
}
LENGTHS = {"query": 12, "passage": 16}


def reference(folder, layout, **more):
    return Reference(folder, **{"lengths": LENGTHS, **SETTINGS[layout], **more})


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("role", ["query", "passage"])
def test_token_vectors_are_those_worked_out_by_hand(colbert_folder, layout, role):
    """Markers, the fill of queries, punctuation, the projection and the length of 1."""
    folder = colbert_folder(layout)
    theirs = reference(folder, layout)
    ours = load(folder).encode_tokens(TEXTS, role=role)
    for text, rows in zip(TEXTS, ours, strict=True):
        expected = theirs.encode(text, role)
        assert rows.dtype == np.float32
        assert rows.shape == expected.shape
        np.testing.assert_allclose(rows, expected, atol=1e-5)


@pytest.mark.parametrize(
    ("layout", "name"),
    [("colbert-ai", "attend_to_mask_tokens"), ("pylate", "attend_to_expansion_tokens")],
)
def test_a_query_may_see_the_tokens_that_fill_it(colbert_folder, layout, name):
    folder = colbert_folder(layout, **{name: True})
    ours = load(folder).encode_tokens(TEXTS, role="query")
    theirs = reference(folder, layout, attend=True)
    unseen = reference(folder, layout)
    for text, rows in zip(TEXTS, ours, strict=True):
        np.testing.assert_allclose(rows, theirs.encode(text, "query"), atol=1e-5)
    # It makes a difference where there is anything to see.
    assert np.abs(ours[0] - unseen.encode(TEXTS[0], "query")).max() > 1e-3


def test_queries_are_filled_and_punctuation_gives_no_vector(colbert_folder):
    encoder = load(colbert_folder())
    assert [len(rows) for rows in encoder.encode_tokens(TEXTS, role="query")] == [12] * len(TEXTS)
    counts = [len(rows) for rows in encoder.encode_tokens(["the cat.", "the cat"], role="passage")]
    assert counts == [5, 5]
    assert (encoder.query_length, encoder.passage_length) == (12, 16)
    assert isinstance(encoder, TokenEncoder)


def test_what_the_files_switch_off_is_off(colbert_folder):
    plain = load(colbert_folder("colbert-ai", mask_punctuation=False))
    assert [len(rows) for rows in plain.encode_tokens(["the cat."], role="passage")] == [6]
    folder = colbert_folder("pylate", do_query_expansion=False, skiplist_words=[])
    bare = load(folder)
    theirs = reference(folder, "pylate", fill=False, skipped=())
    for role in ("query", "passage"):
        for text, rows in zip(TEXTS, bare.encode_tokens(TEXTS, role=role), strict=True):
            np.testing.assert_allclose(rows, theirs.encode(text, role), atol=1e-5)
    unmarked = load(colbert_folder("pylate", query_prefix="", document_prefix=""))
    assert [len(rows) for rows in unmarked.encode_tokens(["the cat"], role="passage")] == [4]


def test_files_that_leave_things_out_have_the_layouts_own_defaults(colbert_folder):
    folder = colbert_folder()
    (folder / "artifact.metadata").unlink()
    encoder = load(folder)
    # 220 tokens are more than its 64 position embeddings.
    assert (encoder.query_length, encoder.passage_length) == (32, 64)
    theirs = reference(folder, "colbert-ai", lengths={"query": 32, "passage": 64})
    rows = encoder.encode_tokens(["a cat."], role="query")[0]
    np.testing.assert_allclose(rows, theirs.encode("a cat.", "query"), atol=1e-5)
    absent = dict.fromkeys(
        ("query_prefix", "document_prefix", "query_length", "document_length", "skiplist_words")
    )
    pylate = load(colbert_folder("pylate", **absent))
    assert (pylate.query_length, pylate.passage_length) == (32, 64)
    assert [len(rows) for rows in pylate.encode_tokens(["cat; dog"], role="passage")] == [5]


def test_a_prompt_follows_the_marker(colbert_folder):
    folder = colbert_folder("pylate", prompts={"query": "[Q] the ", "document": "house "})
    encoder = load(folder)
    theirs = reference(folder, "pylate")
    for role, prompt in (("query", "the "), ("passage", "house ")):
        rows = encoder.encode_tokens(["cat"], role=role)[0]
        np.testing.assert_allclose(rows, theirs.encode(f"{prompt}cat", role), atol=1e-5)


def test_lengths_that_the_caller_wants(colbert_folder):
    encoder = load(colbert_folder(), query_length=20, passage_length=30)
    assert len(encoder.encode_tokens(["the cat"], role="query")[0]) == 20
    assert len(encoder.encode_tokens(["the cat " * 40], role="passage")[0]) == 30
    with pytest.raises(InputError, match="passage_length=65, and the model reads at most 64"):
        load(colbert_folder(), passage_length=65)
    with pytest.raises(InputError, match="query_length=4, expected 8 or more"):
        load(colbert_folder(), query_length=4)


def test_tokens_that_the_model_does_not_know_are_refused(colbert_folder):
    folder = colbert_folder()
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.add_tokens(["zyxwvu"])
    tokenizer.save(str(folder / "tokenizer.json"))
    encoder = load(folder)
    assert len(encoder.encode_tokens(["a cat"], role="query")) == 1
    with pytest.raises(ModelError, match="the tokenizer gives the token id"):
        encoder.encode_tokens(["a zyxwvu"], role="passage")


def test_no_texts_and_wrong_ones(colbert_folder):
    encoder = load(colbert_folder())
    assert encoder.encode_tokens([], role="query") == []
    with pytest.raises(InputTypeError, match=r"texts\[1\]"):
        encoder.encode_tokens(["a", None], role="query")
    with pytest.raises(InputTypeError, match="single str"):
        encoder.encode_tokens("cat", role="query")


@pytest.mark.parametrize("layout", LAYOUTS)
def test_scores_are_those_of_sentence_transformers(colbert_folder, layout):
    """It reads both layouts, too: token vectors and MaxSim are the same."""
    from sentence_transformers import MultiVectorEncoder

    folder = colbert_folder(layout)
    theirs = MultiVectorEncoder(str(folder), device="cpu")
    texts = [text for text in TEXTS if "[" not in text]
    queries, passages = theirs.encode_query(texts), theirs.encode_document(texts)
    expected = theirs.similarity(queries, passages).numpy()
    encoder = load(folder)
    ours = encoder.encode_tokens(texts, role="query"), encoder.encode_tokens(texts, role="passage")
    scores = [[maxsim(query, passage) for passage in ours[1]] for query in ours[0]]
    for rows, others in zip((*ours[0], *ours[1]), (*queries, *passages), strict=True):
        np.testing.assert_allclose(rows, others.numpy(), atol=1e-5)
    np.testing.assert_allclose(scores, expected, atol=1e-4)


@pytest.mark.parametrize(
    ("strategy", "attend", "token"),
    [("fixed", False, None), ("fixed", True, "cat"), ("min", False, None), (None, False, None)],
)
def test_what_sentence_transformers_saves_itself(tmp_path, strategy, attend, token):
    """Its own layout since release 6: settings beside the Transformer, a mask module, prompts."""
    from sentence_transformers import MultiVectorEncoder
    from sentence_transformers.base.modules import Normalize, Transformer
    from sentence_transformers.base.modules.dense import Dense
    from sentence_transformers.multi_vector_encoder.modules import MultiVectorMask

    expansion = {"strategy": strategy, "attend": attend, "length": 12, "token": token}
    transformer = Transformer(
        str(tiny_bert(tmp_path / "tiny")),
        query_length=None if strategy == "fixed" else 14,
        document_length=20,
        query_expansion=expansion if strategy else None,
    )
    at = {"module_input_name": "token_embeddings"}
    wide = Dense(32, 16, activation_function=torch.nn.GELU(), use_residual=True, **at)
    narrow = Dense(16, 8, bias=False, activation_function=torch.nn.Identity(), **at)
    mask = MultiVectorMask(skiplist_words=[".", "the"], skiplist_tasks=["query", "document"])
    theirs = MultiVectorEncoder(
        modules=[transformer, wide, narrow, mask, Normalize(**at)],
        prompts={"query": "query: ", "document": "passage: "},
        device="cpu",
    )
    theirs.save_pretrained(str(tmp_path / "saved"))
    encoder = load(tmp_path / "saved")
    texts = [text for text in TEXTS if "[" not in text]
    for role, encode in (("query", theirs.encode_query), ("passage", theirs.encode_document)):
        ours = encoder.encode_tokens(texts, role=role)
        for rows, others in zip(ours, encode(texts), strict=True):
            assert rows.shape == tuple(others.shape)
            np.testing.assert_allclose(rows, others.numpy(), atol=1e-5)


def test_weights_in_half_the_width_and_in_a_torch_file(colbert_folder):
    """The projection runs in float32; published files keep float16, or are pytorch_model.bin."""
    folder = colbert_folder()
    expected = load(folder).encode_tokens(TEXTS, role="query")
    rough = load(folder, dtype="bfloat16").encode_tokens(TEXTS, role="query")
    for rows, others in zip(rough, expected, strict=True):
        np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 1, atol=1e-6)
        np.testing.assert_allclose((rows * others).sum(axis=1), 1, atol=0.05)
    state = load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    torch.save(state, folder / "pytorch_model.bin")
    for rows, others in zip(load(folder).encode_tokens(TEXTS, role="query"), expected, strict=True):
        np.testing.assert_array_equal(rows, others)
    (folder / "pytorch_model.bin").unlink()
    save_file({n: t.half() for n, t in state.items()}, str(folder / "model.safetensors"))
    half = load(folder).encode_tokens(TEXTS, role="query")
    np.testing.assert_allclose(half[0], expected[0], atol=0.02)


def test_a_projection_that_is_missing_and_a_marker_that_is_unknown(colbert_folder):
    folder = colbert_folder()
    state = load_file(folder / "model.safetensors")
    del state["linear.weight"]
    save_file(state, str(folder / "model.safetensors"))
    with pytest.raises(ModelFormatError, match=r"hold no linear\.weight: get the whole model"):
        load(folder).warm_up()
    state["linear.weight"] = torch.ones(8, 5)
    save_file(state, str(folder / "model.safetensors"))
    with pytest.raises(ModelFormatError, match=r"of shape \(8, 5\), expected \(dim, 32\)"):
        load(folder).warm_up()
    with pytest.raises(ModelFormatError, match=r"the marker '\[QQ\] ' of .* is no token"):
        load(colbert_folder("pylate", query_prefix="[QQ] "))


def test_settings_that_are_not_supported_are_named(colbert_folder):
    with pytest.raises(ModelFormatError, match="the interaction 'flipr', expected 'colbert'"):
        load(colbert_folder(interaction="flipr"))
    with pytest.raises(ModelFormatError, match="as a ColBERT model cannot be read"):
        load(colbert_folder(query_maxlen="many"))


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_colbert_folder_is_no_bi_encoder_and_no_cross_encoder(colbert_folder, layout):
    folder = colbert_folder(layout)
    with pytest.raises(ModelFormatError, match=r"is a ColBERT model.*expected a bi-encoder"):
        BiEncoder.load(folder)
    with pytest.raises(ModelFormatError, match=r"is a ColBERT model.*expected a cross-encoder"):
        CrossEncoder.load(folder)


def test_other_models_are_no_colbert(tmp_path, minilm):
    folder = tiny_bert(tmp_path / "bi")
    with pytest.raises(ModelFormatError, match="is a bi-encoder, expected a ColBERT model"):
        load(folder)
    with pytest.raises(ModelFormatError, match=r"is a cross-encoder, .*give it as reranker"):
        load("ms-marco-MiniLM-L12-v2")
    for name in ("modules.json", "sentence_bert_config.json"):
        (folder / name).unlink()
    with pytest.raises(ModelFormatError, match="is BertModel, expected a ColBERT model"):
        load(folder)


def test_a_dense_layer_may_add_what_it_was_given(tmp_path, reference):
    """`use_residual` of a Dense layer in a bi-encoder, too, which is otherwise silently lost."""
    folder = tiny_bert(tmp_path / "model", normalize=False)
    modules = json.loads((folder / "modules.json").read_text(encoding="utf-8"))
    kind = "sentence_transformers.models.Dense"
    modules.append({"idx": 2, "name": "2", "path": "2_Dense", "type": kind})
    (folder / "modules.json").write_text(json.dumps(modules), encoding="utf-8")
    (folder / "2_Dense").mkdir()
    config = {"in_features": 32, "out_features": 32, "bias": True, "use_residual": True}
    config["activation_function"] = "torch.nn.modules.activation.Tanh"
    (folder / "2_Dense" / "config.json").write_text(json.dumps(config), encoding="utf-8")
    torch.manual_seed(1)
    state = {"linear.weight": torch.randn(32, 32), "linear.bias": torch.randn(32)}
    save_file(state, str(folder / "2_Dense" / "model.safetensors"))
    ours = BiEncoder.load(folder, device="cpu", dtype="float32").encode_passages(["a cat", "dog"])
    from sentence_transformers import SentenceTransformer

    theirs = SentenceTransformer(str(folder), device="cpu").encode(["a cat", "dog"])
    np.testing.assert_allclose(ours, theirs, atol=1e-5)
