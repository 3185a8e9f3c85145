"""What a caller of the bi-encoder may rely on."""

from __future__ import annotations

import random
import threading
import warnings
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from sbert_retriever import BiEncoder
from sbert_retriever.encoder.bert import BertBackbone
from sbert_retriever.errors import (
    InputError,
    InputTypeError,
    ModelError,
    TextTooLongError,
    TruncationWarning,
)
from sbert_retriever.testing import tiny_bert
from sbert_retriever.types import Encoder

WORDS = ("the", "cat", "of", "one", "dog", "house", "time", "water", "vector", "search")


def texts_of(count, seed=0, longest=28):
    chosen = random.Random(seed)
    return [" ".join(chosen.choices(WORDS, k=chosen.randint(1, longest))) for _ in range(count)]


def of_length(tokens):
    """A text of that many tokens of the tiny model, the two special ones included."""
    return " ".join(["cat"] * (tokens - 2))


def test_it_satisfies_the_protocol(tiny):
    assert isinstance(tiny, Encoder)
    assert (tiny.dim, tiny.max_length, tiny.device, tiny.dtype) == (32, 32, "cpu", "float32")


def test_no_texts_give_no_rows(tiny):
    assert tiny.encode_queries([]).shape == (0, 32)
    assert tiny.encode_passages(iter([])).dtype == np.float32
    detailed = tiny.encode_detailed([], role="passage")
    assert detailed.vectors.shape == (0, 32)
    assert detailed.token_counts.shape == detailed.truncated.shape == (0,)


def test_an_empty_text_has_a_vector(tiny):
    vectors = tiny.encode_passages(["", "cat", ""])
    assert np.linalg.norm(vectors, axis=1) == pytest.approx([1, 1, 1], abs=1e-6)
    assert vectors[0] == pytest.approx(vectors[2], abs=1e-6)


@pytest.mark.parametrize("kind", [list, tuple, iter, lambda texts: dict.fromkeys(texts).keys()])
def test_any_iterable_gives_the_same(tiny, kind):
    assert tiny.encode_passages(kind(["cat", "dog"])).shape == (2, 32)


@pytest.mark.parametrize("bad", [None, b"bytes", 3, 1.5, ["cat"]])
def test_what_is_no_text_is_named_by_position_before_any_work(tiny_folder, bad):
    encoder = BiEncoder.load(tiny_folder, device="cpu", dtype="float32")
    with pytest.raises(InputTypeError, match=r"texts\[2\] is .*expected str"):
        encoder.encode_passages(["cat", "dog", bad])
    assert encoder._runner._model is None, "nothing was computed"


@pytest.mark.parametrize("bad", ["cat", b"cat", None, 3])
def test_one_text_is_not_several(tiny, bad):
    with pytest.raises(InputTypeError):
        tiny.encode_queries(bad)
    with pytest.raises(TypeError):
        tiny.token_offsets(bad)


def test_a_lone_surrogate_is_named(tiny):
    with pytest.raises(InputError, match="surrogate"):
        tiny.encode_passages(["cat", "a\ud800b"])


def test_a_text_that_is_cut_warns_once_with_how_many_and_the_longest(tiny):
    """A text three times too long loses its end, and the caller hears of it once a call."""
    long = of_length(96)
    changed = long[: -len(of_length(34))] + " ".join(["dog"] * 32)
    with pytest.warns(TruncationWarning, match=r"2 of 3 .* 32 tokens .*longest: 96") as caught:
        vectors = tiny.encode_passages([long, "cat", changed])
    assert len(caught) == 1
    assert caught[0].filename == __file__
    assert vectors[0] == pytest.approx(vectors[2], abs=1e-6)


