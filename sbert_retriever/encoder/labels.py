"""What a classifier's logits stand for, and one score a pair out of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
import numpy.typing as npt

from sbert_retriever.errors import InputError, InputTypeError

Scale: TypeAlias = Literal["logit", "probability"]
Logits: TypeAlias = npt.NDArray[np.float32]


@dataclass(frozen=True)
class Scoring:
    """From logits to one score a pair.

    Args:
        label: The index of the label whose score is wanted.
        labels: The names of all.
        independent: Whether labels do not exclude each other: each has its own sigmoid.
        scale: "logit" is log(p / (1 - p)) of the label's probability p, which for a one-label
            model is what the model gives; "probability" is p.
    """

    label: int
    labels: tuple[str, ...]
    independent: bool
    scale: Scale

    def __call__(self, logits: Logits) -> Logits:
        """Scores (n,) float32 of logits (n, labels) float32."""
        odds = logits[:, self.label]
        if len(self.labels) > 1 and not self.independent:
            others = np.delete(logits, self.label, axis=1)
            top = others.max(axis=1, initial=-np.inf)
            odds = odds - top - np.log(np.exp(others - top[:, None]).sum(axis=1))
        scores: Logits = odds if self.scale == "logit" else sigmoid(odds)
        return scores.astype(np.float32)


def sigmoid(logits: Logits) -> Logits:
    """1 / (1 + exp(-x)) in float32, without overflow.

    Examples:
        >>> sigmoid(np.array([-200, 0, 200], dtype=np.float32)).tolist()
        [0.0, 0.5, 1.0]
    """
    small = np.exp(-np.abs(logits))
    values: Logits = np.where(logits >= 0, 1, small) / (1 + small)
    return values.astype(np.float32)


def read_scoring(
    config: Mapping[str, Any], *, name: str, label: int | str | None, scale: Scale
) -> Scoring:
    """What a config.json says of the labels, with the label that the caller wants.

    Raises:
        InputError: No such label or scale, or none was named for a model that has several.
        InputTypeError: The label is neither a number nor a name.
    """
    if scale not in get_args(Scale):
        raise InputError(f"scale={scale!r}, expected 'logit' or 'probability'")
    labels = label_names(config)
    chosen = _index(labels, label, name)
    independent = config.get("problem_type") == "multi_label_classification"
    return Scoring(chosen, labels, independent, scale)


def label_names(config: Mapping[str, Any]) -> tuple[str, ...]:
    """The labels in the order of the logits; transformers' own default is two."""
    names = config.get("id2label")
    if isinstance(names, Mapping) and names:
        return tuple(str(names[key]) for key in sorted(names, key=int))
    count = config.get("num_labels")
    return tuple(f"LABEL_{i}" for i in range(count if isinstance(count, int) else 2))


def _index(labels: tuple[str, ...], label: int | str | None, name: str) -> int:
    known = ", ".join(f"{i} {label!r}" for i, label in enumerate(labels))
    if label is None:
        if len(labels) == 1:
            return 0
        raise InputError(
            f"{name} has {len(labels)} labels ({known}), and a score is of one: give label=, an "
            "index or a name"
        )
    if isinstance(label, bool) or not isinstance(label, int | str):
        raise InputTypeError(f"label is {label!r}, expected an index or a name")
    if isinstance(label, int) and 0 <= label < len(labels):
        return label
    folded = [name.casefold() for name in labels]
    if isinstance(label, str) and folded.count(label.casefold()) == 1:
        return folded.index(label.casefold())
    raise InputError(f"label={label!r}, and {name} has {known}")
