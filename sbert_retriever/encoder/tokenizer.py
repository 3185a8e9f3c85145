"""Texts to token ids.

The Rust tokenizer is set once, when it is loaded, and never again: changing its truncation or
padding while another thread encodes is what raises "Already borrowed". Truncation is done here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from tokenizers import Encoding, Tokenizer, normalizers

from sbert_retriever.encoder.batching import TokenIds
from sbert_retriever.encoder.process import in_forked_child
from sbert_retriever.errors import InputError, ModelFormatError

_CHARACTERS_AT_ONCE = 1 << 20
_TEXTS_AT_ONCE = 256


@dataclass(frozen=True)
class Tokens:
    """The token ids of some texts.

    Args:
        ids: One array a text, truncated, special tokens included.
        counts: Tokens of each text before truncation, special ones included: (n,) int64.
    """

    ids: list[TokenIds]
    counts: npt.NDArray[np.int64]


class TextTokenizer:
    """A tokenizer that many threads may use.

    Args:
        tokenizer: The Rust tokenizer; its truncation and padding are switched off.
        max_length: Tokens a text may have, special ones included; None is without limit.
        pad_id: The id that padding gets.
    """

    def __init__(self, tokenizer: Tokenizer, *, max_length: int | None, pad_id: int = 0) -> None:
        tokenizer.no_truncation()
        tokenizer.no_padding()
        self._tokenizer = tokenizer
        self._after = _specials_after(tokenizer)
        self.max_length = max_length
        self.pad_id = pad_id

    def encode(self, texts: Sequence[str], *, prompt: str = "") -> Tokens:
        """Token ids of each text, the prompt put before it.

        Raises:
            InputError: A text holds a lone surrogate, which is not a character.
        """
        ids: list[TokenIds] = []
        counts: list[int] = []
        for part in _portions(texts):
            for encoding in self._encode([prompt + text for text in part] if prompt else part):
                found = encoding.ids
                counts.append(len(found))
                ids.append(np.array(self._truncated(found), dtype=np.int32))
        return Tokens(ids, np.array(counts, dtype=np.int64))

    def offsets(self, texts: Sequence[str]) -> list[list[tuple[int, int]]]:
        """Character spans (start, end) of each token, without special tokens or truncation."""
        return [
            list(encoding.offsets)
            for part in _portions(texts)
            for encoding in self._run(self._chosen(self._tokenizer.encode_batch, part), part)
        ]

    def pieces(self, texts: Sequence[str]) -> list[TokenIds]:
        """Token ids of each text, without special tokens or truncation.

        Raises:
            InputError: A text holds a lone surrogate, which is no character.
        """
        return [
            np.array(encoding.ids, dtype=np.int32)
            for part in _portions(texts)
            for encoding in self._run(self._fast(part), part)
        ]

    def example_pair(self) -> Encoding:
        """The tokens of some pair of texts, special ones included."""
        return self._tokenizer.encode("a", "b")

    def token_id(self, token: str) -> int | None:
        """The id of a token by its very text; None where there is none."""
        return self._tokenizer.token_to_id(token)

    def prompt_length(self, prompt: str) -> int:
        """Tokens that a prompt takes at a text's start, with the special ones before it."""
        return len(self._tokenizer.encode(prompt).ids) - self._after if prompt else 0

    def _truncated(self, ids: list[int]) -> list[int]:
        """The first tokens, then the special ones that end a text."""
        if self.max_length is None or len(ids) <= self.max_length:
            return ids
        return ids[: self.max_length - self._after] + ids[len(ids) - self._after :]

    def _encode(self, texts: list[str]) -> list[Encoding]:
        return self._run(self._fast(texts), texts, special=True)

    def _fast(self, texts: list[str]) -> Callable[..., list[Encoding]]:
        return self._chosen(self._tokenizer.encode_batch_fast, texts)

    def _chosen(
        self, encode: Callable[..., list[Encoding]], texts: list[str]
    ) -> Callable[..., list[Encoding]]:
        """The batch method; one by one where that is quicker, or where its threads are gone."""
        return self._one_by_one if len(texts) == 1 or in_forked_child() else encode

    def _one_by_one(self, texts: list[str], *, add_special_tokens: bool) -> list[Encoding]:
        encode = self._tokenizer.encode
        return [encode(text, add_special_tokens=add_special_tokens) for text in texts]

    def _run(
        self, encode: Callable[..., list[Encoding]], texts: list[str], *, special: bool = False
    ) -> list[Encoding]:
        try:
            return encode(texts, add_special_tokens=special)
        except (UnicodeEncodeError, TypeError) as error:
            raise _explain(texts) from error


def load_tokenizer(
    folder: Path, config: Mapping[str, Any], *, max_length: int | None, lowercase: bool
) -> TextTokenizer:
    """Read a tokenizer: tokenizer.json, or whatever transformers can make one from.

    Raises:
        ModelFormatError: There is none, or it cannot be read.
    """
    path = folder / "tokenizer.json"
    try:
        tokenizer = Tokenizer.from_file(str(path)) if path.is_file() else _converted(folder)
    except Exception as error:  # tokenizers raises bare Exception
        raise ModelFormatError(f"{folder} has no tokenizer that can be read: {error}") from error
    if lowercase:
        steps = [normalizers.Lowercase(), tokenizer.normalizer]
        tokenizer.normalizer = normalizers.Sequence([step for step in steps if step is not None])
    padding = tokenizer.padding or {}
    pad_id = padding.get("pad_id", config.get("pad_token_id"))
    return TextTokenizer(tokenizer, max_length=max_length, pad_id=int(pad_id or 0))


def _converted(folder: Path) -> Tokenizer:
    """A tokenizer from vocab.txt, sentencepiece and the like."""
    from transformers import AutoTokenizer

    slow = AutoTokenizer.from_pretrained(folder, trust_remote_code=False, local_files_only=True)
    tokenizer: Tokenizer = slow.backend_tokenizer
    return tokenizer


def _specials_after(tokenizer: Tokenizer) -> int:
    """How many special tokens end each text."""
    mask = tokenizer.encode("a").special_tokens_mask
    return next((n for n, special in enumerate(reversed(mask)) if not special), 0)


def _portions(texts: Sequence[str]) -> Iterator[list[str]]:
    """Few enough texts at once that their encodings stay small."""
    part: list[str] = []
    characters = 0
    for text in texts:
        part.append(text)
        characters += len(text)
        if len(part) >= _TEXTS_AT_ONCE or characters >= _CHARACTERS_AT_ONCE:
            yield part
            part, characters = [], 0
    if part:
        yield part


def _explain(texts: list[str]) -> InputError:
    """Name the text that the tokenizer refused."""
    for text in texts:
        try:
            text.encode("utf-8")
        except UnicodeEncodeError as error:
            return InputError(
                f"the text {text[:40]!r} holds a lone surrogate at character {error.start}, which "
                "is no character: decode its bytes with errors='replace'"
            )
    return InputError("the tokenizer refused a text")
