"""An FAQ for agents and chains: a tool, and a runnable that falls through to a chain."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any, Literal

from langchain_core.callbacks import (
    AsyncCallbackManagerForChainRun,
    AsyncCallbackManagerForToolRun,
    CallbackManagerForChainRun,
    CallbackManagerForToolRun,
)
from langchain_core.runnables import Runnable, RunnableConfig
from langchain_core.runnables.base import coerce_to_runnable
from langchain_core.runnables.config import patch_config
from langchain_core.tools import BaseTool
from pydantic import BaseModel, ConfigDict, Field, PrivateAttr

from sbert_retriever.errors import InputError, InputTypeError
from sbert_retriever.faq import Faq, FaqAnswer

NO_ANSWER = "The FAQ has no answer to this question."


class FaqQuestion(BaseModel):
    """What the tool is asked."""

    question: str = Field(
        description="One question, in the user's words and complete by itself: without pronouns "
        "that need the conversation."
    )


class SBERTFaqTool(BaseTool):
    """Looks a question up in an FAQ, for an agent to call.

    The tool's message says the answer, or which entries may be meant, or that there is none; its
    artifact is the `FaqAnswer`.

    Args:
        faq: An open `Faq`, which stays open.
        name: As the agent calls it.
        description: When it should; say what the FAQ is about.
        budget_ms: As for `Faq.ask`.
        k: As for `Faq.ask`.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid")

    name: str = "faq_lookup"
    description: str = (
        "Looks a question up in the FAQ and returns its approved answer word for word, or a list "
        "of entries that may be meant, or that there is no answer. Use it before answering from "
        "your own knowledge."
    )
    args_schema: Any = FaqQuestion
    response_format: Literal["content", "content_and_artifact"] = "content_and_artifact"
    budget_ms: float | None = None
    k: int = 3

    _faq: Faq = PrivateAttr()

    def __init__(self, faq: Faq, **fields: Any) -> None:
        super().__init__(**fields)
        if not isinstance(faq, Faq):
            raise InputTypeError(
                f"faq is {type(faq).__name__}, expected a Faq: open one with Faq.open"
            )
        self._faq = faq

    def _run(
        self, question: str, run_manager: CallbackManagerForToolRun | None = None
    ) -> tuple[str, FaqAnswer]:
        found = self._faq.ask(question, None, self.budget_ms, k=self.k)
        return as_message(found), found

    async def _arun(
        self, question: str, run_manager: AsyncCallbackManagerForToolRun | None = None
    ) -> tuple[str, FaqAnswer]:
        found = await self._faq.aask(question, None, self.budget_ms, k=self.k)
        return as_message(found), found


def as_message(found: FaqAnswer) -> str:
    """What an FAQ found, in words for a language model."""
    if found.outcome == "answer" and found.entry is not None:
        return "\n".join([found.entry.answer, *found.entry.links])
    if found.outcome == "choose":
        choices = "\n".join(f"- {choice}" for choice in found.choices)
        return (
            "The FAQ is not sure which entry is meant. Ask the user to choose, or ask again with "
            f"the words of one of these:\n{choices}"
        )
    return NO_ANSWER


def answer_text(found: FaqAnswer) -> str:
    """The answer alone."""
    return found.answer or ""


class SBERTFaqFirst(Runnable[Any, Any]):
    """Answers from an FAQ, and hands what that does not answer to a chain.

    A list to choose from counts as no answer: the chain is asked.

    Args:
        faq: An open `Faq`, which stays open.
        fallback: A chain, or what LangChain takes for one; it gets the same input.
        input_key: For inputs that are mappings: under which key the question is.
        budget_ms: As for `Faq.ask`.
        output: What is made of an answer, so that it looks like what the chain gives; None is its
            text.

    Raises:
        InputTypeError: The FAQ is none.
    """

    def __init__(
        self,
        faq: Faq,
        fallback: Any,
        *,
        input_key: str = "question",
        budget_ms: float | None = None,
        output: Callable[[FaqAnswer], Any] | None = None,
    ) -> None:
        if not isinstance(faq, Faq):
            raise InputTypeError(
                f"faq is {type(faq).__name__}, expected a Faq: open one with Faq.open"
            )
        self.faq = faq
        self.fallback: Runnable[Any, Any] = coerce_to_runnable(fallback)
        self.input_key = input_key
        self.budget_ms = budget_ms
        self.output = output or answer_text

    def invoke(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> Any:
        """The FAQ's answer, or the chain's."""
        return self._call_with_config(self._invoke, input, config, **kwargs)

    async def ainvoke(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> Any:
        """`invoke` for an event loop."""
        return await self._acall_with_config(self._ainvoke, input, config, **kwargs)

    def stream(
        self, input: Any, config: RunnableConfig | None = None, **kwargs: Any
    ) -> Iterator[Any]:
        """The FAQ's answer in one piece, or the chain's as it comes."""
        yield from self._transform_stream_with_config(iter([input]), self._stream, config, **kwargs)

    async def astream(
        self, input: Any, config: RunnableConfig | None = None, **kwargs: Any
    ) -> AsyncIterator[Any]:
        """`stream` for an event loop."""

        async def given() -> AsyncIterator[Any]:
            yield input

        pieces = self._atransform_stream_with_config(given(), self._astream, config, **kwargs)
        async for piece in pieces:
            yield piece

    def _invoke(
        self,
        input: Any,
        run_manager: CallbackManagerForChainRun,
        config: RunnableConfig,
        **kwargs: Any,
    ) -> Any:
        found = self.faq.ask(self._question(input), None, self.budget_ms)
        if found.outcome == "answer":
            return self.output(found)
        child = patch_config(config, callbacks=run_manager.get_child())
        return self.fallback.invoke(input, child, **kwargs)

    async def _ainvoke(
        self,
        input: Any,
        run_manager: AsyncCallbackManagerForChainRun,
        config: RunnableConfig,
        **kwargs: Any,
    ) -> Any:
        found = await self.faq.aask(self._question(input), None, self.budget_ms)
        if found.outcome == "answer":
            return self.output(found)
        child = patch_config(config, callbacks=run_manager.get_child())
        return await self.fallback.ainvoke(input, child, **kwargs)

    def _stream(
        self,
        inputs: Iterator[Any],
        run_manager: CallbackManagerForChainRun,
        config: RunnableConfig,
        **kwargs: Any,
    ) -> Iterator[Any]:
        for input in inputs:
            found = self.faq.ask(self._question(input), None, self.budget_ms)
            if found.outcome == "answer":
                yield self.output(found)
            else:
                child = patch_config(config, callbacks=run_manager.get_child())
                yield from self.fallback.stream(input, child, **kwargs)

    async def _astream(
        self,
        inputs: AsyncIterator[Any],
        run_manager: AsyncCallbackManagerForChainRun,
        config: RunnableConfig,
        **kwargs: Any,
    ) -> AsyncIterator[Any]:
        async for input in inputs:
            found = await self.faq.aask(self._question(input), None, self.budget_ms)
            if found.outcome == "answer":
                yield self.output(found)
            else:
                child = patch_config(config, callbacks=run_manager.get_child())
                async for piece in self.fallback.astream(input, child, **kwargs):
                    yield piece

    def _question(self, input: Any) -> str:
        if isinstance(input, str):
            return input
        found = input.get(self.input_key) if isinstance(input, dict) else None
        if not isinstance(found, str):
            raise InputError(
                f"the input is {type(input).__name__} and holds no text under "
                f"{self.input_key!r}: give the question itself, or say input_key="
            )
        return found
