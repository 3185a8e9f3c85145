"""One model on several devices: the vectors, their order and their errors are those of one."""

from __future__ import annotations

import threading
from contextvars import copy_context

import numpy as np
import pytest
import torch

from sbert_retriever import BiEncoder
from sbert_retriever.encoder import precision, texts
from sbert_retriever.encoder.giving_up import check_wanted, stop_event
from sbert_retriever.encoder.precision import choose_devices
from sbert_retriever.encoder.spread import spread
from sbert_retriever.errors import (
    DeviceError,
    GivenUpError,
    InputError,
    InputTypeError,
    ModelError,
    TextTooLongError,
    TruncationWarning,
)

TEXTS = [" ".join(["cat", "one", "zebra"] * (1 + n % 3) + list(str(n))) for n in range(500)]


@pytest.fixture
def three(tiny_folder, monkeypatch) -> BiEncoder:
    """A model on three devices, which has windows of a few texts."""
    monkeypatch.setattr(texts, "_TEXTS", 100)
    return BiEncoder.load(tiny_folder, device=["cpu", "cpu", "cpu"], dtype="float32")


def test_vectors_come_in_order_from_all_devices(three, tiny, monkeypatch) -> None:
    """Each device waits until all are at work, so that none can do it all alone."""
    together = threading.Barrier(3)
    for runner in three._runners:
        monkeypatch.setattr(runner, "vectors", _met(runner.vectors, together))
    found = three.encode_passages(TEXTS)
    np.testing.assert_allclose(found, tiny.encode_passages(TEXTS), atol=1e-5)
    assert three.device == "cpu,cpu,cpu"
    assert three.identity == tiny.identity


def _met(vectors, together):
    met = []

    def first_meets(*args):
        if not met:
            met.append(True)
            together.wait(60)
        return vectors(*args)

    return first_meets


def test_a_generator_goes_to_a_file_as_from_one_device(three, tiny, tmp_path) -> None:
    found = three.encode_to_file(iter(TEXTS), tmp_path / "v.npy")
    np.testing.assert_allclose(found, tiny.encode_passages(TEXTS), atol=1e-5)


def test_few_texts_and_token_vectors_are_the_first_device_s(three, tiny, monkeypatch) -> None:
    for runner in three._runners[1:]:
        monkeypatch.setattr(runner, "_loaded", lambda: pytest.fail("used"))
    np.testing.assert_allclose(
        three.encode_queries(TEXTS[:3]), tiny.encode_queries(TEXTS[:3]), atol=1e-5
    )
    assert three.encode_queries([]).shape == (0, tiny.dim)
    tokens = three.encode_tokens(TEXTS[:1], role="query")
    np.testing.assert_allclose(tokens[0], tiny.encode_tokens(TEXTS[:1], role="query")[0], atol=1e-5)


def test_what_is_wrong_with_a_text_names_its_place_among_all(three, monkeypatch) -> None:
    with pytest.raises(InputTypeError, match=r"texts\[400\] is int"):
        three.encode_passages([*TEXTS[:400], 7])
    with pytest.raises(InputTypeError, match=r"texts\[400\] is int"):
        three.encode_passages(iter([*TEXTS[:400], 7]))
    long = "cat " * 100
    with pytest.raises(TextTooLongError, match="longer than"):
        three.encode_passages(iter([*TEXTS, long]), on_truncate="error")
    with pytest.warns(TruncationWarning, match="1 of 501"):
        three.encode_passages([*TEXTS, long])
    for runner in three._runners:
        monkeypatch.setattr(runner, "_pooled", _spoiled(runner._pooled, three))
    with pytest.raises(ModelError, match=r"texts\[250\]"):
        three.encode_passages([*TEXTS[:250], "house", *TEXTS[:250]])


