"""What a caller of the cross-encoder may rely on."""

from __future__ import annotations

import json
import warnings
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from scipy.special import expit, softmax
from tokenizers import Tokenizer

from sbert_retriever import BiEncoder
from sbert_retriever.encoder.cross_encoder import CrossEncoder
from sbert_retriever.errors import (
    InputError,
    InputTypeError,
    ModelError,
    ModelFormatError,
    TextTooLongError,
    TruncationWarning,
)
from sbert_retriever.types import Scorer

QUESTION = "How many people live in Berlin?"
POPULATION = (
    "Berlin had a population of 3,520,031 registered inhabitants in an area of 891.82 square "
    "kilometers."
)
MUSEUMS = "Berlin is well known for its museums."
PAIRS = [
    ("the cat", "a dog and a house"),
    ("time", ""),
    ("", "water"),
    ("one two three", "search the text for a sentence " * 3),
    ("cat", "cat"),
]


@pytest.fixture(scope="session")
def tiny_cross_folder(classifier_folder):
    return classifier_folder()


@pytest.fixture(scope="session")
def tiny_cross(tiny_cross_folder):
    return load(tiny_cross_folder)


def load(folder, **settings):
    return CrossEncoder.load(folder, **{"device": "cpu", "dtype": "float32", **settings})


def test_known_scores(cross_encoder):
    scores = cross_encoder.score([(QUESTION, POPULATION), (QUESTION, MUSEUMS)])
    assert scores.dtype == np.float32
    assert scores.tolist() == pytest.approx([9.1, -3.9], abs=0.1)


@pytest.mark.data
def test_logits_and_order_of_the_reference_on_real_text(
    cross_encoder, cross_reference, cross_reference_folder, marco
):
    ours = cross_encoder.score(marco)
    theirs = cross_reference(cross_reference_folder, marco)
    assert len(marco) == 200
    assert np.abs(ours - theirs).max() < 1e-4
    assert np.argsort(-ours, kind="stable").tolist() == np.argsort(-theirs, kind="stable").tolist()


@pytest.mark.data
def test_bfloat16_makes_no_ties_and_swaps_nothing_that_is_clear(cross_encoder, marco):
    """A head in bfloat16 rounds logits near 8 to steps of 1/32, which ties and swaps results."""
    pairs = marco[:60]
    exact = cross_encoder.score(pairs)
    rough = load("ms-marco-MiniLM-L12-v2", dtype="bfloat16").score(pairs)
    assert len(set(rough.tolist())) == len(set(exact.tolist()))
    clear = exact[:, None] - exact[None] > 0.1
    assert (rough[:, None] > rough[None])[clear].all()


@pytest.mark.parametrize(
    ("model_type", "settings"),
    [
        ("bert", {}),
        ("bert", {"num_labels": 3}),
        ("distilbert", {"dim": 32, "n_layers": 2, "n_heads": 4, "hidden_dim": 64}),
        ("roberta", {"type_vocab_size": 2}),
        ("electra", {"embedding_size": 32}),
    ],
)
def test_each_architecture_gives_the_logits_of_the_reference(
    model_type, settings, classifier_folder, cross_reference
):
    """Ours for BERT, those of transformers for all else."""
    folder = classifier_folder(model_type, **settings)
    label = 0 if settings.get("num_labels") else None
    ours = load(folder, label=label, max_length=60).predict_logits(PAIRS)
    theirs = cross_reference(folder, PAIRS).reshape(len(PAIRS), -1)
    assert np.abs(ours - theirs).max() < 1e-5


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_the_head_is_float32_in_each_architecture(dtype, classifier_folder):
    settings = {"dim": 32, "n_layers": 2, "n_heads": 4, "hidden_dim": 64}
    for folder in (classifier_folder(), classifier_folder("distilbert", **settings)):
        rough = load(folder, dtype=dtype).score(PAIRS)
        as_dtype = torch.tensor(rough).to(getattr(torch, dtype)).float().numpy()
        assert (as_dtype != rough).any()


@pytest.fixture
def prompted_folder(classifier_folder):
    """A cross-encoder with prompts of its own, as sentence-transformers saves one."""

    def make(default, **prompts):
        folder = classifier_folder()
        kind = "sentence_transformers.base.modules.transformer.Transformer"
        modules = [{"idx": 0, "name": "0", "path": "", "type": kind}]
        sizes = {"transformer_task": "sequence-classification", "module_output_name": "scores"}
        sizes["modality_config"] = {"text": {"method": "forward", "method_output_name": "logits"}}
        whole = {"model_type": "CrossEncoder", "prompts": prompts, "default_prompt_name": default}
        for name, value in (
            ("modules.json", modules),
            ("sentence_bert_config.json", sizes),
            ("config_sentence_transformers.json", whole),
        ):
            (folder / name).write_text(json.dumps(value), encoding="utf-8")
        return folder

    return make


