"""The examples of a step, and pairs made of single texts."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from torch.utils.data import Dataset

from sbert_retriever.training.kinds import View
from sbert_retriever.training.readers.examples import Example


class Examples(Dataset[Example]):
    """Examples by position, seen through a view that is drawn from seed, epoch and position.

    Args:
        examples: All of them.
        view: "crops": two crops of each text (Contriever); "twice": the text twice, which dropout
            then tells apart (SimCSE); None leaves each as it is.
        crop: The least and the most share of a text's words in a crop.
        seed: Of the crops.

    Attributes:
        epoch: Its number; `Batches` draw by it too: a loader that deals batches out to several
            processes, and goes on in the middle of an epoch, tells it to the examples alone.
    """

    def __init__(
        self,
        examples: Sequence[Example],
        *,
        view: View | None = None,
        crop: tuple[float, float] = (0.1, 0.5),
        seed: int = 0,
    ) -> None:
        self.all = examples
        self._view = view
        self._crop = crop
        self._seed = seed
        self.epoch = 0

    def set_epoch(self, epoch: int) -> None:
        """Draw as in that epoch."""
        self.epoch = epoch

    def __len__(self) -> int:
        return len(self.all)

    def __getitem__(self, position: int) -> Example:
        example = self.all[position]
        if self._view is None:
            return example
        text = example.texts[0]
        if self._view == "twice":
            return Example((text, text))
        rng = np.random.default_rng((self._seed, self.epoch, position))
        return Example((cropped(text, self._crop, rng), cropped(text, self._crop, rng)))


def cropped(text: str, share: tuple[float, float], rng: np.random.Generator) -> str:
    """Words of a text that follow each other: Contriever's independent cropping.

    Izacard et al. 2022, section 3.2. The share of words is drawn evenly, then the place; one word
    is the least.

    Args:
        text: Split at white space.
        share: The least and the most share of its words.
        rng: What draws.

    Examples:
        >>> cropped("a b c d", (0.5, 0.5), np.random.default_rng(0)) in ("a b", "b c", "c d")
        True
    """
    words = text.split()
    count = max(1, round(len(words) * rng.uniform(*share)))
    start = int(rng.integers(0, len(words) - count + 1))
    return " ".join(words[start : start + count])