def test_exactly_the_maximum_is_not_too_long(tiny):
    """A text of exactly as many tokens as the model reads is neither cut nor warned of."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        tiny.encode_passages([of_length(32)])
        tiny.encode_passages([of_length(32)], on_truncate="error")
    with pytest.warns(TruncationWarning, match="longest: 33"):
        tiny.encode_passages([of_length(33)])


def test_a_text_that_is_cut_can_be_an_error_before_any_work(tiny_folder):
    """With on_truncate="error" a text that is too long stops the call before a forward pass."""
    encoder = BiEncoder.load(tiny_folder, device="cpu", dtype="float32", on_truncate="error")
    with pytest.raises(TextTooLongError, match="1 of 2"):
        encoder.encode_passages(["cat", of_length(40)])
    assert encoder._runner._model is None
    with pytest.raises(ValueError, match="longest: 40"):
        encoder.encode_queries(iter(["cat", of_length(40)]))
    assert encoder.encode_queries([of_length(40)], on_truncate="ignore").shape == (1, 32)
    with pytest.raises(InputError, match="on_truncate"):
        encoder.encode_queries(["cat"], on_truncate="never")


def test_detailed_counts_before_truncation_and_never_warns(tiny):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = tiny.encode_detailed([of_length(5), of_length(50), ""], role="passage")
    assert found.token_counts.tolist() == [5, 50, 2]
    assert found.truncated.tolist() == [False, True, False]


def test_the_cut_text_keeps_its_last_special_token(tiny):
    ids = tiny._runner.tokenizer.encode([of_length(50)]).ids[0]
    assert (ids[0], ids[-1], len(ids)) == (2, 3, 32)


def test_many_threads_share_one_encoder(tiny):
    """Sixteen threads, 50 calls each, mixed lengths: no "Already borrowed", and equal results."""
    texts = texts_of(200, longest=40)
    alone = tiny.encode_passages(texts, on_truncate="ignore")

    def call(number):
        rows = [(number * 7 + step) % 200 for step in range(1 + number % 9)]
        mine = tiny.encode_passages([texts[row] for row in rows], on_truncate="ignore")
        return np.abs(mine - alone[rows]).max()

    with ThreadPoolExecutor(16) as pool:
        assert max(pool.map(call, range(16 * 50))) < 1e-5


def test_many_threads_load_the_weights_once(tiny_folder, monkeypatch):
    from sbert_retriever.encoder import text_runner

    loads = []

    def counted(*args, **options):
        loads.append(1)
        return load(*args, **options)

    load = text_runner.load_backbone
    monkeypatch.setattr(text_runner, "load_backbone", counted)
    encoder = BiEncoder.load(tiny_folder, device="cpu", dtype="float32")
    with ThreadPoolExecutor(16) as pool:
        list(pool.map(lambda _: encoder.encode_queries(["cat"]), range(16)))
    assert len(loads) == 1


@pytest.mark.parametrize(("dtype", "bound"), [("float32", 1e-5), ("bfloat16", 3e-2)])
def test_the_batch_never_decides_the_result(tiny_folder, dtype, bound):
    """A hundred shuffled texts keep order and values from one text a batch to all in one.

    In float32 within 1e-5 with the same top ten; in bfloat16 within 0.03 in any coordinate.
    """
    texts = texts_of(100, longest=28)
    shuffled = random.Random(1).sample(range(100), 100)
    found = []
    for batch_tokens in (1, 64, 333, 100_000):
        encoder = BiEncoder.load(tiny_folder, device="cpu", dtype=dtype, batch_tokens=batch_tokens)
        straight = encoder.encode_passages(texts)
        mixed = encoder.encode_passages([texts[row] for row in shuffled])
        assert np.abs(mixed - straight[shuffled]).max() < bound
        found.append(straight)
    for other in found[1:]:
        assert np.abs(other - found[0]).max() < bound
    if dtype == "float32":
        tops = [set(np.argsort(-(v @ v[0]), kind="stable")[:10]) for v in found]
        scores = [np.sort(v @ v[0])[-10:] for v in found]
        assert all(top == tops[0] for top in tops) or np.ptp(scores, axis=0).max() < 1e-5


def test_the_models_limit_wins_over_the_tokenizers(tmp_path):
    """The model says 24 tokens and its tokenizer 64: 24 holds; positions end both."""
    assert BiEncoder.load(tiny_bert(tmp_path / "a", max_length=24)).max_length == 24
    assert BiEncoder.load(tiny_bert(tmp_path / "b", max_length=500)).max_length == 64


def test_newlines_reach_the_tokenizer_as_given(tiny):
    """A text's line breaks stay: offsets count them, and the caller's text is what is encoded."""
    seen = []

    class Spy:
        def __init__(self, inner):
            self._inner = inner

        def __getattr__(self, name):
            return getattr(self._inner, name)

        def encode(self, text, **options):
            seen.append(text)
            return self._inner.encode(text, **options)

    tokenizer = tiny._runner.tokenizer
    inner, tokenizer._tokenizer = tokenizer._tokenizer, Spy(tokenizer._tokenizer)
    try:
        tiny.encode_queries(["cat\n\n dog\t"])
    finally:
        tokenizer._tokenizer = inner
    assert seen == ["cat\n\n dog\t"]
    assert tiny.token_offsets(["cat\n\ndog"]) == [[(0, 3), (5, 8)]]


def test_offsets_are_characters_and_need_no_weights(tiny_folder):
    encoder = BiEncoder.load(tiny_folder, device="cpu", dtype="float32")
    assert encoder.token_offsets(["", "the cat", of_length(90)])[:2] == [[], [(0, 3), (4, 7)]]
    assert len(encoder.token_offsets([of_length(90)])[0]) == 88
    assert encoder.token_offsets(["é cat"])[0][-1] == (2, 5)
    assert encoder._runner._model is None


def test_a_generator_is_read_in_windows(tiny, monkeypatch):
    """However many texts a generator gives, only one window of them is held at a time."""
    from sbert_retriever.encoder import texts as windows_of

    monkeypatch.setattr(windows_of, "_TEXTS", 10)
    handed = 0
    most = 0

    def stream():
        nonlocal handed
        for text in texts_of(95):
            handed += 1
            yield text

    parts = tiny._parts(stream(), "passage", show_progress=False)
    done = 0
    for part in parts:
        done += len(part.vectors)
        most = max(most, handed - done)
    assert (done, handed) == (95, 95)
    assert most <= 1
    assert tiny.encode_passages(stream()) == pytest.approx(
        tiny.encode_passages(texts_of(95)), abs=1e-5
    )


def test_prompts_go_before_each_text_of_their_role(tiny_folder):
    encoder = BiEncoder.load(
        tiny_folder, dtype="float32", query_prompt="query: ", passage_prompt="passage: "
    )
    plain = BiEncoder.load(tiny_folder, dtype="float32")
    assert encoder.encode_queries(["cat"]) == pytest.approx(
        plain.encode_queries(["query: cat"]), abs=1e-6
    )
    assert encoder.encode_passages(["cat"]) == pytest.approx(
        plain.encode_passages(["passage: cat"]), abs=1e-6
    )
    assert encoder.encode_detailed(["cat"], role="query").token_counts.tolist() == [5]
    assert (encoder.identity.query_prompt, plain.identity.query_prompt) == ("query: ", "")


def test_fewer_dimensions_keep_length_one(tiny, tiny_folder):
    short = BiEncoder.load(tiny_folder, device="cpu", dtype="float32", truncate_dim=8)
    whole = tiny.encode_passages(["cat", "dog"])[:, :8]
    expected = whole / np.linalg.norm(whole, axis=1, keepdims=True)
    assert short.dim == 8
    assert short.encode_passages(["cat", "dog"]) == pytest.approx(expected, abs=1e-5)


def test_a_vector_that_is_not_finite_is_refused_by_position(tmp_path):
    """Weights that overflow give no NaN to the index: the text's position is named."""
    from safetensors.torch import load_file, save_file

    folder = tiny_bert(tmp_path)
    state = load_file(folder / "model.safetensors")
    cat = (folder / "vocab.txt").read_text().split("\n").index("cat")
    state["embeddings.word_embeddings.weight"][cat] = float("nan")
    save_file(state, folder / "model.safetensors", metadata={"format": "pt"})
    encoder = BiEncoder.load(folder, device="cpu", dtype="float32")
    assert encoder.encode_passages(["dog"]).shape == (1, 32)
    with pytest.raises(ModelError, match=r"texts\[1\] .*not finite"):
        encoder.encode_passages(["dog", "cat", "dog"])


