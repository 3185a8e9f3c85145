"""Two texts to the token ids of one pair, cut on the passage's side to what the model reads."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from tokenizers import Encoding

from sbert_retriever.encoder.batching import TokenIds
from sbert_retriever.encoder.tokenizer import TextTokenizer
from sbert_retriever.errors import InputTypeError

Pair = tuple[str, str]
"""A query and a passage."""

_PAIRS = 4096
_CHARACTERS = 4 << 20
_PASSAGE_TOKENS = 32
"""A query that would leave a passage fewer tokens than this is cut itself."""
_OVERLAP = 4
"""Windows over a long passage share about this part of their length."""


@dataclass(frozen=True)
class PairTemplate:
    """The special tokens around and between two texts, and the type of each section.

    Args:
        before: Before the query.
        between: Between the two.
        after: After the passage.
        types: Type ids of before, query, between, passage, after.
    """

    before: TokenIds
    between: TokenIds
    after: TokenIds
    types: tuple[npt.NDArray[np.int32], int, npt.NDArray[np.int32], int, npt.NDArray[np.int32]]

    @property
    def specials(self) -> int:
        """How many special tokens a pair has."""
        return len(self.before) + len(self.between) + len(self.after)

    @property
    def typed(self) -> bool:
        """Whether any token is of another type than 0."""
        return any(np.any(types) for types in self.types)

    def ids(self, query: TokenIds, passage: TokenIds) -> TokenIds:
        """The pair's token ids."""
        return np.concatenate([self.before, query, self.between, passage, self.after])

    def type_ids(self, query: TokenIds, passage: TokenIds) -> TokenIds:
        """The pair's type ids, as long as its token ids."""
        before, first, between, second, after = self.types
        sections = (
            before,
            np.full(len(query), first, np.int32),
            between,
            np.full(len(passage), second, np.int32),
            after,
        )
        return np.concatenate(sections)


def pair_template(example: Encoding) -> PairTemplate:
    """Read the special tokens off a pair that the tokenizer has put together."""
    sequence = example.sequence_ids
    first, second = ([i for i, s in enumerate(sequence) if s == n] for n in (0, 1))
    ids, types = (np.array(x, dtype=np.int32) for x in (example.ids, example.type_ids))
    before, after = slice(None, first[0]), slice(second[-1] + 1, None)
    between = slice(first[-1] + 1, second[0])
    kinds = (types[before], int(types[first[0]]), types[between], int(types[second[0]]))
    return PairTemplate(ids[before], ids[between], ids[after], (*kinds, types[after]))


@dataclass(frozen=True)
class PairTokens:
    """The token ids of some pairs. A pair is one row, or several where its passage has windows.

    Args:
        ids: One array a row, special tokens included.
        type_ids: As `ids`; None where all tokens are of type 0.
        pairs: Which pair a row is of: int64 (rows,), ascending.
        counts: Tokens of each pair before anything was cut: int64 (n,).
        truncated: Which pairs have tokens that no row holds: bool (n,).
    """

    ids: list[TokenIds]
    type_ids: list[TokenIds] | None
    pairs: npt.NDArray[np.int64]
    counts: npt.NDArray[np.int64]
    truncated: npt.NDArray[np.bool_]

    @property
    def lengths(self) -> npt.NDArray[np.int64]:
        """Tokens that the model reads of each pair, all its rows together: int64 (n,)."""
        lengths = np.zeros(len(self.counts), dtype=np.int64)
        np.add.at(lengths, self.pairs, [len(ids) for ids in self.ids])
        return lengths

    @property
    def row_counts(self) -> npt.NDArray[np.int64]:
        """How many rows each pair has: int64 (n,)."""
        return np.bincount(self.pairs, minlength=len(self.counts))

    def rows_of(self, pairs: Sequence[int]) -> list[int]:
        """The rows of some pairs, in the order of the pairs."""
        starts = np.searchsorted(self.pairs, np.arange(len(self.counts) + 1))
        return [row for pair in pairs for row in range(starts[pair], starts[pair + 1])]


