"""Models that are being trained, as the evaluation takes models: texts to vectors, pairs to scores.

In float32, whatever the training runs in, and without dropout where the model is set to `eval`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from sbert_retriever.training.collating import CollatePairs, text_column
from sbert_retriever.training.models import PairModel, TextModel, Tokenised, TwoTowers
from sbert_retriever.training.readers.examples import Example
from sbert_retriever.types import ModelIdentity, Role

if TYPE_CHECKING:
    from sbert_retriever.types import Vectors

_BATCH = 64


class LiveEncoder:
    """A bi-encoder, or two, in training.

    Args:
        model: Its weights are read when texts are encoded.
    """

    def __init__(self, model: TextModel | TwoTowers) -> None:
        towers = (model.query, model.passage) if isinstance(model, TwoTowers) else (model, model)
        self._towers: dict[Role, TextModel] = {"query": towers[0], "passage": towers[1]}
        self.dim = model.width
        self.identity = ModelIdentity(
            name=None, dim=self.dim, similarity=towers[1].checkpoint.similarity
        )

    def encode_queries(self, texts: Iterable[str]) -> Vectors:
        """Vectors of questions: float32 (n, dim)."""
        return self._encoded(list(texts), "query")

    def encode_passages(self, texts: Iterable[str]) -> Vectors:
        """Vectors of passages: float32 (n, dim)."""
        return self._encoded(list(texts), "passage")

    def _encoded(self, texts: list[str], role: Role) -> Vectors:
        tower = self._towers[role]
        return _in_batches(texts, tower, lambda part: text_column(tower, part, role), self.dim)


class LiveScorer:
    """A cross-encoder of one score in training.

    Args:
        model: Its weights are read when pairs are scored.
    """

    def __init__(self, model: PairModel) -> None:
        self._model = model
        self._collate = CollatePairs(model, graded=False)

    def score(self, pairs: Iterable[tuple[str, str]]) -> npt.NDArray[np.float32]:
        """The logit of each pair: float32 (n,)."""
        return _in_batches(list(pairs), self._model, self._column, 1)[:, 0]

    def _column(self, pairs: Sequence[tuple[str, str]]) -> Tokenised:
        (column,) = self._collate([Example(pair) for pair in pairs])["columns"]
        made: Tokenised = column
        return made


@torch.no_grad()
def _in_batches(
    texts: Sequence[Any], model: nn.Module, column: Callable[[list[Any]], Tokenised], width: int
) -> npt.NDArray[np.float32]:
    """Rows float32 (n, width), the longest texts first so that batches have little padding."""
    device = next(model.parameters()).device
    rows = np.zeros((len(texts), width), dtype=np.float32)
    lengths = [sum(map(len, text)) for text in texts]
    order = sorted(range(len(texts)), key=lengths.__getitem__, reverse=True)
    for start in range(0, len(order), _BATCH):
        places = order[start : start + _BATCH]
        read = column([texts[place] for place in places])
        vectors = model(
            read._replace(
                ids=read.ids.to(device),
                mask=read.mask.to(device),
                types=None if read.types is None else read.types.to(device),
            )
        )
        rows[places] = vectors.float().cpu().numpy()
    return rows
