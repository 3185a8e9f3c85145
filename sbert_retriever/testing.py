"""Test doubles that ship: a tiny checkpoint, models without torch, vectors for benchmarks."""

from __future__ import annotations

import hashlib
import json
import re
import string
from collections.abc import Iterable, Iterator, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from sbert_retriever.errors import InputTypeError
from sbert_retriever.index.vectors import unit_rows
from sbert_retriever.types import ModelIdentity, ScoreKind

if TYPE_CHECKING:
    from sbert_retriever.types import Vectors

_SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
_WORD_LIST = """
the of and to in is that it was for on are as with his they at be this from have or by one had
not but what all were when we there can an your which their said if do will each about how up
out them then she many some so these would other into has more her two like him see time could
no make than first been its who now people my made over did down only way find use may water
long little very after words called just where most know cat dog house query passage sentence
text vector search model
"""
_BLOCK = 8192
_MODES = {
    "cls": "pooling_mode_cls_token",
    "max": "pooling_mode_max_tokens",
    "mean": "pooling_mode_mean_tokens",
    "mean_sqrt_len": "pooling_mode_mean_sqrt_len_tokens",
    "weighted_mean": "pooling_mode_weightedmean_tokens",
    "last_token": "pooling_mode_lasttoken",
}


def tiny_bert(
    folder: str | PathLike[str],
    *,
    pooling: str = "mean",
    hidden: int = 32,
    layers: int = 2,
    heads: int = 4,
    max_length: int = 32,
    positions: int = 64,
    normalize: bool = True,
    words: Sequence[str] | None = None,
    seed: int = 0,
) -> Path:
    """Write a small random BERT as a sentence-transformers folder, tokenizer included.

    Args:
        folder: Made where it is absent.
        pooling: "mean", "max", "cls", "mean_sqrt_len", "weighted_mean", "last_token".
        hidden: Width of the vectors.
        layers: How many.
        heads: Attention heads; they divide `hidden`.
        max_length: Tokens the model reads, special ones included.
        positions: Position embeddings.
        normalize: Whether a Normalize module ends it.
        words: Whole words of the vocabulary, None for some common ones; others become letters.
        seed: Of the weights.

    Returns:
        The folder.
    """
    path = Path(folder)
    path.mkdir(parents=True, exist_ok=True)
    vocabulary = _vocabulary(_WORD_LIST.split() if words is None else words)
    _write_tokenizer(path, vocabulary, positions)
    config = {
        "architectures": ["BertModel"],
        "model_type": "bert",
        "vocab_size": len(vocabulary),
        "hidden_size": hidden,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "intermediate_size": 4 * hidden,
        "max_position_embeddings": positions,
        "type_vocab_size": 2,
        "layer_norm_eps": 1e-12,
        "hidden_act": "gelu",
        "pad_token_id": 0,
    }
    _write_json(path / "config.json", config)
    _write_json(path / "sentence_bert_config.json", {"max_seq_length": max_length})
    _write_modules(path, pooling, hidden, normalize=normalize)
    _write_weights(
        path, vocab=len(vocabulary), hidden=hidden, layers=layers, rows=positions, seed=seed
    )
    return path


def _vocabulary(words: Sequence[str]) -> dict[str, int]:
    characters = string.ascii_lowercase + string.digits + string.punctuation
    pieces = [*_SPECIAL, *characters, *(f"##{c}" for c in characters), *words]
    return {piece: number for number, piece in enumerate(dict.fromkeys(pieces))}


