"""When the rest of the candidates is not worth the time."""

from __future__ import annotations

from sbert_retriever.rerank.options import RerankOptions
from sbert_retriever.types import Hit


class Settled:
    """Whether the first k have stayed the same for long enough.

    Args:
        asked: With an early stop, or none.
    """

    def __init__(self, asked: RerankOptions) -> None:
        stop = asked.early_stop
        self._wanted = None if stop is None else stop.stable_batches
        self._first = asked.first
        self._before: list[int] | None = None
        self._same = 0

    @property
    def yet(self) -> bool:
        """Whether the rest may be left unscored."""
        return self._wanted is not None and self._same >= self._wanted

    def see(self, order: list[int]) -> None:
        """Look at the order after another batch."""
        first = order[: self._first]
        self._same = self._same + 1 if first == self._before else 0
        self._before = first


def worth_scoring(head: list[Hit], asked: RerankOptions) -> list[Hit]:
    """The candidates down to the first whose score is too far below that of the k-th."""
    margin = asked.early_stop.margin if asked.early_stop is not None else None
    first = asked.first
    if margin is None or not first or first > len(head):
        return head
    least = head[first - 1].score - margin
    return head[: next((i for i, hit in enumerate(head) if hit.score < least), None)]
