"""The cases, each measured for all contenders that have something for it, in turn."""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from sbert_retriever.bench.contenders import OURS, Contender, Filled, Pairs
from sbert_retriever.bench.measure import Ask, Measured, in_turn, medians_in_turn
from sbert_retriever.bench.texts import Texts
from sbert_retriever.errors import InputError

CALLERS = 16
_SHORT, _LONG, _MIXED, _PAIRS, _PASSAGES, _QUESTIONS = 512, 48, 192, 64, 128, 64
_PER_CALLER = 16


@dataclass(frozen=True, kw_only=True)
class Bench:
    """What all cases share.

    Args:
        contenders: This library first.
        texts: What is encoded.
        rounds: How often each case is timed, after one round that is not.
        scale: How many texts, as a share of the usual.
        on_note: Told before each case.
    """

    contenders: Sequence[Contender]
    texts: Texts
    rounds: int = 5
    scale: float = 1.0
    on_note: Callable[[str], None] = field(default=lambda _: None)

    def some(self, texts: Sequence[str], number: int) -> list[str]:
        """The first of the texts, as many as the scale says."""
        return list(texts[: max(2, round(number * self.scale))])


def encode_short(bench: Bench) -> list[Measured]:
    """Single sentences."""
    return _encode(bench, "encode-short", bench.some(bench.texts.short, _SHORT))


def encode_long(bench: Bench) -> list[Measured]:
    """Texts of about 250 tokens."""
    return _encode(bench, "encode-long", bench.some(bench.texts.long, _LONG))


def encode_mixed(bench: Bench) -> list[Measured]:
    """Texts of one to 250 tokens in one call."""
    return _encode(bench, "encode-mixed", bench.some(bench.texts.mixed, _MIXED))


def rerank(bench: Bench) -> list[Measured]:
    """A question against passages of every length."""
    passages = bench.some(bench.texts.mixed, _PAIRS)
    pairs: Pairs = [(bench.texts.questions[0], passage) for passage in passages]
    tasks = {c.name: _call(c.rerank, pairs) for c in bench.contenders if c.rerank is not None}
    return _rates(bench, "rerank", "pairs/s", tasks, len(pairs))


def index(bench: Bench) -> list[Measured]:
    """Into a new collection in a folder, beside encoding the same passages alone."""
    passages = bench.some(bench.texts.long, _PASSAGES)
    with tempfile.TemporaryDirectory(prefix="sbert-bench-") as scratch:
        places = (Path(scratch, str(n)) for n in itertools.count())
        tasks = {
            c.name: _indexing(c.index, passages, places)
            for c in bench.contenders
            if c.index is not None
        }
        ours = bench.contenders[0]
        if ours.encode is not None:
            tasks[f"{ours.name}, encoding alone"] = _call(ours.encode, passages)
        return _rates(bench, "index", "passages/s", tasks, len(passages))


def query(bench: Bench) -> list[Measured]:
    """One question after the other, beside encoding the same questions one by one."""
    questions = bench.some(bench.texts.questions, _QUESTIONS)
    with _collections(bench) as asks:
        encode = bench.contenders[0].encode_queries
        if encode is not None:
            asks[f"{OURS}, encoding alone"] = lambda question: encode([question])
        medians = medians_in_turn(asks, questions, rounds=bench.rounds)
    return _measured("query", "questions/s by the median", medians, 1)


def concurrent(bench: Bench) -> list[Measured]:
    """Sixteen callers at a time, each with questions of its own, beside one caller."""
    total = CALLERS * max(1, round(_PER_CALLER * bench.scale))
    questions = list(itertools.islice(itertools.cycle(bench.texts.questions), total))
    with _collections(bench) as asks, ThreadPoolExecutor(CALLERS) as pool:
        tasks: dict[str, Callable[[], object]] = {}
        for name, ask in asks.items():
            tasks[f"{name}, {CALLERS} callers"] = _at_once(pool, ask, questions)
            tasks[f"{name}, one caller"] = _one_by_one(ask, questions)
        return _rates(bench, "concurrent", "questions/s", tasks, total)


CASES: dict[str, Callable[[Bench], list[Measured]]] = {
    "encode-short": encode_short,
    "encode-long": encode_long,
    "encode-mixed": encode_mixed,
    "rerank": rerank,
    "index": index,
    "query": query,
    "concurrent": concurrent,
}


def run(bench: Bench, names: Sequence[str]) -> list[Measured]:
    """Measure the named cases.

    Raises:
        InputError: A case has another name.
    """
    unknown = [name for name in names if name not in CASES]
    if unknown:
        raise InputError(f"there is no case {unknown[0]!r}: choose among {', '.join(CASES)}")
    found: list[Measured] = []
    for name in names:
        bench.on_note(f"measuring {name}")
        found += CASES[name](bench)
    return found


def _encode(bench: Bench, case: str, texts: list[str]) -> list[Measured]:
    tasks = {c.name: _call(c.encode, texts) for c in bench.contenders if c.encode is not None}
    return _rates(bench, case, "texts/s", tasks, len(texts))


def _rates(
    bench: Bench, case: str, unit: str, tasks: Mapping[str, Callable[[], object]], number: int
) -> list[Measured]:
    return _measured(case, unit, in_turn(tasks, rounds=bench.rounds), number)


def _measured(
    case: str, unit: str, seconds: Mapping[str, Sequence[float]], number: int
) -> list[Measured]:
    return [
        Measured(case=case, contender=name, unit=unit, rates=tuple(number / s for s in spent))
        for name, spent in seconds.items()
    ]


def _call(function: Callable[..., object], argument: object) -> Callable[[], object]:
    return lambda: function(argument)


def _indexing(
    index: Callable[[list[str], Path], Filled], passages: list[str], places: Iterator[Path]
) -> Callable[[], object]:
    return lambda: index(passages, next(places)).close()


def _one_by_one(ask: Ask, questions: Sequence[str]) -> Callable[[], object]:
    return lambda: [ask(question) for question in questions]


def _at_once(pool: ThreadPoolExecutor, ask: Ask, questions: Sequence[str]) -> Callable[[], object]:
    return lambda: list(pool.map(ask, questions))


@contextmanager
def _collections(bench: Bench) -> Iterator[dict[str, Ask]]:
    """What asks each contender's collection of the same sentences."""
    passages = bench.some(bench.texts.short, 4 * _SHORT)
    with tempfile.TemporaryDirectory(prefix="sbert-bench-") as scratch, ExitStack() as stack:
        asks: dict[str, Ask] = {}
        for contender in bench.contenders:
            if contender.index is not None:
                filled = contender.index(passages, Path(scratch, contender.name))
                stack.callback(filled.close)
                asks[contender.name] = filled.ask
        yield asks
