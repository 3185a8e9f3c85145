"""What the study starts from: an encoder as it is, its input vectors alone, and random weights."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from safetensors.torch import save_file

from sbert_retriever.encoder.checkpoint import Checkpoint, read_checkpoint
from sbert_retriever.encoder.folders import copy_tokenizer
from sbert_retriever.encoder.resolve import HubOptions, locate
from sbert_retriever.encoder.texts import checked
from sbert_retriever.encoder.tokenizer import load_tokenizer
from sbert_retriever.encoder.weights import load_state
from sbert_retriever.errors import ModelFormatError
from sbert_retriever.types import ModelIdentity

if TYPE_CHECKING:
    from sbert_retriever.types import Vectors

_WORDS = "embeddings.word_embeddings.weight"


def checkpoint_of(name: str) -> Checkpoint:
    """What the files of a model say.

    Raises:
        ModelNotFoundError: Nothing answers to the name.
    """
    found = locate(name, HubOptions())
    return read_checkpoint(found.folder, found.packaged)


class StaticEncoder:
    """The mean of a model's input vectors, which no layer has touched, as of word vectors.

    Special tokens take no part: they are no words.

    Args:
        name: Of the model.

    Raises:
        ModelFormatError: It has no input vectors of BERT's name.
    """

    def __init__(self, name: str) -> None:
        checkpoint = checkpoint_of(name)
        self.name = name
        state = load_state(checkpoint.transformer)
        found = [tensor for key, tensor in state.items() if key.endswith(_WORDS)]
        if not found:
            raise ModelFormatError(f"{name} has no {_WORDS}, expected a BERT")
        self._words: Vectors = found[0].float().numpy()
        self._tokenizer = load_tokenizer(
            checkpoint.transformer,
            checkpoint.config,
            max_length=checkpoint.max_length,
            lowercase=checkpoint.lowercase,
        )

    @property
    def dim(self) -> int:
        """Width of the vectors."""
        return int(self._words.shape[1])

    @property
    def identity(self) -> ModelIdentity:
        """What a collection would remember of it."""
        return ModelIdentity(name=f"input vectors of {self.name}", dim=self.dim, pooling="mean")

    def encode_queries(self, texts: Iterable[str]) -> Vectors:
        """Encode questions: float32 (n, dim)."""
        return self.encode_passages(texts)

    def encode_passages(self, texts: Iterable[str]) -> Vectors:
        """Encode passages: float32 (n, dim)."""
        tokens = self._tokenizer.encode(list(checked(texts)))
        rows = [self._words[ids[1:-1]].mean(axis=0) for ids in map(_never_empty, tokens.ids)]
        return np.array(rows, dtype=np.float32).reshape(len(rows), self.dim)


def _never_empty(ids: Any) -> Any:
    """A text without a word is what stands before it and after it."""
    return ids if len(ids) > 2 else np.concatenate([ids[:1], ids, ids[-1:]])


def write_random(name: str, folder: Path, *, seed: int) -> Path:
    """A model's architecture and tokenizer with random weights, as a plain folder.

    Args:
        name: Of the model.
        folder: Made where it is absent.
        seed: Of the weights, which are drawn as BERT's are before it is trained.

    Returns:
        The folder.
    """
    from transformers import AutoConfig, AutoModel

    checkpoint = checkpoint_of(name)
    settings = {k: v for k, v in checkpoint.config.items() if k != "architectures"}
    config = AutoConfig.for_model(**settings)
    maker: Any = AutoModel
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = maker.from_config(config)
    folder.mkdir(parents=True, exist_ok=True)
    config.save_pretrained(folder)
    # Not through transformers, which draws a progress bar for it.
    state = {key: tensor.contiguous() for key, tensor in model.state_dict().items()}
    save_file(state, str(folder / "model.safetensors"), metadata={"format": "pt"})
    copy_tokenizer(checkpoint.transformer, folder)
    return folder
