"""Models' folders written anew, so that every library reads them."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from safetensors.torch import save_file

from sbert_retriever.encoder.onnx_weights import load_onnx_bert

_TOKENIZER_FILES = (
    *("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json"),
    *("vocab.txt", "vocab.json", "merges.txt", "tokenizer.model", "spiece.model"),
    *("sentencepiece.bpe.model", "chat_template.jinja"),
)


def copy_tokenizer(source: Path, folder: Path) -> None:
    """Copy what a tokenizer is read from, as far as it is there."""
    for name in _TOKENIZER_FILES:
        file = source / name
        if file.is_file() and file.resolve() != (folder / name).resolve():
            shutil.copyfile(file, folder / name)


def write_torch_folder(source: Path, folder: Path) -> Path:
    """Write a BERT that is an ONNX export as safetensors, with its configuration and tokenizer.

    Args:
        source: The folder with the export.
        folder: Made where it is absent.

    Returns:
        `folder`.

    Raises:
        MissingExtraError: onnx is not installed.
        ModelFormatError: There is no ONNX file, or it is no BERT, or a tensor has no use.
    """
    config, state, _ = load_onnx_bert(source)
    folder.mkdir(parents=True, exist_ok=True)
    save_file(state, str(folder / "model.safetensors"), metadata={"format": "pt"})
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    copy_tokenizer(source, folder)
    return folder
