"""What a CUDA device gives, beside sentence-transformers in bfloat16 on the same device.

    PYTHONPATH=. python tests/benchmarks/gpu_figures.py [--json figures.json] [--quick]

From the repository's own folder, where the package need not be installed. Needs torch,
transformers, sentence-transformers and numpy, no data and no network: a BERT-base
(or, with --quick, a small BERT) with random weights and made-up words of one token each. Under six
minutes. Medians of three rounds, the two sides in turn, both warmed up, the device synchronised.

Prints: the device's own rate of bfloat16 matrix products; short sentences and 256-token passages a
second of both sides, and what share of that rate the long ones reach; the time to find the most
similar pair of 10,000 sentences from their texts; how near the vectors of the packed and of the
padded way are to each other and to sentence-transformers'.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
from collections.abc import Callable
from pathlib import Path
from time import perf_counter

import numpy as np
import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.models import Pooling, Transformer
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
from transformers import BertConfig, BertModel, PreTrainedTokenizerFast

from sbert_retriever.encoder.bi_encoder import BiEncoder

WORDS = [f"{a}{b}{c}" for a in "bdfgklmnprst" for b in ("a", "ei", "o", "u") for c in
         (f"{x}{y}" for x in "bdfgklmnprst" for y in "aeiou")]  # fmt: skip
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
PRODUCTS, BURN_IN_S = 20, 1.0


def model_folder(folder: Path, *, quick: bool) -> Path:
    """A BERT with random weights, as sentence-transformers saves it."""
    vocabulary = {word: i for i, word in enumerate([*SPECIAL, *WORDS])}
    words = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    words.normalizer = normalizers.BertNormalizer(lowercase=True)
    words.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    words.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    names = ("pad_token", "unk_token", "cls_token", "sep_token", "mask_token")
    PreTrainedTokenizerFast(
        tokenizer_object=words, model_max_length=512, **dict(zip(names, SPECIAL, strict=True))
    ).save_pretrained(folder / "bert")
    sizes = (
        {"hidden_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4}
        if quick
        else {"hidden_size": 768, "num_hidden_layers": 12, "num_attention_heads": 12}
    )
    torch.manual_seed(0)
    config = BertConfig(vocab_size=30522, intermediate_size=4 * sizes["hidden_size"], **sizes)
    BertModel(config).save_pretrained(folder / "bert")
    parts = [Transformer(str(folder / "bert"), max_seq_length=256), Pooling(sizes["hidden_size"])]
    whole = SentenceTransformer(modules=parts, device="cpu")
    whole.save(str(folder / "whole"), create_model_card=False)
    return folder / "whole"


def texts_of(lengths: list[int], seed: int) -> list[str]:
    """Texts of so many tokens, the two special ones included."""
    rng = np.random.default_rng(seed)
    return [" ".join(WORDS[i] for i in rng.integers(len(WORDS), size=n - 2)) for n in lengths]


def timed(call: Callable[[], object]) -> float:
    """Seconds of a call, with the device idle before and after."""
    synchronise()
    started = perf_counter()
    call()
    synchronise()
    return perf_counter() - started


def synchronise() -> None:
    """Wait for the device."""
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def in_turn(sides: dict[str, Callable[[], object]], rounds: int = 3) -> dict[str, float]:
    """Median seconds of each side, one after the other in each round, after a warm-up."""
    for call in sides.values():
        call()
    seconds: dict[str, list[float]] = {name: [] for name in sides}
    for _ in range(rounds):
        for name, call in sides.items():
            seconds[name].append(timed(call))
    return {name: statistics.median(values) for name, values in seconds.items()}


def matrix_rate(device: str, size: int) -> float:
    """FLOP/s of a bfloat16 product of two (size, size) matrices."""
    a, b = (torch.randn(size, size, device=device, dtype=torch.bfloat16) for _ in range(2))

    def products() -> None:
        for _ in range(PRODUCTS):
            torch.matmul(a, b)

    until = perf_counter() + BURN_IN_S
    while perf_counter() < until:  # a device that had nothing to do runs slowly at first
        timed(products)
    return 2 * size**3 * PRODUCTS / in_turn({"products": products}, rounds=9)["products"]


def flops_a_token(config: dict[str, int], length: int) -> float:
    """Of the matrix products and the attention of a BERT, for a text of so many tokens."""
    width, inner = config["hidden_size"], config["intermediate_size"]
    layer = 2 * (4 * width * width + 2 * width * inner) + 4 * length * width
    return float(config["num_hidden_layers"] * layer)


def most_similar_pair(encoder: BiEncoder, texts: list[str], device: str) -> tuple[int, int]:
    """The two texts of highest cosine, from their words: the paper's 10,000-sentence search."""
    vectors = torch.from_numpy(encoder.encode_passages(texts)).to(device)
    vectors = torch.nn.functional.normalize(vectors, dim=1)
    cosines = vectors @ vectors.T
    cosines.fill_diagonal_(-2)
    best = int(cosines.argmax())
    return best // len(texts), best % len(texts)


