"""int8 products: the kernel against torch, torch against float32, and where neither runs."""

from __future__ import annotations

import errno
import logging
import re
import shutil
import subprocess
import sys
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.stats import spearmanr

from sbert_retriever import BiEncoder, CrossEncoder
from sbert_retriever.encoder import precision
from sbert_retriever.encoder.bert import BertBackbone, Linear
from sbert_retriever.encoder.int8 import rounded_linear, rounded_rows
from sbert_retriever.encoder.int8_bert import NativeBert, _say_slower, int8_backbone
from sbert_retriever.encoder.native import build
from sbert_retriever.encoder.native.structs import panels
from sbert_retriever.encoder.packing import packed
from sbert_retriever.errors import FallbackWarning, InputError, ModelError, ModelFormatError
from sbert_retriever.testing import tiny_bert

pytestmark = pytest.mark.filterwarnings(
    "ignore:dtype='int8' runs through torch:sbert_retriever.errors.FallbackWarning"
)

CPU = torch.device("cpu")
TEXTS = ["the cat", "", "Hello world, query! " * 2, "zebra", "one two three four. " * 9]


def weights_of(folder):
    encoder = BiEncoder.load(folder, device="cpu", dtype="float32")
    return encoder._runner._loaded()[0].weights


@pytest.fixture
def native(tiny_folder):
    """The kernel's model and torch's, of the same rounded weights."""
    model = int8_backbone(weights_of(tiny_folder))
    if not isinstance(model, NativeBert):
        pytest.skip("no kernel on this machine: no AVX512-VNNI, or no C++ compiler")
    return model, BertBackbone(model.weights)


@pytest.fixture
def no_compiler(tmp_path, monkeypatch):
    """A machine that has neither a C++ compiler nor a kernel compiled before."""
    monkeypatch.setenv("CXX", "no-such-compiler -m64")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(build, "cpu_flags", lambda: frozenset(build.NEEDED))
    build.forget_kernel()
    _say_slower.cache_clear()
    yield
    build.forget_kernel()


def test_a_kernel_that_was_cut_short_is_compiled_again(native, tmp_path, monkeypatch):
    """After a power failure an empty file stayed, and every process after it was slower."""
    whole = Path(build._kernel()._name)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(build, "_compile", lambda path: shutil.copy(whole, path))
    broken = build._folder() / whole.name
    broken.write_bytes(b"")
    assert Path(build._kernel()._name) == broken
    assert broken.read_bytes() == whole.read_bytes()


def test_rows_are_rounded_to_the_nearest_of_256_steps():
    """From -1 to 4 in steps of 5/255: zero falls on a step and comes back exactly."""
    q, scale, zero = rounded_rows(torch.tensor([[-1.0, 0.0, 4.0], [0.0, 0.0, 0.0]]))
    assert q.tolist() == [[-128, -77, 127], [-128, -128, -128]]
    assert scale[0].item() == pytest.approx(5 / 255)
    assert zero.flatten().tolist() == [-77, -128]


def test_an_int8_map_is_close_to_the_float_one():
    torch.manual_seed(0)
    linear = Linear(torch.randn(96, 40), torch.randn(40))
    x = torch.randn(7, 3, 96)
    found, exact = rounded_linear(linear)(x), linear(x)
    assert found.shape == (7, 3, 40)
    assert torch.nn.functional.cosine_similarity(found, exact, dim=2).min() > 0.999


def test_whole_numbers_are_multiplied_exactly():
    """Weights of -127..127 and rows of 0..255 need no rounding, so the product is exact."""
    torch.manual_seed(0)
    weight = torch.randint(-126, 127, (8, 5)).float()
    weight[0] = 127
    x = torch.randint(0, 255, (4, 8)).float()
    x[:, 0] = 255
    found = rounded_linear(Linear(weight, torch.zeros(5)))(x)
    assert found.numpy() == pytest.approx((x @ weight).numpy(), rel=1e-6)


def test_panels_put_four_weights_of_a_column_together():
    weight = torch.arange(6 * 2, dtype=torch.int8).view(6, 2)
    found = panels(weight)
    assert found.shape == (1, 2, 64, 4)
    assert found[0, 0, 1].tolist() == [1, 3, 5, 7]
    assert found[0, 1, 0].tolist() == [8, 10, 0, 0]
    assert found[0, :, 2:].abs().max() == 0