@pytest.mark.parametrize("default", ["search", None])
def test_a_models_own_default_prompt_stands_before_the_query(
    prompted_folder, cross_reference, default
):
    """A reranker trained with an instruction scores otherwise without it.

    sentence-transformers puts the prompt that `default_prompt_name` names before the first text of
    each pair, and no other by itself.
    """
    folder = prompted_folder(default, search="find text: ", query="house ")
    ours = load(folder).predict_logits(PAIRS)
    assert np.abs(ours[:, 0] - cross_reference(folder, PAIRS)).max() < 1e-4
    prompt = "find text: " if default else ""
    bare = load(folder, query_prompt="")
    expected = bare.score([(prompt + query, text) for query, text in PAIRS])
    np.testing.assert_array_equal(ours[:, 0], expected)
    assert bool(np.abs(ours[:, 0] - bare.score(PAIRS)).min() > 1e-2) is (default is not None)
    assert (load(folder).identity.weights == bare.identity.weights) is (default is None)


def test_a_prompt_that_the_caller_gives_comes_before_the_models_own(prompted_folder, tiny_cross):
    folder = prompted_folder("search", search="find text: ")
    given = load(folder, query_prompt="house ")
    expected = load(folder, query_prompt="").score([("house cat", "a dog")])
    np.testing.assert_array_equal(given.score([("cat", "a dog")]), expected)
    prepared = given.prepare([("cat", "a dog")])
    np.testing.assert_array_equal(prepared.score([0]), expected)
    assert prepared.lengths[0] == tiny_cross.prepare([("house cat", "a dog")]).lengths[0]


def test_a_default_prompt_that_is_not_there_is_refused(prompted_folder):
    folder = prompted_folder("search", query="house ")
    with pytest.raises(ModelFormatError, match="the default prompt 'search', and has 'query'"):
        load(folder)
    assert load(folder, query_prompt="").score(PAIRS).shape == (5,)


def test_padded_and_packed_batches_give_the_same(tiny_cross):
    """On a GPU pairs are padded to one length; on a CPU they lie end to end."""
    model = tiny_cross._runner._loaded()
    tokens = tiny_cross._runner.tokens(PAIRS)
    rows = sorted(range(len(PAIRS)), key=lambda row: -len(tokens.ids[row]))
    ids, types = ([column[row] for row in rows] for column in (tokens.ids, tokens.type_ids))
    packed, padded = model._packed(ids, types), model._padded(ids, types)
    assert torch.allclose(packed, padded, atol=1e-5)


def test_no_pairs_give_no_scores(tiny_cross):
    assert tiny_cross.score([]).shape == (0,)
    assert tiny_cross.score(iter([])).dtype == np.float32
    assert tiny_cross.predict_logits([]).shape == (0, 1)
    assert tiny_cross.rank("cat", []) == []
    detailed = tiny_cross.score_detailed([])
    assert detailed.token_counts.shape == detailed.truncated.shape == (0,)
    prepared = tiny_cross.prepare([])
    assert prepared.lengths.shape == prepared.score([]).shape == (0,)


@pytest.mark.parametrize("kind", [list, tuple, iter, lambda pairs: [list(p) for p in pairs]])
def test_any_iterable_of_pairs_gives_the_same(tiny_cross, kind):
    assert tiny_cross.score(kind(PAIRS)) == pytest.approx(tiny_cross.score(PAIRS), abs=1e-6)


@pytest.mark.parametrize(
    ("pairs", "said"),
    [
        ("ab", "pairs is str"),
        (3, "pairs is int"),
        ([("a", "b"), "ab"], r"pairs\[1\] is str"),
        ([("a", "b"), ("a",)], r"pairs\[1\] has 1 entries"),
        ([("a", "b", "c")], r"pairs\[0\] has 3 entries"),
        ([("a", "b"), ("a", None)], r"the passage of pairs\[1\] is NoneType"),
        ([(1, "b")], r"the query of pairs\[0\] is int"),
        (iter([("a", "b"), None]), r"pairs\[1\] is NoneType"),
    ],
)
def test_what_is_no_pair_is_named_by_its_position(tiny_cross, pairs, said):
    with pytest.raises(InputTypeError, match=said):
        tiny_cross.score(pairs)


