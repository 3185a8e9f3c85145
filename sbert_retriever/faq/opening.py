"""A collection that is opened as an FAQ: whether it is one, and what is kept with it."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sbert_retriever.errors import InputError
from sbert_retriever.faq.asking import Lookup
from sbert_retriever.faq.calibration import KEY, Setup, Thresholds
from sbert_retriever.faq.conversation import Conversation
from sbert_retriever.faq.deciding import Judge
from sbert_retriever.faq.defaults import default_thresholds
from sbert_retriever.faq.keeping import Shelf
from sbert_retriever.faq.kept import Kept, Settings, fitting
from sbert_retriever.faq.notebook import Notebook
from sbert_retriever.index.edge.description import NOTES_FILE
from sbert_retriever.rerank import Reranker
from sbert_retriever.retriever import Retriever
from sbert_retriever.search.second_stage import as_reranker
from sbert_retriever.types import RetrieverInfo, SearchMode

if TYPE_CHECKING:
    from sbert_retriever.search.second_stage import RerankerSpec


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
        kept=Kept(
            judge=judge,
            settings=settings,
            read=partial(_kept, retriever),
            write=partial(_save, retriever),
        ),
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
    found = Settings.from_metadata(raw)
    if answers is not None and answers != found.answers:
        raise InputError(
            f"the FAQ was created with answers={found.answers}, asked for {answers}: import its "
            "entries into a new one"
        )
    return found


def _kept(retriever: Retriever) -> Mapping[str, Any] | None:
    """The settings that lie with the collection now, in one call of the engine."""
    store = retriever.store
    info = store.connection.perform(store.call("get_collection"))
    kept: Mapping[str, Any] | None = (info.config.metadata or {}).get(KEY)
    return kept


def _save(retriever: Retriever, settings: Settings) -> None:
    store = retriever.store
    store.connection.run(store.save_companions({KEY: settings.to_metadata()}))


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
