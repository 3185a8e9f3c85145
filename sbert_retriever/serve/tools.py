"""Search and FAQ lookup as tools for an assistant: the Model Context Protocol over stdio."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import ToolAnnotations
from pydantic import Field

from sbert_retriever.errors import SbertError
from sbert_retriever.serve.about import NAME, VERSION
from sbert_retriever.serve.answers import faq_answer, hit_answer
from sbert_retriever.serve.service import Service

_READS = ToolAnnotations(read_only_hint=True, idempotent_hint=True, open_world_hint=False)
_MOST = 50

Question = Annotated[str, Field(max_length=20_000, description="A question, or any text.")]


def tool_server(service: Service) -> MCPServer[Any]:
    """A server with the tools that a service has.

    Args:
        service: From `open_service`.
    """
    server: MCPServer[Any] = MCPServer(NAME, version=VERSION, log_level="ERROR")
    if service.retriever is not None:
        _add_search(server, service)
    if service.faq is not None:
        _add_lookup(server, service)
    return server


def serve_tools(service: Service) -> None:
    """Answer on stdin and stdout until stdin ends."""
    tool_server(service).run("stdio")


def _add_search(server: MCPServer[Any], service: Service) -> None:
    @server.tool(title="Search passages", annotations=_READS, structured_output=False)
    async def search(
        query: Question,
        k: Annotated[int, Field(ge=1, le=_MOST, description="How many passages.")] = 5,
        filter: Annotated[
            dict[str, Any] | None,
            Field(description='On metadata, such as {"lang": "en", "year": {"gte": 2020}}.'),
        ] = None,
        budget_ms: Annotated[
            float | None,
            Field(ge=0, le=60_000, description="Time for a more accurate order; leave out."),
        ] = None,
    ) -> dict[str, Any]:
        """Find the passages of the indexed collection that are nearest in meaning to a text."""
        return await _told(_searched, service, query, k, filter, budget_ms)


def _add_lookup(server: MCPServer[Any], service: Service) -> None:
    @server.tool(title="Look a question up in the FAQ", annotations=_READS, structured_output=False)
    async def faq_lookup(
        question: Question,
        previous: Annotated[
            str | None,
            Field(max_length=20_000, description="The user's last question, for a follow-up."),
        ] = None,
    ) -> dict[str, Any]:
        """Answer a question from the FAQ; outcome "abstain" means that the FAQ does not know."""
        return await _told(_looked_up, service, question, previous)


async def _told(function: Any, *arguments: Any) -> dict[str, Any]:
    """What a function gives, in a thread; our errors as answers of the tool."""
    try:
        found: dict[str, Any] = await asyncio.to_thread(function, *arguments)
    except SbertError as error:
        raise ToolError(str(error)) from error
    return found


def _searched(
    service: Service,
    query: str,
    k: int,
    filter: dict[str, Any] | None,
    budget_ms: float | None,
) -> dict[str, Any]:
    retriever = service.searched(rerank=budget_ms is not None)
    hits = retriever.search(query, k, filter=filter, budget_ms=budget_ms)
    return {"hits": [hit_answer(hit) for hit in hits]}


def _looked_up(service: Service, question: str, previous: str | None) -> dict[str, Any]:
    return faq_answer(service.asked().ask(question, previous))