def rates(ours: BiEncoder, theirs: SentenceTransformer, texts: list[str]) -> dict[str, float]:
    """Texts a second of both sides, sentence-transformers with batches of 32 and of 512."""
    seconds = in_turn(
        {
            "ours": lambda: ours.encode_passages(texts),
            "sentence_transformers": lambda: theirs.encode(texts, batch_size=32),
            "sentence_transformers_batch_512": lambda: theirs.encode(texts, batch_size=512),
        }
    )
    found = {name: len(texts) / value for name, value in seconds.items()}
    others = [value for name, value in found.items() if name != "ours"]
    return {
        **found,
        "ratio": found["ours"] / others[0],
        "ratio_to_best": found["ours"] / max(others),
    }


def nearness(ours: BiEncoder, theirs: SentenceTransformer, texts: list[str]) -> dict[str, float]:
    """Least cosine of our vectors to theirs, and of the packed way to the padded one."""
    packed = ours.encode_passages(texts)
    found = {"to_sentence_transformers": least_cosine(packed, theirs.encode(texts))}
    backbone = ours._runner._loaded()[0]
    found["packs"] = float(backbone.packs_well)
    was, backbone.packs_well = backbone.packs_well, False
    found["packed_to_padded"] = least_cosine(packed, ours.encode_passages(texts))
    backbone.packs_well = was
    return found


def least_cosine(left: np.ndarray, right: np.ndarray) -> float:
    """The least cosine of rows in the same place."""
    lengths = np.linalg.norm(left, axis=1) * np.linalg.norm(right, axis=1)
    return float(((left * right).sum(axis=1) / lengths).min())


def measured(folder: Path, *, quick: bool) -> dict[str, object]:
    """All figures."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    ours = BiEncoder.load(folder, device=device, dtype="bfloat16", on_truncate="ignore")
    theirs = SentenceTransformer(
        str(folder), device=device, model_kwargs={"torch_dtype": torch.bfloat16}
    )
    count = 200 if quick else 20_000
    rng = np.random.default_rng(1)
    short = texts_of(rng.integers(7, 24, size=count).tolist(), 2)
    long = texts_of([256] * (count // 5), 3)
    rate = matrix_rate(device, 512 if quick else 8192)
    speeds = {"short": rates(ours, theirs, short), "long": rates(ours, theirs, long)}
    config = json.loads((folder / "config.json").read_text("utf-8"))
    flops = speeds["long"]["ours"] * 256 * flops_a_token(config, 256)
    pairs = short[: count // 2]
    tokenising = timed(lambda: ours.token_counts(short, role="passage"))
    return {
        "device": torch.cuda.get_device_name() if device == "cuda" else "cpu",
        "torch": torch.__version__,
        "matrix_tflops": rate / 1e12,
        "short_sentences_per_s": speeds["short"],
        "long_passages_per_s": speeds["long"],
        "long_tflops": flops / 1e12,
        "long_share_of_matrix_rate": flops / rate,
        "tokenising_short_per_s": count / tokenising,
        "pair_search": {
            "sentences": len(pairs),
            "seconds": in_turn({"all": lambda: most_similar_pair(ours, pairs, device)})["all"],
        },
        "least_cosine": nearness(ours, theirs, [*short[:500], *long[:50]]),
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path, help="where the figures go, too")
    parser.add_argument("--quick", action="store_true", help="a small model: whether it runs")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        figures = measured(model_folder(Path(folder), quick=options.quick), quick=options.quick)
    text = json.dumps(figures, indent=2)
    print(text)
    if options.json:
        options.json.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
