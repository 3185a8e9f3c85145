"""A collection that is opened as an FAQ: whether it is one, and what is kept with it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sbert_retriever.errors import ContractError, InputError
from sbert_retriever.faq.asking import Lookup
from sbert_retriever.faq.calibration import (
    FORMAT_VERSION,
    KEY,
    Calibration,
    Setup,
    Thresholds,
)
from sbert_retriever.faq.conversation import Conversation
from sbert_retriever.faq.deciding import Judge
from sbert_retriever.faq.defaults import default_thresholds
from sbert_retriever.faq.keeping import Shelf
from sbert_retriever.faq.notebook import Notebook
from sbert_retriever.index.edge.description import NOTES_FILE
from sbert_retriever.rerank import Reranker
from sbert_retriever.retriever import Retriever
from sbert_retriever.search.second_stage import as_reranker
from sbert_retriever.types import RetrieverInfo, SearchMode

if TYPE_CHECKING:
    from sbert_retriever.search.second_stage import RerankerSpec


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What is kept of an FAQ with its collection.

    Args:
        answers: Whether answers are passages too.
        calibration: What `Faq.calibrate` learned, as plain JSON.
    """

    answers: bool
    calibration: dict[str, Any] | None = None

    def to_metadata(self) -> dict[str, Any]:
        """As collection metadata."""
        return {KEY: {"format": FORMAT_VERSION, **vars(self)}}


def opened(
    retriever: Retriever,
    *,
    reranker: RerankerSpec | None,
    answers: bool | None,
    mode: SearchMode | None,
    thresholds: Thresholds | None,
    log: Path | None,
    log_unanswered: bool,
    device: str,
    dtype: str,
) -> tuple[Retriever, Shelf, Conversation, Notebook]:
    """The parts of an FAQ over a collection; the arguments are those of `Faq.open`."""
    settings = settled(retriever, answers)
    info = retriever.info()
    second = None if reranker is None else as_reranker(reranker, device=device, dtype=dtype)
    mode = mode or ("dense" if info.sparse is None else "hybrid")
    if mode != "dense" and info.sparse is None:
        raise InputError(f"mode is {mode!r}, and this FAQ keeps no words: make one with sparse=")
    setup = setup_of(info, mode, settings.answers, second)
    if log is not None and not log.parent.is_dir():
        raise InputError(f"log is {log}, and there is no folder {log.parent}: make it first")
    notebook = Notebook(log or _beside(retriever))
    if log_unanswered and notebook.path is None:
        raise InputError(
            "log_unanswered has no place to write to: a collection on a server has no folder "
            "here; give log=FILE"
        )
    calibration, outdated = fitting(settings.calibration, setup)
    judge = Judge(
        thresholds=thresholds or default_thresholds(info.model, setup=setup),
        calibration=calibration,
        setup=setup,
        outdated=outdated,
    )
    shelf = Shelf(retriever, answers=settings.answers)
    conversation = Conversation(
        lookup=Lookup(retriever=retriever, shelf=shelf, mode=mode, reranker=second),
        shelf=shelf,
        judge=judge,
        save=partial(save_calibration, retriever, settings.answers),
        on_unanswered=notebook.keep_unanswered if log_unanswered else None,
    )
    return retriever, shelf, conversation, notebook


def settled(retriever: Retriever, answers: bool | None) -> Settings:
    """What is kept of the FAQ; an empty collection becomes one.

    Raises:
        ContractError: It was written by a newer version.
        InputError: The collection holds other passages, or answers are not kept as asked for.
    """
    store = retriever.store
    facts = store.connection.run(store.facts())
    raw = (facts.metadata or {}).get(KEY)
    if raw is None:
        if facts.count:
            raise InputError(
                f"collection {store.collection_name!r} holds {facts.count:,} passages that are no "
                "FAQ: give the FAQ another collection_name"
            )
        made = Settings(answers=bool(answers))
        _save(retriever, made)
        return made
    if raw.get("format", 0) > FORMAT_VERSION:
        raise ContractError(
            f"the FAQ has format {raw.get('format')!r}, and this version reads up to "
            f"{FORMAT_VERSION}: upgrade sbert-retriever"
        )
    found = Settings(answers=bool(raw.get("answers")), calibration=raw.get("calibration"))
    if answers is not None and answers != found.answers:
        raise InputError(
            f"the FAQ was created with answers={found.answers}, asked for {answers}: import its "
            "entries into a new one"
        )
    return found


def save_calibration(retriever: Retriever, answers: bool, calibration: Calibration) -> None:
    """Keep a calibration with the collection, in the place of the one before."""
    _save(retriever, Settings(answers=answers, calibration=calibration.to_metadata()))


def _save(retriever: Retriever, settings: Settings) -> None:
    store = retriever.store
    store.connection.run(store.save_companions(settings.to_metadata()))


def setup_of(
    info: RetrieverInfo, mode: SearchMode, answers: bool, reranker: Reranker | None
) -> Setup:
    """What the scores of an FAQ depend on."""
    identity = info.identity
    weights = identity.weights if identity is not None else None
    return Setup(
        model=weights or info.model,
        mode=mode,
        answers=answers,
        reranker=None if reranker is None else _name(reranker),
    )


def fitting(raw: dict[str, Any] | None, setup: Setup) -> tuple[Calibration | None, str | None]:
    """The calibration that was kept, or why it does not hold for this setup."""
    if raw is None:
        return None, None
    kept = Calibration.from_metadata(raw)
    if kept.setup == setup:
        return kept, None
    differs = ", ".join(
        f"{name} was {getattr(kept.setup, name)!r} and is {value!r}"
        for name, value in vars(setup).items()
        if getattr(kept.setup, name) != value
    )
    return None, (
        f"the FAQ was calibrated with other settings ({differs}): it goes by thresholds, without "
        "a confidence. Open it as it was, or calibrate it anew"
    )


def _name(reranker: Reranker) -> str:
    identity = getattr(reranker.scorer, "identity", None)
    name = getattr(identity, "weights", None) or getattr(identity, "name", None)
    return str(name or type(reranker.scorer).__name__)


def _beside(retriever: Retriever) -> Path | None:
    """The log of an embedded collection lies in its folder."""
    store = retriever.store
    if not store.connection.embedded:
        return None
    with store.connection.client.frozen([store.collection_name]) as folders:
        return Path(folders[store.collection_name]) / NOTES_FILE
