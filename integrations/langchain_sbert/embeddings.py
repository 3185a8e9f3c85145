"""`SBERTEmbeddings`: a Sentence-BERT model as LangChain embeddings."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from langchain_core.embeddings import Embeddings
from pydantic import BaseModel, ConfigDict, Field, PrivateAttr, SecretStr

from sbert_retriever.forks import Lock
from sbert_retriever.types import OnTruncate

if TYPE_CHECKING:
    from sbert_retriever.encoder.bi_encoder import BiEncoder


class _Loaded:
    """A model that is loaded once, by one thread; copies and pickles begin without it."""

    def __init__(self) -> None:
        self._guard = Lock()
        self._encoder: BiEncoder | None = None

    def get(self, load: Callable[[], BiEncoder]) -> BiEncoder:
        with self._guard:
            if self._encoder is None:
                self._encoder = load()
            return self._encoder

    def __eq__(self, other: object) -> bool:
        # Embeddings are equal where their fields are, whether loaded or not.
        return isinstance(other, _Loaded)

    def __hash__(self) -> int:
        return hash(_Loaded)

    def __reduce__(self) -> tuple[type[_Loaded], tuple[()]]:
        return _Loaded, ()


class SBERTEmbeddings(BaseModel, Embeddings):
    """Texts to vectors with a Sentence-BERT model, on this machine.

    A query goes through the model's query role and a document through its passage role, each with
    its own prompt where the model has one. Frozen, picklable, safe to use from many threads; the
    asynchronous methods work in a thread.

    Args:
        model_name: (or `model`) A folder, a packaged name, or a hub id.
        device: "auto", "cpu", "cuda", "cuda:1", "mps".
        dtype: "auto", "float32", "bfloat16", "float16", "int8" (quick, on a CPU).
        query_prompt: Put before each query; None takes the model's own.
        passage_prompt: Put before each document; None takes the model's own.
        max_length: Tokens a text may have; None takes the model's own limit.
        truncate_dim: Keep this many of the first dimensions (Matryoshka models).
        pooling: How token vectors become one; None takes the model's own.
        normalize: Whether vectors leave with length 1; None takes the model's own.
        on_truncate: What happens to a text longer than the model reads: "warn" once a call,
            "error", or "ignore".
        batch_tokens: Tokens in a batch; None suits the device.
        show_progress: Whether `embed_documents` draws a progress bar on stderr.
        revision: A branch, tag or commit of the hub.
        cache_dir: The hub's cache.
        token: For private repositories of the hub.
        local_files_only: True never asks the network.
        lazy: Whether to look for the model at the first text, rather than now. The weights are
            read at the first text either way.

    Raises:
        ModelNotFoundError: Nothing holds a model of that name.
        DeviceError: The device is not on this machine.

    Examples:
        >>> SBERTEmbeddings(model="all-MiniLM-L6-v2", lazy=True).model_name
        'all-MiniLM-L6-v2'
    """

    model_config = ConfigDict(
        extra="forbid", frozen=True, populate_by_name=True, protected_namespaces=()
    )

    model_name: str | Path = Field(default="all-MiniLM-L6-v2", alias="model")
    device: str = "auto"
    dtype: str = "auto"
    query_prompt: str | None = None
    passage_prompt: str | None = None
    max_length: int | None = None
    truncate_dim: int | None = None
    pooling: str | None = None
    normalize: bool | None = None
    on_truncate: OnTruncate = "warn"
    batch_tokens: int | None = None
    show_progress: bool = False
    revision: str | None = None
    cache_dir: str | Path | None = None
    token: SecretStr | None = None
    local_files_only: bool | None = None
    lazy: bool = False

    _loaded: _Loaded = PrivateAttr(default_factory=_Loaded)

    def model_post_init(self, context: Any, /) -> None:
        """Look for the model now, unless `lazy`."""
        super().model_post_init(context)
        if not self.lazy:
            self._loaded.get(self._load)

    @property
    def encoder(self) -> BiEncoder:
        """The model itself, found when first needed."""
        return self._loaded.get(self._load)

    @property
    def dim(self) -> int:
        """Width of the vectors."""
        return self.encoder.dim

    def embed_query(self, text: str) -> list[float]:
        """The vector (dim,) of a question.

        Raises:
            InputTypeError: It is no str.
            TextTooLongError: `on_truncate` is "error" and the text is longer than the model reads.
        """
        row: list[float] = self.encoder.encode_queries([text])[0].tolist()
        return row

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """The vectors (n, dim) of documents, in their order; [] gives [].

        Raises:
            InputTypeError: One str, or an entry that is no str; the message names its position.
            TextTooLongError: `on_truncate` is "error" and a text is longer than the model reads.
        """
        vectors = self.encoder.encode_passages(texts, show_progress=self.show_progress)
        rows: list[list[float]] = vectors.tolist()
        return rows

    def _load(self) -> BiEncoder:
        from sbert_retriever.encoder.bi_encoder import BiEncoder

        return BiEncoder.load(
            self.model_name,
            device=self.device,
            dtype=self.dtype,
            revision=self.revision,
            cache_dir=self.cache_dir,
            token=None if self.token is None else self.token.get_secret_value(),
            local_files_only=self.local_files_only,
            query_prompt=self.query_prompt,
            passage_prompt=self.passage_prompt,
            max_length=self.max_length,
            truncate_dim=self.truncate_dim,
            pooling=self.pooling,
            normalize=self.normalize,
            on_truncate=self.on_truncate,
            batch_tokens=self.batch_tokens,
        )