@dataclass(frozen=True)
class PairTokenizer:
    """Pairs to token ids; many threads may use it.

    Args:
        texts: The tokenizer of single texts.
        template: What it puts around pairs.
        windowed: Whether a passage that does not fit is read in windows and not cut.
    """

    texts: TextTokenizer
    template: PairTemplate
    windowed: bool = False

    def encode(self, pairs: Sequence[Pair], *, max_length: int | None) -> PairTokens:
        """Token ids of each pair; a text that is in several is tokenised once.

        Args:
            pairs: Queries and passages.
            max_length: Tokens a pair may have, special ones included; None is without limit.

        Raises:
            InputError: A text holds a lone surrogate, which is no character.
        """
        unique = list(dict.fromkeys(text for pair in pairs for text in pair))
        pieces = dict(zip(unique, self.texts.pieces(unique), strict=True))
        cut = [self._cut(pieces[query], pieces[text], max_length) for query, text in pairs]
        rows = [(i, query, part) for i, (query, parts, _) in enumerate(cut) for part in parts]
        sizes = [len(pieces[query]) + len(pieces[text]) for query, text in pairs]
        make = self.template
        return PairTokens(
            ids=[make.ids(query, part) for _, query, part in rows],
            type_ids=[make.type_ids(query, part) for _, query, part in rows]
            if make.typed
            else None,
            pairs=np.array([i for i, _, _ in rows], dtype=np.int64),
            counts=np.array(sizes, dtype=np.int64) + make.specials,
            truncated=np.array([lost for _, _, lost in cut], dtype=bool),
        )

    def _cut(
        self, query: TokenIds, passage: TokenIds, max_length: int | None
    ) -> tuple[TokenIds, list[TokenIds], bool]:
        """What is kept of the query, the parts of the passage, and whether anything is lost."""
        room = None if max_length is None else max_length - self.template.specials
        if room is None or len(query) + len(passage) <= room:
            return query, [passage], False
        kept = query[: room - min(len(passage), _PASSAGE_TOKENS, room // 2)]
        space = room - len(kept)
        if self.windowed:
            return kept, window_parts(passage, space), len(kept) < len(query)
        return kept, [passage[:space]], True


def window_parts(passage: TokenIds, size: int) -> list[TokenIds]:
    """Windows of at most `size` tokens, evenly spread, of which neighbours overlap.

    Examples:
        >>> [part.tolist() for part in window_parts(np.arange(10), 6)]
        [[0, 1, 2, 3, 4, 5], [4, 5, 6, 7, 8, 9]]
    """
    if len(passage) <= size:
        return [passage]
    step = max(1, size - size // _OVERLAP)
    count = 1 + -(-(len(passage) - size) // step)
    starts = np.linspace(0, len(passage) - size, count).astype(int)
    return [passage[start : start + size] for start in starts]


def checked_pairs(pairs: Iterable[Pair]) -> Iterable[Pair]:
    """The pairs, of which a list or tuple is checked whole, and an iterator as it is read.

    Raises:
        InputTypeError: It is one str, or no iterable, or an entry of a list is no pair of str.
    """
    if isinstance(pairs, str | bytes | bytearray) or not isinstance(pairs, Iterable):
        raise InputTypeError(
            f"pairs is {type(pairs).__name__}, expected an iterable of (query, passage): put one "
            "pair into a list"
        )
    if isinstance(pairs, list | tuple):
        for position, pair in enumerate(pairs):
            _check(pair, position)
    return pairs


def _check(pair: object, position: int) -> None:
    if not isinstance(pair, tuple | list):
        raise InputTypeError(
            f"pairs[{position}] is {type(pair).__name__}, expected a tuple (query, passage)"
        )
    if len(pair) != 2:
        raise InputTypeError(f"pairs[{position}] has {len(pair)} entries, expected 2 str")
    for side, text in zip(("query", "passage"), pair, strict=True):
        if not isinstance(text, str):
            raise InputTypeError(
                f"the {side} of pairs[{position}] is {type(text).__name__}, expected str: "
                "convert or drop it"
            )


def pair_windows(pairs: Iterable[Pair]) -> Iterator[list[Pair]]:
    """Lists of pairs, bounded by their number and by their passages' characters.

    Raises:
        InputTypeError: An entry is no pair of str; the message names its position.
    """
    window: list[Pair] = []
    characters = 0
    for position, pair in enumerate(pairs):
        _check(pair, position)
        window.append((pair[0], pair[1]))
        characters += len(pair[1])
        if len(window) >= _PAIRS or characters >= _CHARACTERS:
            yield window
            window, characters = [], 0
    if window:
        yield window