@pytest.mark.parametrize("lengths", [(1,), (5, 5), (17, 16, 3, 2, 1), (64, 63, 49, 7), (2,) * 70])
@pytest.mark.parametrize("threads", [1, 2])
def test_the_kernel_equals_torch(native, lengths, threads):
    """Texts of every length around the blocks of 6 rows and 16 lanes, on one thread and on two."""
    kernel, reference = native
    rng = np.random.default_rng(0)
    texts = packed([rng.integers(5, 240, n, dtype=np.int32) for n in lengths], None, device=CPU)
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        found, first = kernel.packed(texts), kernel.packed(texts, first_only=True)
    finally:
        torch.set_num_threads(before)
    # A value on the edge between two steps may fall to either side, and moves its row a little.
    assert torch.nn.functional.cosine_similarity(found, reference.packed(texts)).min() > 0.9995
    assert first.numpy() == pytest.approx(found[texts.starts[:-1].long()].numpy(), abs=1e-5)


FEW_THREADS = """
import resource, sys
import numpy as np, torch
from sbert_retriever import BiEncoder
from sbert_retriever.encoder.packing import packed

encoder = BiEncoder.load(sys.argv[1], device="cpu", dtype="int8")
model = encoder._runner._loaded()[0]
texts = packed([np.full(60, 7, dtype=np.int32)] * 64, None, device=torch.device("cpu"))
torch.set_num_threads(1)
expected = model.packed(texts)
torch.get_num_threads = lambda: 64
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
stack = resource.getrlimit(resource.RLIMIT_STACK)[0]
most = resource.getrlimit(resource.RLIMIT_AS)[1]
resource.setrlimit(resource.RLIMIT_AS, (used + 3 * stack + stack // 2, most))
print(torch.allclose(model.packed(texts), expected, atol=1e-5))
"""


def test_a_system_without_more_threads_gets_the_same_from_fewer(native, tiny_folder):
    """A limit on processes or memory, as containers have: slower, and never the process's end."""
    script = 'ulimit -s 65536 && MALLOC_ARENA_MAX=1 exec "$@"'  # 64 MiB each
    done = subprocess.run(
        ["/bin/sh", "-c", script, "sh", sys.executable, "-c", FEW_THREADS, str(tiny_folder)],
        capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (0, "True\n"), done.stderr[-2000:]


@pytest.mark.parametrize("activation", ["gelu", "gelu_new", "relu"])
@pytest.mark.parametrize("sizes", [(32, 4, 64), (48, 3, 80), (40, 2, 100), (384, 12, 1536)])
def test_the_kernel_knows_other_shapes(activation, sizes):
    """Widths that fill no panel, heads that fill no register, and each activation."""
    from transformers import BertConfig, BertModel

    from sbert_retriever.encoder.bert import read_weights

    width, heads, inner = sizes
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=50, hidden_size=width, num_hidden_layers=2, num_attention_heads=heads,
        intermediate_size=inner, max_position_embeddings=80, hidden_act=activation,
        initializer_range=0.3,
    )  # fmt: skip
    state = BertModel(config).state_dict()
    weights = read_weights(config.to_dict(), state, device=CPU, dtype=torch.float32)
    model = int8_backbone(weights)
    texts = packed([np.arange(n, dtype=np.int32) % 50 for n in (70, 19, 4)], None, device=CPU)
    close = torch.nn.functional.cosine_similarity(
        model.packed(texts), BertBackbone(model.weights).packed(texts)
    )
    assert close.min() > 0.995
    assert close.mean() > 0.9995


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
@pytest.mark.parametrize("part", ["qkv", "up"])
@pytest.mark.parametrize("place", ["weight", "bias"])
def test_weights_that_are_not_finite_are_refused(tiny_folder, bad, part, place):
    """Rounded to integers they would give good-looking vectors, where float32 gives an error."""
    weights = weights_of(tiny_folder)
    linear = getattr(weights.layers[1], part)
    values = getattr(linear, place).clone()
    values[..., -1] = bad
    layer = replace(weights.layers[1], **{part: replace(linear, **{place: values})})
    with pytest.raises(ModelFormatError, match="NaN or infinity"):
        int8_backbone(replace(weights, layers=(weights.layers[0], layer)))


