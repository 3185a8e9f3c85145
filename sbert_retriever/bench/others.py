"""Other libraries, each as its own documentation says to use it, with its defaults."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

from sbert_retriever.bench.contenders import Contender, Filled, Models, Pairs
from sbert_retriever.errors import AbsentError


def sentence_transformers(models: Models, scratch: Path) -> Contender:
    """sentence-transformers.

    Raises:
        AbsentError: It is not installed.
    """
    try:
        from sentence_transformers import CrossEncoder, SentenceTransformer
    except ImportError as error:
        raise _absent("sentence-transformers", "sentence-transformers") from error
    device = _device(models)
    encoder: Any = SentenceTransformer(_folder(models.bi_encoder, scratch), device=device)
    scorer: Any = None
    if models.cross_encoder is not None:
        scorer = CrossEncoder(_folder(models.cross_encoder, scratch), device=device)

    def rerank(pairs: Pairs) -> object:
        return scorer.predict(list(pairs), show_progress_bar=False)

    return Contender(
        name="sentence-transformers",
        encode=lambda texts: encoder.encode(texts, show_progress_bar=False),
        rerank=None if scorer is None else rerank,
    )


def fastembed(models: Models, scratch: Path) -> Contender:
    """fastembed: its own export of the model, from its cache or the network.

    Raises:
        AbsentError: It is not installed, or has not the model.
    """
    del scratch
    try:
        from fastembed import TextEmbedding
    except ImportError as error:
        raise _absent("fastembed", "fastembed") from error
    known: list[str] = [m["model"] for m in TextEmbedding.list_supported_models()]
    short = models.bi_encoder.rpartition("/")[2].casefold()
    name = next((k for k in known if k.rpartition("/")[2].casefold() == short), None)
    if name is None:
        raise AbsentError(f"fastembed has no model named {models.bi_encoder}: it is left out")
    try:
        encoder: Any = TextEmbedding(name)
    except Exception as error:  # its downloads fail with classes of several libraries
        raise AbsentError(
            f"fastembed could not get {name} ({type(error).__name__}): it is left out"
        ) from error
    return Contender(name="fastembed", encode=lambda texts: list(encoder.embed(texts)))


def langchain(models: Models, scratch: Path) -> Contender:
    """langchain-huggingface over langchain-qdrant, in a local folder.

    Raises:
        AbsentError: One of them is not installed.
    """
    try:
        from langchain_huggingface import HuggingFaceEmbeddings
        from langchain_qdrant import QdrantVectorStore
    except ImportError as error:
        raise _absent(
            "langchain-huggingface or langchain-qdrant", "langchain-huggingface langchain-qdrant"
        ) from error
    device = _device(models)
    embedding: Any = HuggingFaceEmbeddings(
        model_name=_folder(models.bi_encoder, scratch),
        model_kwargs={} if device is None else {"device": device},
    )

    def index(texts: list[str], folder: Path) -> Filled:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # local mode warns of its size
            store: Any = QdrantVectorStore.from_texts(
                texts, embedding, path=str(folder), collection_name="bench"
            )
        return Filled(lambda question: store.similarity_search(question, 10), store.client.close)

    return Contender(name="langchain", index=index)


OTHERS: dict[str, Callable[[Models, Path], Contender]] = {
    "sentence-transformers": sentence_transformers,
    "fastembed": fastembed,
    "langchain": langchain,
}


def _absent(what: str, packages: str) -> AbsentError:
    return AbsentError(f"{what} is not installed and is left out: pip install {packages}")


def _device(models: Models) -> str | None:
    return None if models.device == "auto" else models.device


def _folder(name: str, scratch: Path) -> str:
    """A folder that every library reads; ONNX weights are written anew for torch."""
    from sbert_retriever.encoder.folders import write_torch_folder
    from sbert_retriever.encoder.resolve import locate

    found = locate(name)
    if found.packaged is None or (found.folder / "model.safetensors").exists():
        return str(found.folder)
    folder = scratch / found.folder.name
    return str(folder if folder.exists() else write_torch_folder(found.folder, folder))