def test_order_does_not_depend_on_batches(tiny_cross_folder):
    """The same pairs in batches of any size, in any order, get the same scores."""
    words = ["cat", "dog", "the house", "water and time", "search"]
    pairs = [(a, b * n) for a in words for b in words for n in (1, 2, 3)]
    expected = load(tiny_cross_folder).score(pairs)
    for tokens in (1, 40, 100_000):
        turned = load(tiny_cross_folder, batch_tokens=tokens).score(pairs[::-1])
        assert turned[::-1] == pytest.approx(expected, abs=1e-5)


def test_many_threads_get_what_one_gets(tiny_cross_folder):
    """Sixteen threads that score at once, through one tokenizer, each get their own results."""
    encoder = load(tiny_cross_folder)
    expected = {n: load(tiny_cross_folder).score(PAIRS[:n]) for n in (1, 3, 5)}
    with ThreadPoolExecutor(16) as pool:
        sizes = [1, 3, 5] * 50
        for size, scores in zip(
            sizes, pool.map(lambda n: encoder.score(PAIRS[:n]), sizes), strict=True
        ):
            assert scores == pytest.approx(expected[size], abs=1e-5)


def test_equal_pairs_have_equal_scores_wherever_they_stand(cross_encoder):
    """On some processors a row's place in a batch changes its last digits, and ties were broken."""
    pairs = [(QUESTION, text) for text in [MUSEUMS, POPULATION, "x", MUSEUMS, "y z", MUSEUMS]]
    told = []
    scores = cross_encoder.score(pairs)
    assert scores[0] == scores[3] == scores[5]
    alone = [float(cross_encoder.score([pair])[0]) for pair in pairs]
    assert scores == pytest.approx(alone, abs=1e-4)
    tokens = cross_encoder._runner.tokens(pairs)
    cross_encoder._runner.logits(tokens, range(len(pairs)), advance=told.append)
    assert sum(told) == 6


def test_rank_puts_the_best_first_and_keeps_ties_in_order(cross_encoder):
    ranked = cross_encoder.rank(QUESTION, [MUSEUMS, POPULATION, MUSEUMS])
    assert [index for index, _ in ranked] == [1, 0, 2]
    assert ranked[0][1] == pytest.approx(9.1, abs=0.1)
    assert [i for i, _ in cross_encoder.rank(QUESTION, [MUSEUMS, POPULATION], top_k=1)] == [1]
    assert cross_encoder.rank(QUESTION, [MUSEUMS], top_k=0) == []
    assert len(cross_encoder.rank(QUESTION, [MUSEUMS], top_k=9)) == 1


def test_rank_refuses_what_it_cannot_rank(tiny_cross):
    with pytest.raises(InputTypeError, match="query is list"):
        tiny_cross.rank(["cat"], ["dog"])
    with pytest.raises(InputTypeError, match="texts is a single str"):
        tiny_cross.rank("cat", "dog")
    with pytest.raises(InputError, match="top_k=-1"):
        tiny_cross.rank("cat", ["dog"], top_k=-1)


def words(count):
    """A text of that many tokens of the tiny model."""
    return " ".join(["cat"] * count)


def test_a_long_pair_is_cut_on_the_passage_s_side_only(tiny_cross_folder):
    """With [CLS], two [SEP] and a query of 10, a limit of 40 leaves a passage 27 tokens."""
    encoder = load(tiny_cross_folder, max_length=40, on_truncate="ignore")
    query = "dog " * 10
    kept, cut = encoder.score([(query, words(27)), (query, words(27) + " house" * 30)])
    assert kept == pytest.approx(cut, abs=1e-6)
    detailed = encoder.score_detailed([(query, words(27)), (query, words(28)), ("dog", "cat")])
    assert detailed.token_counts.tolist() == [40, 41, 5]
    assert detailed.truncated.tolist() == [False, True, False]


def test_a_query_longer_than_the_limit_leaves_room_for_the_passage(tiny_cross_folder):
    """A query alone longer than the model reads is cut and counted, and the passage still tells."""
    encoder = load(tiny_cross_folder, max_length=40, on_truncate="ignore")
    long = "dog " * 200
    scores = encoder.score([(long, "water"), (long, "house"), (long, words(300))])
    assert len(set(scores.tolist())) == 3
    assert encoder.score_detailed([(long, "water")]).truncated.all()


