"""Batches that find no memory, vectors straight to a file, and work done ahead."""

from __future__ import annotations

import errno
import io
import threading
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from sbert_retriever import BiEncoder, CrossEncoder
from sbert_retriever.encoder import text_runner
from sbert_retriever.encoder.ahead import mapped_ahead
from sbert_retriever.encoder.backbone import load_backbone
from sbert_retriever.encoder.batching import TokenBatch
from sbert_retriever.encoder.colbert import ColbertEncoder
from sbert_retriever.encoder.halving import HalvingRunner, is_out_of_memory
from sbert_retriever.encoder.vector_file import VectorFile
from sbert_retriever.errors import FallbackWarning, InputError, InputTypeError, ModelError

TEXTS = [" ".join(["cat", "one", "zebra"] * (1 + n % 3)) for n in range(40)]


class SmallMemory(TorchDispatchMode):
    """A device on which no batch of more embeddings than `limit` numbers finds memory."""

    def __init__(self, limit):
        super().__init__()
        self.limit, self.refused = limit, 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        made = func(*args, **(kwargs or {}))
        looked_up = func.overloadpacket is torch.ops.aten.embedding
        if looked_up and made.numel() > self.limit:
            self.refused += 1
            raise torch.OutOfMemoryError("simulated: out of memory")
        return made


def test_a_batch_without_memory_is_halved_and_nothing_is_lost(tiny_folder, tiny):
    """One warning, equal vectors in their order, and later batches that fit at once."""
    encoder = BiEncoder.load(tiny_folder, device="cpu", dtype="float32", batch_tokens=1024)
    encoder.warm_up()
    with SmallMemory(100 * 32) as memory, pytest.warns(FallbackWarning, match="halves") as said:
        found = encoder.encode_passages(TEXTS)
    assert len(said) == 1
    assert memory.refused > 0
    assert np.abs(found - tiny.encode_passages(TEXTS)).max() < 1e-5
    with SmallMemory(100 * 32) as memory, warnings.catch_warnings():
        warnings.simplefilter("error")
        again = encoder.encode_passages(TEXTS)
    assert memory.refused == 0
    assert np.array_equal(again, found) or np.abs(again - found).max() < 1e-5


