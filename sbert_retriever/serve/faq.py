"""/faq: ask, look after the entries, and learn from those who ask."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Annotated, Any

from fastapi import APIRouter, Path, Query, Request, Response
from starlette.exceptions import HTTPException

from sbert_retriever.faq import FaqEntry
from sbert_retriever.serve.answers import entry_answer, faq_answer
from sbert_retriever.serve.calls import Calls, StrictRoute
from sbert_retriever.serve.faq_learning import learning_routes
from sbert_retriever.serve.faq_schemas import (
    Deleted,
    FaqAnswerBody,
    FaqEntries,
    FaqEntryAnswer,
    FaqEntryBody,
    FaqEntryWhole,
    FaqFeedback,
    FaqQuestion,
    Kept,
)
from sbert_retriever.serve.problems import responses

EntryId = Annotated[str, Path(min_length=1, max_length=1000, description="The entry's id.")]


def faq_routes(calls: Calls) -> APIRouter:
    """The routes of the FAQ."""
    router = APIRouter(prefix="/faq", tags=["faq"], route_class=StrictRoute)
    _asking(router, calls)
    _reading(router, calls)
    _writing(router, calls)
    learning_routes(router, calls)
    return router


def _asking(router: APIRouter, calls: Calls) -> None:
    @router.post(
        "/ask",
        response_model=FaqAnswerBody,
        responses=responses(404),
        summary='An answer, a short list, or "I don\'t know"',
    )
    async def ask(asked: FaqQuestion, request: Request) -> Response:
        calls.check_text("question", asked.question)
        calls.check_text("previous", asked.previous or "")
        calls.note(request, texts={"question": asked.question})
        return await calls.answer(lambda waited_ms: _asked(calls, asked, waited_ms))

    @router.post(
        "/feedback",
        response_model=Kept,
        responses=responses(404),
        status_code=201,
        summary="Keep what a user said of an answer",
    )
    async def feedback(said: FaqFeedback) -> Response:
        calls.check_text("question", said.question, questions=2)
        return await calls.answer(lambda _: _fed_back(calls, said), status=201)


def _reading(router: APIRouter, calls: Calls) -> None:
    @router.get(
        "/entries",
        response_model=FaqEntries,
        responses=responses(404, body=False),
        summary="Entries, by their ids",
    )
    async def entries(
        limit: Annotated[int, Query(ge=1, le=1000)] = 100,
        offset: Annotated[int, Query(ge=0, le=2**31)] = 0,
    ) -> Response:
        return await calls.answer(lambda _: _listed(calls, limit, offset))

    @router.get(
        "/entries/{entry_id:path}",
        response_model=FaqEntryAnswer,
        responses=responses(404, body=False),
        summary="An entry",
    )
    async def entry(entry_id: EntryId) -> Response:
        return await calls.answer(lambda _: entry_answer(_existing(calls, entry_id)))


def _writing(router: APIRouter, calls: Calls) -> None:
    writing = asyncio.Lock()

    @router.post(
        "/entries",
        response_model=FaqEntryAnswer,
        responses=responses(404, 409),
        status_code=201,
        summary="Add an entry",
    )
    async def add(whole: FaqEntryWhole) -> Response:
        def work(_: float) -> dict[str, Any]:
            faq, made = calls.service.asked(), FaqEntry(**_fields(whole))
            if faq.get(made.id) is not None:
                raise HTTPException(409, "there is an entry of this id: PUT replaces it")
            faq.add(made)
            return entry_answer(made)

        return await calls.answer(work, status=201, turn=writing)

    @router.put(
        "/entries/{entry_id:path}",
        response_model=FaqEntryAnswer,
        responses=responses(404),
        summary="Add an entry, or replace the one of this id",
    )
    async def put(entry_id: EntryId, body: FaqEntryBody) -> Response:
        def work(_: float) -> dict[str, Any]:
            made = FaqEntry(id=entry_id, **_fields(body))
            calls.service.asked().add(made, replace=True)
            return entry_answer(made)

        return await calls.answer(work, turn=writing)

    @router.delete(
        "/entries/{entry_id:path}",
        response_model=Deleted,
        responses=responses(404, body=False),
        summary="Delete an entry",
    )
    async def delete(entry_id: EntryId) -> Response:
        def work(_: float) -> dict[str, Any]:
            there = calls.service.asked().delete(_existing(calls, entry_id).id)
            return {"deleted": int(there)}

        return await calls.answer(work, turn=writing)


def _asked(calls: Calls, asked: FaqQuestion, waited_ms: float) -> dict[str, Any]:
    budget = None if asked.budget_ms is None else max(asked.budget_ms - waited_ms, 0.0)
    answer = calls.service.asked().ask(
        asked.question, asked.previous, budget, k=asked.k, filter=asked.filter
    )
    calls.metrics.faq_outcome(answer.outcome)
    return faq_answer(answer, waited_ms)


def _listed(calls: Calls, limit: int, offset: int) -> dict[str, Any]:
    entries = calls.service.asked().entries()
    shown = entries[offset : offset + limit]
    return {"entries": [entry_answer(entry) for entry in shown], "count": len(entries)}


def _existing(calls: Calls, entry_id: str) -> FaqEntry:
    found = calls.service.asked().get(entry_id)
    if found is None:
        raise HTTPException(404, "there is no entry of this id")
    return found


def _fed_back(calls: Calls, said: FaqFeedback) -> Mapping[str, Any]:
    calls.service.asked().feedback(said.question, _existing(calls, said.entry).id, said.good)
    return {"kept": True}


def _fields(body: FaqEntryBody) -> dict[str, Any]:
    return body.model_dump()