def test_ids_outside_the_embeddings_are_refused(native):
    """A tokenizer with more tokens than the model has: an error, never memory of somebody else."""
    kernel, _ = native
    for ids, words in (
        (np.array([1, 99_999]), "token id 99999"),
        (np.ones(70), "reads 66|reads 64"),
    ):
        texts = packed([ids.astype(np.int32)], None, device=CPU)
        with pytest.raises(ModelError, match=words):
            kernel.packed(texts)


def test_vectors_stay_near_those_of_float32(tiny_folder, tiny):
    found = BiEncoder.load(tiny_folder, device="cpu", dtype="int8")
    assert found.dtype == "int8"
    vectors, exact = (x.encode_passages(TEXTS, on_truncate="ignore") for x in (found, tiny))
    assert vectors.dtype == np.float32
    assert (vectors * exact).sum(axis=1).min() > 0.99
    whole = found.encode_tokens(TEXTS, role="passage")
    assert [len(x) for x in whole] == [len(x) for x in tiny.encode_tokens(TEXTS, role="passage")]


@pytest.mark.parametrize("batch_tokens", [1, 64, 100_000])
def test_the_batch_never_decides_an_int8_result(tiny_folder, batch_tokens):
    """Rows are rounded one by one, so neighbours in a batch change nothing at all."""
    texts = [" ".join(["cat", "one", "zebra"] * (n % 9)) for n in range(60)]
    alone = BiEncoder.load(tiny_folder, device="cpu", dtype="int8", batch_tokens=512)
    other = BiEncoder.load(tiny_folder, device="cpu", dtype="int8", batch_tokens=batch_tokens)
    found, expected = (x.encode_passages(texts, on_truncate="ignore") for x in (other, alone))
    assert np.abs(found - expected).max() < 1e-5


def test_without_a_compiler_it_is_said_once_and_the_vectors_are_the_same(tiny_folder, no_compiler):
    with pytest.warns(FallbackWarning, match="no C\\+\\+ compiler"):
        slow = BiEncoder.load(tiny_folder, device="cpu", dtype="int8").encode_passages(TEXTS[:4])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        again = BiEncoder.load(tiny_folder, device="cpu", dtype="int8").encode_passages(TEXTS[:4])
    assert np.array_equal(slow, again)
    build.forget_kernel()


def test_a_folder_that_others_can_write_is_not_trusted(tmp_path, monkeypatch):
    """A kernel is code: it is never loaded from where somebody else could have put it."""
    (tmp_path / "sbert_retriever").mkdir()
    (tmp_path / "sbert_retriever").chmod(0o777)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with pytest.raises(build.NoKernelError, match="yours alone"):
        build._folder()


