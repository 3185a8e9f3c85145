"""The model that is measured: one encoder, two, or a cross-encoder, whichever a name stands for."""

from __future__ import annotations

from dataclasses import dataclass

from sbert_retriever.encoder.bi_encoder import BiEncoder
from sbert_retriever.encoder.checkpoint import has_routes, read_checkpoint
from sbert_retriever.encoder.cross_encoder import CrossEncoder
from sbert_retriever.encoder.kinds import is_cross_encoder
from sbert_retriever.encoder.labels import label_names
from sbert_retriever.encoder.resolve import HubOptions, locate
from sbert_retriever.encoder.two_encoders import TwoEncoders, holds_two
from sbert_retriever.errors import InputError


@dataclass(frozen=True, kw_only=True)
class ModelOptions:
    """How the models of an evaluation are loaded.

    Args:
        device: "auto", "cpu", "cuda", "cuda:1", "mps".
        dtype: "auto", "float32", "bfloat16", "float16"; full precision, so that figures compare.
        pooling: How token vectors become one; makes a bi-encoder of any transformer.
        max_length: Tokens a text or pair may have; None takes the model's.
    """

    device: str = "auto"
    dtype: str = "float32"
    pooling: str | None = None
    max_length: int | None = None


def load_model(
    name: str,
    options: ModelOptions | None = None,
    *,
    label: int | str | None = None,
    all_labels: bool = False,
) -> BiEncoder | TwoEncoders | CrossEncoder:
    """Load what a name stands for; a text that is too long is cut without a word.

    Args:
        name: A folder, the name of a packaged model, or a hub id.
        options: How.
        label: Of a cross-encoder that has several: the one that is its score.
        all_labels: Whether no one label is wanted.

    Raises:
        ModelNotFoundError: Nothing answers to the name.
        ModelFormatError: The files cannot be used.
        InputError: A pooling was given that is unknown; or a score is wanted of a cross-encoder of
            several labels, and none was named.
    """
    wanted = options or ModelOptions()
    found = locate(name, HubOptions())
    if has_routes(found.folder):
        return load_bi_encoder(name, wanted)
    checkpoint = read_checkpoint(found.folder, found.packaged)
    if wanted.pooling is None and is_cross_encoder(checkpoint):
        several = len(label_names(checkpoint.config)) > 1
        return load_cross_encoder(name, wanted, label=0 if all_labels and several else label)
    return load_bi_encoder(name, wanted)


def load_bi_encoder(name: str, options: ModelOptions | None = None) -> BiEncoder | TwoEncoders:
    """Load a bi-encoder, of one encoder or of two; errors are those of `load_model`.

    Raises:
        ModelFormatError: It is a cross-encoder, and no pooling was given.
    """
    wanted = options or ModelOptions()
    kind: type[BiEncoder] | type[TwoEncoders] = TwoEncoders if holds_two(name) else BiEncoder
    return kind.load(
        name,
        device=wanted.device,
        dtype=wanted.dtype,
        pooling=wanted.pooling,
        max_length=wanted.max_length,
        on_truncate="ignore",
    )


def load_cross_encoder(
    name: str, options: ModelOptions | None = None, *, label: int | str | None = None
) -> CrossEncoder:
    """Load a cross-encoder; errors are those of `load_model`.

    Raises:
        ModelFormatError: It is a bi-encoder.
    """
    wanted = options or ModelOptions()
    if wanted.pooling is not None:
        raise InputError(
            f"pooling is {wanted.pooling!r}, and {name} is to score pairs, which pools nothing: "
            "leave it out"
        )
    return CrossEncoder.load(
        name,
        device=wanted.device,
        dtype=wanted.dtype,
        max_length=wanted.max_length,
        label=label,
        on_truncate="ignore",
    )
