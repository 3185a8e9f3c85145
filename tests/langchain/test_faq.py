"""An FAQ as a tool, and before a chain."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.language_models.fake_chat_models import FakeMessagesListChatModel
from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.runnables import RunnableLambda, RunnablePassthrough
from langchain_sbert import SBERTFaqFirst, SBERTFaqTool

from sbert_retriever import Faq, FaqAnswer, FaqEntry
from sbert_retriever.errors import InputError, InputTypeError
from sbert_retriever.faq import Thresholds
from sbert_retriever.testing import HashEncoder

HOURS = "When are you open?"


@pytest.fixture
def faq() -> Iterator[Faq]:
    words = Thresholds(score=0.8, margin=0.1, choose=0.3)
    with Faq.open(":memory:", model=HashEncoder(dim=256), thresholds=words) as made:
        made.add(
            [
                FaqEntry(id="hours", answer="9 to 5.", phrasings=[HOURS], links=["https://e.org"]),
                FaqEntry(id="red", answer="r", phrasings=["price of the red car"]),
                FaqEntry(id="blue", answer="b", phrasings=["price of the blue car"]),
            ]
        )
        yield made


def call(question: str) -> dict[str, Any]:
    return {"name": "faq_lookup", "args": {"question": question}, "id": "1", "type": "tool_call"}


@pytest.mark.parametrize(
    ("question", "outcome", "says"),
    [
        ("so when are you open", "answer", "9 to 5.\nhttps://e.org"),
        ("price of the car", "choose", "- price of the red car"),
        ("capital of France", "abstain", "no answer"),
    ],
)
async def test_a_tool_call_brings_a_message_and_what_was_found(
    faq: Faq, question: str, outcome: str, says: str
) -> None:
    tool = SBERTFaqTool(faq)
    for message in (tool.invoke(call(question)), await tool.ainvoke(call(question))):
        assert isinstance(message, ToolMessage)
        assert says in message.content
        assert isinstance(message.artifact, FaqAnswer)
        assert message.artifact.outcome == outcome


def test_what_an_agent_is_told_of_the_tool(faq: Faq) -> None:
    tool = SBERTFaqTool(faq, name="shop_faq", description="Opening hours and prices.")
    assert (tool.name, tool.description) == ("shop_faq", "Opening hours and prices.")
    assert list(tool.args) == ["question"]
    assert isinstance(tool.invoke({"question": HOURS}), str)
    with pytest.raises(InputTypeError, match="expected a Faq"):
        SBERTFaqTool("faq")


def test_a_model_calls_the_tool_and_gets_the_answer(faq: Faq) -> None:
    tool = SBERTFaqTool(faq)
    model = FakeMessagesListChatModel(
        responses=[AIMessage(content="", tool_calls=[call("so when are you open")])]
    )
    asked = model.invoke("When is the shop open?")
    assert isinstance(asked, AIMessage)
    assert [tool.invoke(c).content for c in asked.tool_calls] == ["9 to 5.\nhttps://e.org"]


@pytest.fixture
def chain() -> Any:
    """A chain with a prompt, a model and a parser, as a RAG chain ends."""
    model = FakeMessagesListChatModel(responses=[AIMessage(content="from the documents")])
    prompt = ChatPromptTemplate.from_template("Answer: {question}")
    return {"question": RunnablePassthrough()} | prompt | model | StrOutputParser()


async def test_the_faq_answers_first_and_the_chain_what_it_does_not_know(faq, chain) -> None:
    first = SBERTFaqFirst(faq, chain)
    assert first.invoke("so when are you open") == "9 to 5."
    assert first.invoke("capital of France") == "from the documents"
    assert first.invoke("price of the car") == "from the documents"
    assert await first.ainvoke("so when are you open") == "9 to 5."
    assert await first.ainvoke("capital of France") == "from the documents"
    assert "".join(first.stream("capital of France")) == "from the documents"
    assert [piece async for piece in first.astream(HOURS)] == ["9 to 5."]
    assert first.batch([HOURS, "capital of France"]) == ["9 to 5.", "from the documents"]
    assert (first | StrOutputParser()).invoke(HOURS) == "9 to 5."


def test_inputs_and_outputs_of_other_shapes(faq: Faq) -> None:
    seen = []
    first = SBERTFaqFirst(
        faq,
        lambda given: seen.append(given) or {"answer": "chain"},
        input_key="input",
        output=lambda found: {"answer": found.answer, "entry": found.entry.id},
    )
    assert first.invoke({"input": HOURS, "more": 1}) == {"answer": "9 to 5.", "entry": "hours"}
    assert first.invoke({"input": "capital of France", "more": 1}) == {"answer": "chain"}
    assert seen == [{"input": "capital of France", "more": 1}]
    with pytest.raises(InputError, match="say input_key="):
        first.invoke({"question": "q"})
    with pytest.raises(InputTypeError, match="expected a Faq"):
        SBERTFaqFirst(None, lambda given: given)


class Seen(BaseCallbackHandler):
    """Remembers runs: whose children they are, and what came out."""

    def __init__(self) -> None:
        self.runs: list[tuple[Any, Any]] = []
        self.outputs: dict[Any, Any] = {}

    def on_chain_start(self, *args: Any, run_id: Any, parent_run_id: Any, **more: Any) -> None:
        self.runs.append((run_id, parent_run_id))

    def on_chain_end(self, outputs: Any, *, run_id: Any, **more: Any) -> None:
        self.outputs[run_id] = outputs


async def drained(first: SBERTFaqFirst, how: str, question: str, handler: Seen) -> str:
    config: Any = {"callbacks": [handler]}
    match how:
        case "invoke":
            return first.invoke(question, config)
        case "ainvoke":
            return await first.ainvoke(question, config)
        case "stream":
            return "".join(first.stream(question, config))
        case _:
            return "".join([piece async for piece in first.astream(question, config)])


@pytest.mark.parametrize("how", ["invoke", "ainvoke", "stream", "astream"])
async def test_an_answer_is_a_run_and_the_chain_s_is_its_child(faq: Faq, how: str) -> None:
    """An answer that was streamed was traced nowhere."""
    first = SBERTFaqFirst(faq, RunnableLambda(lambda given: "chain"))
    handler = Seen()
    assert await drained(first, how, HOURS, handler) == "9 to 5."
    ((run, none),) = handler.runs
    assert none is None
    assert handler.outputs == {run: "9 to 5."}
    handler = Seen()
    assert await drained(first, how, "capital of France", handler) == "chain"
    (outer, none), (inner, parent) = handler.runs
    assert none is None
    assert parent == outer
    assert handler.outputs == {outer: "chain", inner: "chain"}