def test_pairs_without_memory_are_halved_too(classifier_folder):
    # All different: equal ones go through the model once.
    seconds = [" ".join(["cat"] * (1 + n % 7) + ["one"] * (1 + n // 7)) for n in range(len(TEXTS))]
    pairs = list(zip(TEXTS, seconds, strict=True))
    encoder = CrossEncoder.load(
        classifier_folder(), device="cpu", dtype="float32", on_truncate="ignore"
    )
    expected = encoder.score(pairs)
    with SmallMemory(300 * 32), pytest.warns(FallbackWarning, match="halves"):
        assert encoder.score(pairs) == pytest.approx(expected, abs=1e-4)


def test_token_vectors_without_memory_are_halved_too(tiny_folder, tiny):
    encoder = BiEncoder.load(tiny_folder, device="cpu", dtype="float32", batch_tokens=1024)
    encoder.warm_up()
    with SmallMemory(100 * 32) as memory, pytest.warns(FallbackWarning, match="halves"):
        found = encoder.encode_tokens(TEXTS, role="passage")
    assert memory.refused > 0
    for tokens, expected in zip(found, tiny.encode_tokens(TEXTS, role="passage"), strict=True):
        assert tokens == pytest.approx(expected, abs=1e-5)


def batch_of(*lengths):
    return TokenBatch(
        tuple(np.zeros(n, dtype=np.int32) for n in lengths), tuple(range(len(lengths)))
    )


def refused(batch):
    raise torch.OutOfMemoryError("out of memory")


@pytest.mark.filterwarnings("ignore:cpu has no memory")
def test_one_text_that_is_too_big_alone_is_refused_or_goes_to_the_cpu():
    halving = HalvingRunner(torch.device("cpu"), 64)
    with pytest.raises(ModelError, match=r"one text of 9 tokens.*cpu_fallback=True"):
        list(halving(batch_of(9, 3), refused))
    found = list(halving(batch_of(9, 3), refused, on_cpu=lambda batch: torch.tensor(batch.rows)))
    assert [values.tolist() for _, values in found] == [[0], [1]]


def test_one_text_that_is_too_big_alone_makes_no_later_batch_smaller():
    """Attention takes the square of a text's length: many short ones still fit together."""
    halving = HalvingRunner(torch.device("cpu"), 64)
    with pytest.warns(FallbackWarning, match="one text of 9 tokens: it goes through the CPU"):
        list(halving(batch_of(9), refused, on_cpu=lambda batch: torch.tensor(batch.rows)))
    assert halving.batch_tokens == 64
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        list(halving(batch_of(9), refused, on_cpu=lambda batch: torch.tensor(batch.rows)))


def test_the_spare_encoder_gives_the_same_vectors(tiny_folder, tiny):
    encoder = BiEncoder.load(tiny_folder, device="cpu", dtype="float32", cpu_fallback=True)
    runner = encoder._runner
    (batch,) = runner._batches(runner.tokens(TEXTS[:3], "passage"))
    found = runner._pooled_on_cpu(batch, role="passage")
    expected = tiny.encode_passages([TEXTS[row] for row in batch.rows])
    assert found.detach().numpy() == pytest.approx(expected, abs=1e-5)


@pytest.mark.filterwarnings("ignore:cpu has no memory")
def test_several_devices_share_one_spare(tiny_folder, tiny, monkeypatch):
    """Each read the weights once more for itself, into the same memory."""
    expected, read = tiny.encode_passages(TEXTS * 5), []

    def counted(*args, **settings):
        read.append(settings["device"])
        return load_backbone(*args, **settings)

    monkeypatch.setattr(text_runner, "load_backbone", counted)
    encoder = BiEncoder.load(tiny_folder, device=["cpu"] * 3, dtype="float32", cpu_fallback=True)
    for runner in encoder._runners:
        # On a real GPU, the device's own model finds no memory at all.
        monkeypatch.setattr(runner, "_model", (no_memory, torch.nn.Identity()))
    assert encoder.encode_passages(TEXTS * 5) == pytest.approx(expected, abs=1e-5)
    assert len(read) == 1


@pytest.mark.filterwarnings("ignore:cpu has no memory")
def test_pairs_without_memory_even_alone_are_scored_by_the_spare(classifier_folder, monkeypatch):
    """The device's own model finds no memory at all; the spare, on a real GPU, is on the CPU."""
    folder, pairs = classifier_folder(), [(text, text[::-1]) for text in TEXTS[:6]]
    settings = {"device": "cpu", "dtype": "float32", "on_truncate": "ignore"}
    expected = CrossEncoder.load(folder, **settings).score(pairs)
    spared = CrossEncoder.load(folder, **settings, cpu_fallback=True)
    monkeypatch.setattr(spared._runner, "_model", no_memory)
    assert spared.score(pairs) == pytest.approx(expected, abs=1e-4)
    refusing = CrossEncoder.load(folder, **settings)
    monkeypatch.setattr(refusing._runner, "_model", no_memory)
    with pytest.raises(ModelError, match=r"no memory for one text.*cpu_fallback=True"):
        refusing.score(pairs)


@pytest.mark.filterwarnings("ignore:cpu has no memory")
@pytest.mark.parametrize("role", ["query", "passage"])
def test_colbert_texts_without_memory_even_alone_go_to_the_spare(colbert_folder, monkeypatch, role):
    folder = colbert_folder()
    expected = ColbertEncoder.load(folder, device="cpu", dtype="float32").encode_tokens(
        TEXTS[:5], role=role
    )
    spared = ColbertEncoder.load(folder, device="cpu", dtype="float32", cpu_fallback=True)
    monkeypatch.setattr(spared, "_model", (no_memory, torch.nn.Identity()))
    found = spared.encode_tokens(TEXTS[:5], role=role)
    for tokens, right in zip(found, expected, strict=True):
        assert tokens == pytest.approx(right, abs=1e-5)


def no_memory(*_):
    raise torch.OutOfMemoryError("out of memory")


def test_other_errors_are_no_lack_of_memory():
    assert is_out_of_memory(RuntimeError("[enforce fail] DefaultCPUAllocator: not enough memory"))
    assert not is_out_of_memory(RuntimeError("shape mismatch"))

    def broken(batch):
        raise RuntimeError("shape mismatch")

    with pytest.raises(RuntimeError, match="shape"):
        list(HalvingRunner(torch.device("cpu"), 64)(batch_of(2, 1), broken))


def test_vectors_of_a_generator_go_to_a_file(tiny, tmp_path):
    texts = [f"cat {n}" for n in range(5000)]
    found = tiny.encode_to_file(iter(texts), tmp_path / "v.npy")
    assert isinstance(found, np.memmap)
    assert found.shape == (5000, tiny.dim)
    assert np.abs(found - tiny.encode_passages(texts)).max() < 1e-5
    assert np.array_equal(np.load(tmp_path / "v.npy"), found)
    assert [path.name for path in tmp_path.iterdir()] == ["v.npy"]


def test_a_file_of_no_vectors(tiny, tmp_path):
    assert tiny.encode_to_file([], tmp_path / "v.npy", role="query").shape == (0, tiny.dim)
    assert np.load(tmp_path / "v.npy").shape == (0, tiny.dim)


def test_a_run_that_fails_leaves_the_old_file_as_it_was(tiny, tmp_path):
    tiny.encode_to_file(["cat"], tmp_path / "v.npy")
    before = (tmp_path / "v.npy").read_bytes()
    with pytest.raises(InputTypeError, match=r"texts\[4999\]"):
        tiny.encode_to_file(iter(["cat"] * 4999 + [3]), tmp_path / "v.npy")
    assert (tmp_path / "v.npy").read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["v.npy"]


def test_a_file_in_no_folder_is_refused_before_anything_is_encoded(tiny, tmp_path):
    with pytest.raises(InputError, match="cannot be written"):
        tiny.encode_to_file(["cat"], tmp_path / "none" / "v.npy")


def test_a_folder_is_refused_before_anything_is_encoded(tiny, tmp_path, monkeypatch):
    """It was found out when all was encoded, and all was lost."""
    monkeypatch.chdir(tmp_path)
    for path in (tmp_path, "", "."):
        with pytest.raises(InputError, match="is a folder, expected a file"):
            tiny.encode_to_file(["cat"], path)
    assert list(tmp_path.iterdir()) == []


def test_a_file_in_a_folder_that_may_not_be_entered_is_refused(tiny, tmp_path, monkeypatch):
    """Python before 3.14 raises where it looks at what lies there. Root may enter anything."""

    def refused(path, *args, **options):
        raise PermissionError(errno.EACCES, "Permission denied", str(path))

    with monkeypatch.context() as patch:
        patch.setattr(Path, "is_dir", refused)
        with pytest.raises(InputError, match=r"v\.npy cannot be written \(Permission denied\)"):
            tiny.encode_to_file(["cat"], tmp_path / "v.npy")


class Full(io.BytesIO):
    """A file on a disk that is full: it takes nothing, and says so when it is closed, too."""

    def write(self, data):
        raise OSError(errno.ENOSPC, "No space left on device")

    def close(self):
        super().close()
        raise OSError(errno.ENOSPC, "No space left on device")


@pytest.mark.parametrize("rows", [0, 2])
def test_a_full_disk_is_told_and_keeps_no_part(tmp_path, rows):
    """While rows are written, or at the end: the part would fill the disk for good."""

    def write():
        with VectorFile(tmp_path / "v.npy", 3) as file:
            file._file.close()
            file._file = Full()
            if rows:
                file.append(np.ones((rows, 3), dtype=np.float32))

    with pytest.raises(InputError, match=r"No space left on device.*make room"):
        write()
    assert list(tmp_path.iterdir()) == []


def test_two_that_write_one_file_at_a_time_both_end_whole(tmp_path):
    first, second = (VectorFile(tmp_path / "v.npy", 2) for _ in range(2))
    with first:
        first.append(np.full((3, 2), 1, dtype=np.float32))
        with second:
            second.append(np.full((5, 2), 2, dtype=np.float32))
        assert second.read().tolist() == [[2.0, 2.0]] * 5
    assert first.read().tolist() == [[1.0, 1.0]] * 3
    assert [path.name for path in tmp_path.iterdir()] == ["v.npy"]


def test_the_header_has_room_for_any_number_of_rows(tmp_path):
    file = VectorFile(tmp_path / "v.npy", 3)
    with file:
        file.append(np.ones((2, 3), dtype=np.float32))
        file._rows = 10**12
    assert b"(1000000000000, 3)" in (tmp_path / "v.npy").read_bytes()[:128]


@pytest.mark.parametrize("ahead", [0, 1, 3])
def test_work_ahead_keeps_the_order_and_raises_at_its_turn(ahead):
    def inverse(n):
        return 12 // n

    got = mapped_ahead(inverse, iter([1, 2, 3, 0, 4]), ahead=ahead)
    assert [next(got), next(got), next(got)] == [12, 6, 4]
    with pytest.raises(ZeroDivisionError):
        next(got)
    assert not [t for t in threading.enumerate() if t.name.startswith("tokenising")]
