"""Answer questions from your own texts in a LangChain chain, and show where each answer is from.

The chat model here says what it is told to, so that the example runs without a network: put your
own (ChatOpenAI, ChatOllama, ...) in its place. All else is as you would use it.

Run it: python examples/rag_chain.py
"""

from __future__ import annotations

from langchain_core.documents import Document
from langchain_core.language_models import GenericFakeChatModel
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.runnables import RunnableLambda, RunnablePassthrough
from langchain_sbert import SBERTRetriever

DOCUMENTS = [
    Document(
        "Sourdough rises by wild yeast and lactic bacteria, which live in a starter of flour and "
        "water.",
        metadata={"source": "bread.md", "page": 3},
    ),
    Document(
        "A starter is fed with equal weights of flour and water, once a day at room temperature.",
        metadata={"source": "bread.md", "page": 4},
    ),
    Document(
        "The funicular to the castle runs every ten minutes until midnight.",
        metadata={"source": "city.md", "page": 1},
    ),
    Document(
        "Tickets for the funicular are sold at the lower station; children under six ride free.",
        metadata={"source": "city.md", "page": 2},
    ),
]

PROMPT = ChatPromptTemplate.from_messages(
    [
        ("system", "Answer from these notes only, and say so if they do not tell:\n\n{context}"),
        ("human", "{question}"),
    ]
)


def with_sources(documents: list[Document]) -> str:
    """The context as the prompt takes it: each text under its source."""
    return "\n\n".join(
        f"[{d.metadata['source']}, page {d.metadata['page']}]\n{d.page_content}" for d in documents
    )


def main() -> None:
    chat = GenericFakeChatModel(
        messages=iter(["Feed it once a day.", "They ride free; buy yours at the lower station."])
    )
    answer = PROMPT | chat | StrOutputParser()
    with SBERTRetriever.open(
        ":memory:", model="all-MiniLM-L6-v2", k=2, score_threshold=0.2
    ) as retriever:
        retriever.add_documents(DOCUMENTS)
        # The documents go beside the answer, so that it can be checked.
        chain = RunnablePassthrough.assign(
            documents=RunnableLambda(lambda asked: asked["question"]) | retriever
        ).assign(
            answer=RunnablePassthrough.assign(
                context=RunnableLambda(lambda found: with_sources(found["documents"]))
            )
            | answer
        )
        for question in ("How often do I feed my starter?", "What do children pay?"):
            result = chain.invoke({"question": question})
            print(f"Q: {question}\nA: {result['answer']}")
            for document in result["documents"]:
                source, page = document.metadata["source"], document.metadata["page"]
                print(f"   from {source}, page {page}: {document.page_content[:60]}...")
            print()


if __name__ == "__main__":
    main()