def test_half_precision_gives_float32(tiny, tiny_folder):
    half = BiEncoder.load(tiny_folder, device="cpu", dtype="float16")
    vectors = half.encode_passages(["cat", "dog house"])
    assert vectors.dtype == np.float32
    assert vectors == pytest.approx(tiny.encode_passages(["cat", "dog house"]), abs=1e-2)


def test_a_forked_child_can_encode(tiny, forked):
    """After a fork the child encodes with the parent's instance instead of hanging."""
    texts = texts_of(60)
    before = tiny.encode_passages(texts)
    assert forked(lambda: np.abs(tiny.encode_passages(texts) - before).max() < 1e-5)


def test_a_forked_child_waits_for_no_loading_of_its_parent(tiny_folder, forked):
    """Another thread of the parent reads the weights, or finds no memory, as it is forked."""
    encoder = BiEncoder.load(tiny_folder, device="cpu", dtype="float32")
    held, done = threading.Event(), threading.Event()

    def hold():
        with encoder._runner._lock, encoder._runner._in_halves._lock:
            held.set()
            assert done.wait(120)

    thread = threading.Thread(target=hold)
    thread.start()
    try:
        assert held.wait(60)
        assert forked(lambda: encoder.encode_passages(["cat"]).shape == (1, encoder.dim))
    finally:
        done.set()
        thread.join()