def test_truncation_is_said_once_a_call(tiny_cross_folder):
    """A passage whose end is not read leaves a sign, with how many and the longest."""
    encoder = load(tiny_cross_folder, max_length=40)
    pairs = [("dog", words(36)), ("dog", words(37)), ("dog", words(90))]
    with pytest.warns(TruncationWarning, match=r"2 of 3 pairs .*the longest: 94 tokens"):
        encoder.score(pairs)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        encoder.score(pairs[:1])
        encoder.score_detailed(pairs)
    refusing = load(tiny_cross_folder, max_length=40, on_truncate="error")
    with pytest.raises(TextTooLongError, match="split the passages"):
        refusing.score(pairs)
    assert refusing.score(pairs[:1]).shape == (1,)


def test_windows_take_the_best_part_of_a_long_passage(cross_encoder):
    """An answer that stands behind the limit is found by windows, and not by truncation."""
    passage = "The museum opens at nine and closes at six. " * 30 + POPULATION
    settings = {"max_length": 64, "on_truncate": "ignore"}
    cut = load("ms-marco-MiniLM-L12-v2", **settings)
    read = load("ms-marco-MiniLM-L12-v2", long_passages="windows", **settings)
    pairs = [(QUESTION, passage), (QUESTION, MUSEUMS)]
    assert cut.score(pairs)[0] < 0 < read.score(pairs)[0]
    assert cut.score(pairs)[1] == pytest.approx(read.score(pairs)[1], abs=1e-4)
    assert read.score_detailed(pairs).truncated.tolist() == [False, False]
    assert read.predict_logits(pairs)[:, 0] == pytest.approx(read.score(pairs), abs=1e-4)
    assert read.prepare(pairs).lengths[0] > 300


def test_probability_is_the_sigmoid_and_keeps_the_order(tiny_cross_folder):
    """Scores of a declared scale: the sigmoid is taken in float32, after the model."""
    logits = load(tiny_cross_folder).score(PAIRS)
    encoder = load(tiny_cross_folder, scale="probability")
    assert encoder.score_kind == "probability"
    assert encoder.score(PAIRS) == pytest.approx(expit(logits), abs=1e-6)
    assert encoder.predict_logits(PAIRS)[:, 0] == pytest.approx(logits, abs=1e-6)


def test_a_probability_does_not_saturate_in_bfloat16():
    """A sigmoid in bfloat16 gives 1.0 from a logit of 6 on, and the order is lost."""
    encoder = load("ms-marco-MiniLM-L12-v2", dtype="bfloat16", scale="probability")
    better, good = encoder.score([(QUESTION, POPULATION), ("population of Berlin", POPULATION)])
    assert better != good
    assert max(better, good) < 1


LABELS = {0: "contradiction", 1: "entailment", 2: "neutral"}


def test_several_labels_need_one_to_be_named(classifier_folder):
    """A model of several labels has no single score, so it is refused when made without one."""
    folder = classifier_folder(num_labels=3, id2label=LABELS)
    with pytest.raises(InputError, match=r"3 labels \(0 'contradiction', 1 'entailment', 2 'neu"):
        load(folder)
    for wrong in (3, -1, "other"):
        with pytest.raises(InputError, match="label="):
            load(folder, label=wrong)
    with pytest.raises(InputTypeError, match="label is True"):
        load(folder, label=True)
    encoder = load(folder, label="Entailment", scale="probability")
    assert encoder.labels == tuple(LABELS.values())
    logits = encoder.predict_logits(PAIRS)
    assert logits.shape == (len(PAIRS), 3)
    assert encoder.score(PAIRS) == pytest.approx(softmax(logits, axis=1)[:, 1], abs=1e-6)
    odds = load(folder, label=1).score(PAIRS)
    assert expit(odds) == pytest.approx(softmax(logits, axis=1)[:, 1], abs=1e-6)


def test_labels_that_do_not_exclude_each_other_have_their_own_sigmoid(classifier_folder):
    folder = classifier_folder(num_labels=2, problem_type="multi_label_classification")
    encoder = load(folder, label=1, scale="probability")
    assert encoder.score(PAIRS) == pytest.approx(
        expit(encoder.predict_logits(PAIRS)[:, 1]), abs=1e-6
    )


