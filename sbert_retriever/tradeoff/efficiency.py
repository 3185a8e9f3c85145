"""The paper's headline: the most similar pair among n sentences (Reimers and Gurevych, section 1).

The bi-encoder does it for real: n sentences through the model, then all pairs by blocked matrix
products. The cross-encoder would need n(n-1)/2 passes: it is timed on a random sample of the
pairs, whose lengths are those of all pairs, and the rest is arithmetic, and said to be.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from time import perf_counter

import numpy as np

from sbert_retriever.errors import InputError
from sbert_retriever.mining import SimilarPair, most_similar_pairs
from sbert_retriever.tradeoff.machine import machine
from sbert_retriever.types import Encoder, Scorer

PAPER_SENTENCES = 10_000
PAPER_CROSS_ENCODER_S = 65 * 3600.0
PAPER_ENCODE_S = 5.0
PAPER_COMPARE_S = 0.01
_WARM_UP = 32
_PARTS = 5


@dataclass(frozen=True, kw_only=True)
class EfficiencyReport:
    """Both ways to the most similar pair, and what they cost. Times are seconds.

    Args:
        sentences: How many, all different.
        pairs: How many pairs they make.
        encode_s: The bi-encoder over all sentences.
        compare_s: All pairs by matrix products, and the best of them.
        cross_encoder_s: The cross-encoder over all pairs, extrapolated from the sample.
        cross_encoder_range_s: The same from the fastest and from the slowest part of the sample.
        sampled_pairs: How many pairs the cross-encoder was timed on.
        sampled_s: What they took.
        best: The most similar pair, by the bi-encoder: both sentences and their score.
        bi_encoder: Its name and floating type.
        cross_encoder: Its name and floating type.
        machine: In words.
    """

    sentences: int
    pairs: int
    encode_s: float
    compare_s: float
    cross_encoder_s: float
    cross_encoder_range_s: tuple[float, float]
    sampled_pairs: int
    sampled_s: float
    best: tuple[str, str, float]
    bi_encoder: str
    cross_encoder: str
    machine: str

    @property
    def bi_encoder_s(self) -> float:
        """Encoding and comparing."""
        return self.encode_s + self.compare_s

    @property
    def ratio(self) -> float:
        """How many times longer the cross-encoder would take."""
        return self.cross_encoder_s / self.bi_encoder_s

    def to_json(self) -> str:
        """All fields, with the paper's beside them."""
        paper = {
            "sentences": PAPER_SENTENCES,
            "encode_s": PAPER_ENCODE_S,
            "compare_s": PAPER_COMPARE_S,
            "cross_encoder_s": PAPER_CROSS_ENCODER_S,
            "ratio": PAPER_CROSS_ENCODER_S / (PAPER_ENCODE_S + PAPER_COMPARE_S),
        }
        own = {**asdict(self), "bi_encoder_s": self.bi_encoder_s, "ratio": self.ratio}
        return json.dumps({**own, "extrapolated": ["cross_encoder_s"], "paper": paper}, indent=2)

    def table(self) -> str:
        """Both ways, here and in the paper."""
        paper_s = PAPER_ENCODE_S + PAPER_COMPARE_S
        low, high = self.cross_encoder_range_s
        rows = [
            ("", "here", "the paper (one V100)"),
            ("sentences", f"{self.sentences:,}", f"{PAPER_SENTENCES:,}"),
            ("pairs", f"{self.pairs:,}", f"{_pairs(PAPER_SENTENCES):,}"),
            ("bi-encoder: encode", duration(self.encode_s), f"about {duration(PAPER_ENCODE_S)}"),
            (
                "bi-encoder: compare all pairs",
                duration(self.compare_s),
                f"about {duration(PAPER_COMPARE_S)}",
            ),
            (
                "cross-encoder, extrapolated",
                duration(self.cross_encoder_s),
                f"about {duration(PAPER_CROSS_ENCODER_S)}",
            ),
            (
                "times longer",
                f"{self.ratio:,.0f}",
                f"about {PAPER_CROSS_ENCODER_S / paper_s:,.0f}",
            ),
        ]
        widths = [max(len(row[column]) for row in rows) for column in (0, 1)]
        lines = [f"{a:<{widths[0]}}  {b:>{widths[1]}}  {c}".rstrip() for a, b, c in rows]
        first, second, score = self.best
        return "\n".join(
            [
                *lines,
                "",
                f"The cross-encoder was timed on {self.sampled_pairs:,} random pairs "
                f"({duration(self.sampled_s)}); its fastest and slowest fifth give "
                f"{duration(low)} to {duration(high)} for all.",
                f"Most similar ({score:.4f}):",
                f"  {first}",
                f"  {second}",
                f"{self.bi_encoder}; {self.cross_encoder}; {self.machine}",
            ]
        )