def _spoiled(pooled, encoder):
    """NaN for the one text that is a single word."""
    alone = len(encoder._runner.tokens(["house"], "passage").ids[0])

    def spoiled(batch, *, role):
        made = pooled(batch, role=role).clone()
        for row, ids in enumerate(batch.token_ids):
            if len(ids) == alone:
                made[row] = float("nan")
        return made

    return spoiled


def test_an_error_of_one_device_ends_all(three, monkeypatch) -> None:
    def broken(*_):
        raise ZeroDivisionError("a device")

    monkeypatch.setattr(three._runners[1], "vectors", broken)
    drawn = []
    with pytest.raises(ZeroDivisionError, match="a device"):
        three.encode_passages(drawn.append(text) or text for text in TEXTS * 20)
    assert len(drawn) < len(TEXTS) * 20
    assert not [t for t in threading.enumerate() if t.name.startswith("sbert-device")]


def test_items_are_drawn_as_they_are_needed_and_errors_come_at_their_turn() -> None:
    drawn: list[int] = []

    def items():
        for n in range(100):
            drawn.append(n)
            yield n

    def work(_: str, n: int) -> float:
        return 12 / (3 - n)

    made = spread(work, items(), ["a", "b"])
    assert [next(made), next(made), next(made)] == [4.0, 6.0, 12.0]
    assert len(drawn) <= 3 + 2 * 2
    with pytest.raises(ZeroDivisionError):
        next(made)
    assert len(drawn) <= 4 + 2 * 2


def test_who_stops_taking_ends_what_is_under_way() -> None:
    """The second item would go on for ever, if it were not told."""
    begun = threading.Event()

    def work(_: str, n: int) -> int:
        while n:
            begun.set()
            check_wanted()
        return n

    made = spread(work, iter([0, 1, 2, 3]), ["a", "b"])
    assert next(made) == 0
    assert begun.wait(60)
    made.close()
    assert not [t for t in threading.enumerate() if t.name.startswith("sbert-device")]


def test_a_caller_that_is_given_up_gets_no_more(three) -> None:
    stop = threading.Event()

    def encode() -> None:
        stop_event.set(stop)
        parts = three._parts(iter(TEXTS * 20), "passage", show_progress=False)
        assert len(next(parts).vectors) == 100
        stop.set()
        with pytest.raises(GivenUpError):
            next(parts)

    copy_context().run(encode)


def test_devices_are_checked(tiny_folder, monkeypatch) -> None:
    with pytest.raises(InputError, match="device is an empty list"):
        BiEncoder.load(tiny_folder, device=[])
    with pytest.raises(InputTypeError, match="device is int"):
        BiEncoder.load(tiny_folder, device=["cpu", 1])
    with pytest.raises(InputTypeError, match="device is int"):
        BiEncoder.load(tiny_folder, device=1)
    with pytest.raises(DeviceError, match="cuda:99"):
        BiEncoder.load(tiny_folder, device=["cpu", "cuda:99"])
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: True)
    monkeypatch.setattr(precision, "bfloat16_pays", lambda device: device.type == "mps")
    with pytest.raises(InputError, match="is float32 on cpu, bfloat16 on mps: name one"):
        choose_devices(["cpu", "mps"], "auto")
    assert choose_devices(["cpu", "mps"], "float32")[1] == torch.float32


@pytest.mark.parametrize(
    ("names", "twice"),
    [
        (["cuda", "cuda:0"], "cuda:0"),
        (["cuda:1", "cuda:0", "cuda:1"], "cuda:1"),
        (["auto", "cuda:0"], "cuda:0"),
        (["mps", "mps"], "mps"),
    ],
)
def test_a_gpu_is_named_once(monkeypatch, names, twice) -> None:
    """Its memory would hold the weights twice, and it would be no faster."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: True)
    with pytest.raises(InputError, match=f"'{twice}' twice.*name each once"):
        choose_devices(names, "float32")
    chosen, _ = choose_devices(["cuda", "cuda:1", "cpu", "cpu"], "float32")
    assert [str(device) for device in chosen] == ["cuda:0", "cuda:1", "cpu", "cpu"]