def _write_tokenizer(folder: Path, vocabulary: dict[str, int], positions: int) -> None:
    from tokenizers import Tokenizer, decoders, normalizers, pre_tokenizers, processors
    from tokenizers.models import WordPiece

    tokenizer = Tokenizer(WordPiece(vocabulary, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[(token, vocabulary[token]) for token in ("[CLS]", "[SEP]")],
    )
    tokenizer.add_special_tokens(list(_SPECIAL))
    tokenizer.save(str(folder / "tokenizer.json"))
    names = {f"{token.strip('[]').lower()}_token": token for token in _SPECIAL}
    config = {"tokenizer_class": "BertTokenizer", "model_max_length": positions, **names}
    _write_json(folder / "tokenizer_config.json", {**config, "do_lower_case": True})
    vocab = "".join(f"{token}\n" for token in vocabulary)
    (folder / "vocab.txt").write_text(vocab, encoding="utf-8")


def _write_modules(folder: Path, pooling: str, hidden: int, *, normalize: bool) -> None:
    kinds = ["Transformer", "Pooling", *(["Normalize"] if normalize else [])]
    modules = [
        {
            "idx": number,
            "name": str(number),
            "path": f"{number}_{kind}" if number else "",
            "type": f"sentence_transformers.models.{kind}",
        }
        for number, kind in enumerate(kinds)
    ]
    _write_json(folder / "modules.json", modules)
    switches = {key: mode == pooling for mode, key in _MODES.items()}
    config = {"word_embedding_dimension": hidden, **switches}
    _write_json(folder / "1_Pooling" / "config.json", config)


def _write_json(path: Path, value: object) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(value, indent=2), encoding="utf-8")


def _write_weights(
    folder: Path, *, vocab: int, hidden: int, layers: int, rows: int, seed: int
) -> None:
    """Random weights, large enough that texts of different words lie far apart."""
    from safetensors.numpy import save_file

    rng = np.random.default_rng(seed)
    shapes: dict[str, tuple[int, ...]] = {
        "embeddings.word_embeddings.weight": (vocab, hidden),
        "embeddings.position_embeddings.weight": (rows, hidden),
        "embeddings.token_type_embeddings.weight": (2, hidden),
    }
    norms = ["embeddings.LayerNorm"]
    linears = {"pooler.dense": (hidden, hidden)}
    for layer in range(layers):
        at = f"encoder.layer.{layer}."
        square = ("attention.self.query", "attention.self.key", "attention.self.value")
        linears |= {at + name: (hidden, hidden) for name in (*square, "attention.output.dense")}
        linears[f"{at}intermediate.dense"] = (4 * hidden, hidden)
        linears[f"{at}output.dense"] = (hidden, 4 * hidden)
        norms += [f"{at}attention.output.LayerNorm", f"{at}output.LayerNorm"]
    for name, shape in linears.items():
        shapes[f"{name}.weight"] = shape
        shapes[f"{name}.bias"] = (shape[0],)
    state = {n: rng.normal(scale=0.2, size=s).astype(np.float32) for n, s in shapes.items()}
    for name in norms:
        state[f"{name}.weight"] = rng.normal(1, 0.1, hidden).astype(np.float32)
        state[f"{name}.bias"] = rng.normal(0, 0.1, hidden).astype(np.float32)
    save_file(state, str(folder / "model.safetensors"), metadata={"format": "pt"})


class TableScorer:
    """A scorer that looks each passage's score up, so that a rerank's outcome is known.

    Args:
        scores: {text of a passage: its logit}; a text that is not there scores 0.

    Attributes:
        asked: The pairs that it was asked for.
        calls: How often it was asked.

    Examples:
        >>> TableScorer({"cats purr": 2.5}).score([("which animal purrs?", "cats purr")])
        array([2.5], dtype=float32)
    """

    score_kind: ScoreKind = "logit"

    def __init__(self, scores: Mapping[str, float]) -> None:
        self.scores = scores
        self.asked: list[tuple[str, str]] = []
        self.calls = 0

    def score(self, pairs: Iterable[tuple[str, str]]) -> npt.NDArray[np.float32]:
        """Scores float32 (n,)."""
        given = list(pairs)
        self.asked += given
        self.calls += 1
        return np.array([self.scores.get(text, 0.0) for _, text in given], dtype=np.float32)