@pytest.fixture
def uncompiled(tmp_path, monkeypatch):
    """A machine that has no kernel compiled yet."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(build, "cpu_flags", lambda: frozenset(build.NEEDED))
    build.forget_kernel()
    yield tmp_path
    build.forget_kernel()


def compiler(folder, script):
    """A compiler that does what a line of shell says; $1 and on are its arguments."""
    path = folder / "a-compiler"
    path.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
    path.chmod(0o755)
    return path


def test_a_compiler_is_run_with_its_own_arguments(uncompiled, monkeypatch):
    """As in CXX="ccache g++", which build tools understand so."""
    path = compiler(uncompiled, "echo an error: $1 $2 >&2; exit 1")
    monkeypatch.setenv("CXX", f"{path} -first")
    with pytest.raises(build.NoKernelError, match="refused it \\(an error: -first -O3\\)"):
        build.kernel()


def test_what_a_compiler_leaves_is_loaded_or_told(uncompiled, monkeypatch):
    """One that says nothing and writes nothing, and one that writes what is no library."""
    monkeypatch.setenv("CXX", str(compiler(uncompiled, "exit 0")))
    with pytest.raises(build.NoKernelError, match=r"cannot be written \(No such file"):
        build.kernel()
    build.forget_kernel()
    monkeypatch.setenv("CXX", str(compiler(uncompiled, 'for last; do :; done; echo no >"$last"')))
    with pytest.raises(build.NoKernelError, match="cannot be loaded"):
        build.kernel()


def test_a_compiler_that_fails_is_asked_once(uncompiled, monkeypatch, caplog):
    """Each model that is loaded would try it again, for as long as it takes to fail."""
    script = f"echo x >>{uncompiled / 'asked'}; echo an error: broken >&2; exit 1"
    monkeypatch.setenv("CXX", str(compiler(uncompiled, script)))
    with caplog.at_level(logging.INFO, logger="sbert_retriever.encoder"):
        for _ in range(3):
            with pytest.raises(build.NoKernelError, match="an error: broken"):
                build.kernel()
    assert (uncompiled / "asked").read_text(encoding="utf-8") == "x\n"
    assert [record.getMessage().split(",")[0] for record in caplog.records] == [
        "compiling the int8 kernel"
    ]


def test_that_a_kernel_is_compiled_is_said_with_its_time(uncompiled, monkeypatch, caplog):
    """Once, not for each model, and not where it was compiled before."""
    if shutil.which("c++") is None:
        pytest.skip("this machine has no C++ compiler")
    nothing = uncompiled / "nothing.cpp"
    nothing.write_text("int nothing;\n", encoding="utf-8")
    monkeypatch.setattr(build, "SOURCE", nothing)
    monkeypatch.setattr(build, "_FLAGS", ("-shared", "-fPIC"))
    with caplog.at_level(logging.INFO, logger="sbert_retriever.encoder"):
        library = build.kernel()
        assert build.kernel() is library
        build.forget_kernel()
        build.kernel()
    begun, ended = (record.getMessage() for record in caplog.records)
    assert begun.startswith("compiling the int8 kernel")
    assert re.match(r"compiled the int8 kernel in \d+\.\d s, kept as .*\.so$", ended)


def test_a_disk_without_room_is_no_end(uncompiled, monkeypatch):
    def full(**_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(build.tempfile, "TemporaryDirectory", full)
    with pytest.raises(build.NoKernelError, match="cannot be written \\(No space left"):
        build.kernel()


def test_a_user_without_a_home_is_told_where_to_give_one(monkeypatch):
    def homeless(_):
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(build.Path, "expanduser", homeless)
    with pytest.raises(build.NoKernelError, match="set XDG_CACHE_HOME"):
        build._folder()


def test_pairs_in_int8(classifier_folder):
    folder = classifier_folder()
    pairs = [("the cat", "one two three"), ("zebra", "cat " * 20), ("a", "b")]
    exact, rough = (
        CrossEncoder.load(folder, device="cpu", dtype=dtype).score(pairs)
        for dtype in ("float32", "int8")
    )
    assert rough == pytest.approx(exact, abs=0.25)  # random weights magnify


def test_int8_is_refused_where_it_does_not_run(tmp_path, tiny_folder):
    """On a GPU, for another architecture, and for another kind of model."""
    from transformers import DistilBertConfig, DistilBertModel

    with pytest.raises(InputError, match="runs on the CPU, not on cuda"):
        precision.choose_dtype("int8", torch.device("cuda"), int8=True)
    with pytest.raises(InputError, match="of another kind"):
        precision.choose_dtype("int8", CPU)
    folder = tiny_bert(tmp_path)
    config = DistilBertConfig(vocab_size=500, dim=32, n_layers=1, n_heads=4, hidden_dim=64)
    DistilBertModel(config).save_pretrained(folder)
    with pytest.raises(InputError, match="is distilbert"):
        BiEncoder.load(folder, device="cpu", dtype="int8").warm_up()


@pytest.mark.data
def test_int8_keeps_the_known_correlation(stsb):
    """STSb-en test: 82.03 in float32, and at most 0.15 less."""
    encoder = BiEncoder.load("all-MiniLM-L6-v2", device="cpu", dtype="int8")
    texts = list(dict.fromkeys(text for pair in stsb for text in pair[:2]))
    vectors = dict(zip(texts, encoder.encode_passages(texts), strict=True))
    cosine = [vectors[left] @ vectors[right] for left, right, _ in stsb]
    assert 100 * spearmanr(cosine, [pair[2] for pair in stsb]).statistic > 82.03 - 0.15


@pytest.mark.data
def test_the_cross_encoder_keeps_its_order(marco):
    exact, rough = (
        CrossEncoder.load("ms-marco-MiniLM-L12-v2", device="cpu", dtype=dtype).score(marco[:40])
        for dtype in ("float32", "int8")
    )
    assert spearmanr(exact, rough).statistic > 0.99