def test_identity_tells_weights_apart(tiny, tiny_folder, tmp_path):
    again = BiEncoder.load(tiny_folder, device="cpu", dtype="float32").identity
    other = BiEncoder.load(tiny_bert(tmp_path, seed=1)).identity
    assert again == tiny.identity
    assert set(tiny.identity.differences(other)) == {"weights"}
    assert (tiny.identity.pooling, tiny.identity.normalize) == ("mean", True)


def test_progress_goes_to_stderr(tiny, capsys):
    tiny.encode_passages(["cat"], show_progress=True)
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "Encoding" in captured.err


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"max_length": 65}, "reads at most 64"),
        ({"max_length": 2}, "max_length=2"),
        ({"truncate_dim": 33}, "truncate_dim=33"),
        ({"truncate_dim": 0}, "truncate_dim=0"),
        ({"pooling": "median"}, "median"),
        ({"dtype": "int4"}, "dtype='int4'"),
        ({"device": "tpu"}, "device='tpu'"),
        ({"on_truncate": "maybe"}, "on_truncate"),
        ({"batch_tokens": 0}, "batch_tokens=0"),
    ],
)
def test_options_out_of_range_are_refused(tiny_folder, options, reason):
    with pytest.raises(InputError, match=reason):
        BiEncoder.load(tiny_folder, **options)


def test_options_replace_what_the_files_say(tiny_folder):
    encoder = BiEncoder.load(
        tiny_folder, dtype="float32", pooling="cls+max", normalize=False, max_length=10
    )
    assert (encoder.dim, encoder.max_length) == (64, 10)
    assert encoder.identity.pooling == "cls+max"
    lengths = np.linalg.norm(encoder.encode_passages(["cat dog"]), axis=1)
    assert abs(lengths[0] - 1) > 0.1


def test_the_forward_pass_ignores_padding(tiny):
    """The vector of a short text is the same alone and beside a long one."""
    backbone, _ = tiny._runner._loaded()
    assert isinstance(backbone, BertBackbone)
    beside = tiny.encode_passages(["cat", of_length(30)])
    assert beside[0] == pytest.approx(tiny.encode_passages(["cat"])[0], abs=1e-5)


def test_the_identity_says_how_the_weights_are_kept(minilm, bge):
    assert minilm.identity.precision == "float32"
    assert bge.identity.precision == "dequantised int8"