class HashEncoder:
    """A bag of hashed words, of length 1: the same words give the same vector. Needs no torch.

    Args:
        dim: Width of the vectors.

    Examples:
        >>> encoder = HashEncoder(dim=64)
        >>> left, right = encoder.encode_passages(["cats purr", "Purr, cats!"])
        >>> round(float(left @ right), 3)
        1.0
    """

    def __init__(self, dim: int = 64) -> None:
        self._dim = dim

    @property
    def dim(self) -> int:
        """Width of the vectors."""
        return self._dim

    @property
    def identity(self) -> ModelIdentity:
        """What a collection remembers of it."""
        return ModelIdentity(name="HashEncoder", dim=self._dim, normalize=True, weights="hash-v1")

    def encode_queries(self, texts: Iterable[str]) -> Vectors:
        """Encode questions: float32 (n, dim)."""
        return self.encode_passages(texts)

    def encode_passages(self, texts: Iterable[str]) -> Vectors:
        """Encode passages: float32 (n, dim)."""
        if isinstance(texts, str):
            raise InputTypeError(
                "texts is a single str, expected an iterable of str: wrap it in a list"
            )
        rows = [self._vector(text) for text in texts]
        return np.array(rows, dtype=np.float32).reshape(len(rows), self._dim)

    def _vector(self, text: str) -> npt.NDArray[np.float64]:
        """Each word adds 1 or -1 in one dimension; a text without words is the first axis."""
        vector = np.zeros(self._dim)
        for word in re.findall(r"\w+", text.casefold()):
            number = int.from_bytes(hashlib.blake2b(word.encode(), digest_size=8).digest(), "big")
            vector[number // 2 % self._dim] += 1 if number % 2 else -1
        length = np.linalg.norm(vector)
        return vector / length if length else np.eye(self._dim)[0]


class MixedVectors(NamedTuple):
    """Vectors to index and vectors to ask with.

    Args:
        vectors: float32 (n, dim), each of length 1.
        queries: float32 (queries, dim), each of length 1, made like the others and not in them.
    """

    vectors: Vectors
    queries: Vectors


def mixed_vectors(
    base: Vectors, n: int, *, noise: float = 0.1, queries: int = 200, seed: int = 0
) -> MixedVectors:
    """Many vectors out of a few real ones, for benchmarks of an index.

    Each is t * a + (1 - t) * b of a random pair (a, b) of real vectors, t uniform in 0 to 1, set
    to length 1, plus Gaussian noise whose expected length is `noise`, and set to length 1 again.
    Real vectors lie in clusters; plain Gaussian ones do not and are far harder to index.

    Args:
        base: Real vectors (m, dim).
        n: How many to make.
        noise: Expected length of what is added; 0 adds nothing.
        queries: How many to hold out.
        seed: The same seed gives the same vectors.

    Examples:
        >>> made = mixed_vectors(np.eye(4, dtype=np.float32), 10, queries=2)
        >>> made.vectors.shape, made.queries.shape
        ((10, 4), (2, 4))
    """
    out = np.empty((n + queries, base.shape[1]), dtype=np.float32)
    start = 0
    for block in mixed_blocks(base, len(out), noise=noise, seed=seed):
        out[start : start + len(block)] = block
        start += len(block)
    return MixedVectors(out[:n], out[n:])


def mixed_blocks(base: Vectors, n: int, *, noise: float = 0.1, seed: int = 0) -> Iterator[Vectors]:
    """The vectors of `mixed_vectors` in blocks, for more of them than memory should hold.

    Args:
        base: Real vectors (m, dim).
        n: How many to make.
        noise: Expected length of what is added; 0 adds nothing.
        seed: The same seed gives the same vectors.

    Yields:
        float32 (8192, dim), the last one what is left; each row of length 1.

    Examples:
        >>> base = np.eye(4, dtype=np.float32)
        >>> [len(block) for block in mixed_blocks(base, 10_000)]
        [8192, 1808]
    """
    rng = np.random.default_rng(seed)
    scale = np.float32(noise / np.sqrt(base.shape[1]))
    for start in range(0, n, _BLOCK):
        rows = min(_BLOCK, n - start)
        pairs = rng.integers(len(base), size=(2, rows))
        share = rng.random((rows, 1), dtype=np.float32)
        mixed = unit_rows(share * base[pairs[0]] + (1 - share) * base[pairs[1]])
        drawn = rng.standard_normal((rows, base.shape[1]), dtype=np.float32)
        yield unit_rows(mixed + scale * drawn)
