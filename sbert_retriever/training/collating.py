"""Examples to a batch: token ids of each column, and the targets."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from sbert_retriever.encoder.batching import TokenIds
from sbert_retriever.encoder.pairs import PairTokenizer, pair_template
from sbert_retriever.encoder.tokenizer import TextTokenizer
from sbert_retriever.training.models import PairModel, TextModel, Tokenised, TwoTowers
from sbert_retriever.training.readers.examples import Example, Target
from sbert_retriever.types import Role

Batch = dict[str, Any]
Collate = Callable[[Sequence[Example]], Batch]

_ASKING = frozenset({"in-batch", "triplet", "distil-margins"})
"""Objectives whose first column asks and whose others answer."""


class CollateTexts:
    """A batch for a bi-encoder: a column of token ids for each text of an example.

    Args:
        model: Whose tokenizer and prompts.
        objective: Its name, which says whether the first column holds queries.
    """

    def __init__(self, model: TextModel | TwoTowers, objective: str) -> None:
        towers = (model.query, model.passage) if isinstance(model, TwoTowers) else (model, model)
        self._towers = towers
        self._asks = objective in _ASKING or isinstance(model, TwoTowers)
        self._targets = repeated if objective == "in-batch" else _own_targets

    def __call__(self, examples: Sequence[Example]) -> Batch:
        """Columns and target."""
        columns = zip(*(example.texts for example in examples), strict=True)
        made = [self._column(number, list(texts)) for number, texts in enumerate(columns)]
        return {"columns": made, "target": self._targets(examples)}

    def _column(self, number: int, texts: list[str]) -> Tokenised:
        asks = self._asks and number == 0
        tower, role = self._towers[0 if asks else 1], "query" if asks else "passage"
        return text_column(tower, texts, role)  # type: ignore[arg-type]  # one of the two roles


def text_column(model: TextModel, texts: Sequence[str], role: Role) -> Tokenised:
    """Texts of a role as a model reads them."""
    prompt = model.checkpoint.prompt(role)
    ids = model.tokenizer.encode(texts, prompt=prompt).ids
    kept = 0 if model.checkpoint.include_prompt else model.tokenizer.prompt_length(prompt)
    grid, mask = padded(ids, model.tokenizer.pad_id)
    return Tokenised(grid, mask, None, kept)


class CollatePairs:
    """A batch for a cross-encoder: one column of pairs.

    An example of more than two texts is its query with each of the others.

    Args:
        model: Whose tokenizer.
        graded: Whether the first other text of a longer example is right (1) and the rest wrong
            (0); else the examples' own targets hold.
    """

    def __init__(self, model: PairModel, *, graded: bool) -> None:
        self._tokens = pair_tokenizer(model.tokenizer)
        self._pad_id = model.tokenizer.pad_id
        self._max_length = model.checkpoint.max_length
        self._prompt = model.checkpoint.prompts.get(model.checkpoint.default_prompt or "", "")
        self._graded = graded

    def __call__(self, examples: Sequence[Example]) -> Batch:
        """Columns and target."""
        pairs = [(self._prompt + e.texts[0], text) for e in examples for text in e.texts[1:]]
        tokens = self._tokens.encode(pairs, max_length=self._max_length)
        ids, mask = padded(tokens.ids, self._pad_id)
        types = None if tokens.type_ids is None else padded(tokens.type_ids, 0)[0]
        return {"columns": [Tokenised(ids, mask, types)], "target": self._targets(examples)}

    def _targets(self, examples: Sequence[Example]) -> Tensor | None:
        if not self._graded:
            return targets([example.target for example in examples])
        marks = [float(i == 0) for example in examples for i in range(len(example.texts) - 1)]
        return torch.tensor(marks)


def pair_tokenizer(tokenizer: TextTokenizer) -> PairTokenizer:
    """Pairs as `CrossEncoder` reads them."""
    return PairTokenizer(tokenizer, pair_template(tokenizer.example_pair()))


def padded(ids: Sequence[TokenIds], pad_id: int) -> tuple[Tensor, Tensor]:
    """Token ids (batch, length) int64 and a mask (batch, length) bool."""
    lengths = np.array([len(x) for x in ids])
    mask = np.arange(lengths.max()) < lengths[:, None]
    grid = np.full(mask.shape, pad_id, dtype=np.int64)
    grid[mask] = np.concatenate(ids)
    return torch.from_numpy(grid), torch.from_numpy(mask)


def repeated(examples: Sequence[Example]) -> Tensor | None:
    """Where a negative is one of its own example's passages again: bool (batch, negatives).

    A ranking with fewer negatives than an example has takes them in turn. None where there are
    no such.

    Examples:
        >>> repeated([Example(("q", "p", "n", "n")), Example(("q2", "p2", "n2", "p2"))])
        tensor([[False,  True],
                [False,  True]])
    """
    marks = [
        [text in e.texts[1:place] for place, text in enumerate(e.texts[2:], 2)] for e in examples
    ]
    return torch.tensor(marks) if any(map(any, marks)) else None


def _own_targets(examples: Sequence[Example]) -> Tensor | None:
    return targets([example.target for example in examples])


def targets(values: Sequence[Target]) -> Tensor | None:
    """Numbers of labels int64 (batch,), scores float32 (batch,), or rows float32 (batch, n)."""
    if values[0] is None:
        return None
    if isinstance(values[0], np.ndarray):
        return torch.from_numpy(np.stack(values))  # type: ignore[arg-type]  # all are alike
    return torch.tensor(values, dtype=torch.int64 if isinstance(values[0], int) else torch.float32)