def paper_efficiency(
    sentences: Sequence[str],
    encoder: Encoder,
    scorer: Scorer,
    *,
    sample: int = 1000,
    seed: int = 0,
    on_note: Callable[[str], None] = lambda _: None,
    clock: Callable[[], float] = perf_counter,
) -> EfficiencyReport:
    """Measure both ways to the most similar pair of some sentences.

    Args:
        sentences: All different.
        encoder: The bi-encoder.
        scorer: The cross-encoder.
        sample: Pairs that the cross-encoder is timed on, at most all there are.
        seed: Of the sample.
        on_note: Told what is being done.
        clock: Gives seconds; one that stands still while models wait for others leaves that out.

    Raises:
        InputError: Fewer than two sentences, or one comes twice, or the sample is below 1.
    """
    if len(sentences) < 2 or len(set(sentences)) < len(sentences):
        raise InputError(
            f"{len(sentences)} sentences, {len(set(sentences))} of them different: give 2 or more, "
            "all different"
        )
    if sample < 1:
        raise InputError(f"the sample is {sample} pairs, expected 1 or more")
    on_note(f"encoding {len(sentences):,} sentences")
    encode_s, compare_s, best = _by_bi_encoder(sentences, encoder, clock)
    pairs = _sampled(sentences, sample, seed)
    on_note(f"scoring {len(pairs):,} of {_pairs(len(sentences)):,} pairs with the cross-encoder")
    seconds = _timed_parts(pairs, scorer, clock)
    counts = [len(part) for part in _parts(pairs)]
    rates = [taken / count for taken, count in zip(seconds, counts, strict=True)]
    total = _pairs(len(sentences))
    return EfficiencyReport(
        sentences=len(sentences),
        pairs=total,
        encode_s=encode_s,
        compare_s=compare_s,
        cross_encoder_s=sum(seconds) / len(pairs) * total,
        cross_encoder_range_s=(min(rates) * total, max(rates) * total),
        sampled_pairs=len(pairs),
        sampled_s=sum(seconds),
        best=(sentences[best.i], sentences[best.j], best.score),
        bi_encoder=described(encoder),
        cross_encoder=described(scorer),
        machine=machine(),
    )


def _by_bi_encoder(
    sentences: Sequence[str], encoder: Encoder, clock: Callable[[], float]
) -> tuple[float, float, SimilarPair]:
    """Seconds to encode, seconds to compare, and the pair."""
    encoder.encode_passages(sentences[:_WARM_UP])
    started = clock()
    vectors = encoder.encode_passages(sentences)
    encoded = clock()
    best = most_similar_pairs(vectors)[0]
    return encoded - started, clock() - encoded, best


def _sampled(sentences: Sequence[str], count: int, seed: int) -> list[tuple[str, str]]:
    """Pairs of different sentences, drawn evenly from all, each once."""
    total = _pairs(len(sentences))
    rng = np.random.default_rng(seed)
    drawn = rng.choice(total, size=min(count, total), replace=False, shuffle=True)
    return [(sentences[i], sentences[j]) for i, j in map(_pair_number, drawn.tolist())]


def _pair_number(number: int) -> tuple[int, int]:
    """The pair (i, j), i < j, of that number in the order (0,1), (0,2), (1,2), (0,3), ...

    Examples:
        >>> [_pair_number(n) for n in range(4)]
        [(0, 1), (0, 2), (1, 2), (0, 3)]
    """
    j = int((1 + (1 + 8 * number) ** 0.5) / 2)
    j += (j * (j + 1) // 2 <= number) - (j * (j - 1) // 2 > number)
    return number - j * (j - 1) // 2, j


def _timed_parts(
    pairs: list[tuple[str, str]], scorer: Scorer, clock: Callable[[], float]
) -> list[float]:
    """Seconds of each part of the sample, after a warm-up."""
    scorer.score(pairs[:_WARM_UP])
    seconds = []
    for part in _parts(pairs):
        started = clock()
        scorer.score(part)
        seconds.append(clock() - started)
    return seconds


def _parts(pairs: list[tuple[str, str]]) -> list[list[tuple[str, str]]]:
    size = -(-len(pairs) // _PARTS)
    return [pairs[start : start + size] for start in range(0, len(pairs), size)]


def _pairs(n: int) -> int:
    return n * (n - 1) // 2


def described(model: object) -> str:
    """A model's name, floating type and device, as far as it tells them."""
    identity = getattr(model, "identity", None)
    name = getattr(identity, "name", None) or type(model).__name__
    told = [getattr(model, attribute, None) for attribute in ("dtype", "device")]
    precision = getattr(identity, "precision", None)
    stored = f"weights {precision}" if precision and precision != told[0] else None
    details = [str(value) for value in (*told, stored) if value]
    return f"{name} ({', '.join(details)})" if details else str(name)


def duration(seconds: float) -> str:
    """A time in the unit that suits it.

    Examples:
        >>> duration(0.0123), duration(5.0), duration(600), duration(234_000)
        ('12 ms', '5.0 s', '10 min', '65 h')
    """
    if seconds < 1:
        return f"{seconds * 1e3:.0f} ms" if seconds >= 0.01 else f"{seconds * 1e3:.1f} ms"
    if seconds < 300:
        return f"{seconds:.1f} s" if seconds < 100 else f"{seconds:.0f} s"
    if seconds < 3 * 3600:
        return f"{seconds / 60:.0f} min"
    hours = seconds / 3600
    return f"{hours:.0f} h" if hours < 1000 else f"{hours:,.0f} h"