def test_one_kind_of_encoder_is_not_taken_for_the_other(
    tiny_cross_folder, tiny_folder, cross_reference_folder, tmp_path
):
    """A bi-encoder has no classifier, and a cross-encoder's vectors were never trained."""
    from sentence_transformers import CrossEncoder as Reference

    with pytest.raises(ModelFormatError, match=r"is a bi-encoder .* load it with BiEncoder"):
        load(tiny_folder)
    with pytest.raises(ModelFormatError, match=r"is a bi-encoder|is a BertModel"):
        load("bge-small-en-v1.5")
    Reference(str(tiny_cross_folder), device="cpu").save_pretrained(str(tmp_path))
    for folder in (tiny_cross_folder, tmp_path, "ms-marco-MiniLM-L12-v2"):
        with pytest.raises(ModelFormatError, match=r"is a cross-encoder .* with CrossEncoder"):
            BiEncoder.load(folder, device="cpu")
    assert load(tmp_path).score(PAIRS) == pytest.approx(load(tiny_cross_folder).score(PAIRS))


def test_a_classifier_without_its_weights_is_refused(classifier_folder):
    """Weights that are not there are never made up."""
    from safetensors.torch import load_file, save_file

    settings = {"dim": 32, "n_layers": 2, "n_heads": 4, "hidden_dim": 64}
    for folder in (classifier_folder(), classifier_folder("distilbert", **settings)):
        path = folder / "model.safetensors"
        state = {k: v for k, v in load_file(path).items() if k != "classifier.weight"}
        save_file(state, path, metadata={"format": "pt"})
        with pytest.raises(ModelFormatError, match=r"hold no classifier\.weight"):
            load(folder).score(PAIRS)


@pytest.mark.parametrize(
    ("model_type", "settings"),
    [("bert", {}), ("distilbert", {"dim": 32, "n_layers": 2, "n_heads": 4, "hidden_dim": 64})],
)
def test_tokens_that_the_model_does_not_know_are_refused(classifier_folder, model_type, settings):
    """Words added to a tokenizer and not to its model, ours and one of transformers."""
    folder = classifier_folder(model_type, **settings)
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.add_tokens([f"zyx{n}" for n in range(400)])
    tokenizer.save(str(folder / "tokenizer.json"))
    encoder = load(folder)
    assert len(encoder.score([("a cat", "a dog")])) == 1
    with pytest.raises(ModelError, match="and the model knows 400"):
        encoder.score([("a cat", "zyx399")])


@pytest.mark.parametrize("activation", ["gelu", "silu"])
def test_a_second_text_that_the_model_has_no_type_for_is_refused(classifier_folder, activation):
    """With "silu" the model runs through transformers."""
    folder = classifier_folder("bert", type_vocab_size=1, hidden_act=activation)
    with pytest.raises(ModelError, match="token type 1, and the model knows 1"):
        load(folder).score([("a cat", "a dog")])


def test_a_score_that_is_not_finite_is_an_error(classifier_folder):
    from safetensors.torch import load_file, save_file

    folder = classifier_folder()
    path = folder / "model.safetensors"
    state = load_file(path)
    state["classifier.bias"][:] = torch.nan
    save_file(state, path, metadata={"format": "pt"})
    with pytest.raises(ModelError, match=r"pairs\[0\] is not finite, and 4 more"):
        load(folder).score(PAIRS)


def test_prepared_pairs_are_scored_some_at_a_time(tiny_cross):
    prepared = tiny_cross.prepare(PAIRS)
    assert prepared.lengths.tolist() == tiny_cross.score_detailed(PAIRS).token_counts.tolist()
    expected = tiny_cross.score(PAIRS)
    assert prepared.score([3, 0]) == pytest.approx(expected[[3, 0]], abs=1e-6)
    short = tiny_cross.prepare(PAIRS, max_length=16)
    assert short.lengths.max() == 16
    assert short.truncated.tolist() == [False, False, False, True, False]


def test_what_it_says_of_itself(cross_encoder):
    assert isinstance(cross_encoder, Scorer)
    known = cross_encoder.identity
    assert (known.name, known.score_kind) == ("ms-marco-MiniLM-L12-v2", "logit")
    assert (known.precision, known.max_length) == ("dequantised int8", 512)
    assert (cross_encoder.device, cross_encoder.dtype) == ("cpu", "float32")


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"scale": "percent"}, "scale='percent'"),
        ({"long_passages": "skip"}, "long_passages='skip'"),
        ({"on_truncate": "cry"}, "on_truncate='cry'"),
        ({"batch_tokens": 0}, "batch_tokens=0"),
        ({"max_length": 4}, "max_length=4"),
        ({"max_length": 100}, "reads at most 66"),
    ],
)
def test_settings_out_of_range_are_refused(tiny_cross_folder, settings, said):
    with pytest.raises(InputError, match=said):
        load(tiny_cross_folder, **settings)
