"""A company-document bot on LangChain: tags, metadata, and a token that may only read.

The chat model is one of LangChain's own for tests, so nothing leaves this machine; put yours in its
place. Pass the folder of a library, which is created if needed:

    python examples/company_bot.py my-library
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from langchain_core.documents import Document  # pyright: ignore[reportMissingImports]
from langchain_core.language_models import (  # pyright: ignore[reportMissingImports]
    BaseChatModel,
    FakeListChatModel,
)
from langchain_core.prompts import ChatPromptTemplate  # pyright: ignore[reportMissingImports]

import truespan
from truespan.engine.world import World
from truespan.integrations.langchain import TruespanRetriever

FOLDER = Path(__file__).with_name("company")
DOCUMENTS: dict[str, dict[str, Any]] = {
    "leave-2019.md": {"tags": ["people"], "metadata": {"team": "people", "year": 2019}},
    "leave-2026.md": {"tags": ["people"], "metadata": {"team": "people", "year": 2026}},
    "keys.md": {"tags": ["security"], "metadata": {"team": "security", "year": 2026}},
}
QUESTION = "How many days of annual leave do I have?"
PROMPT = ChatPromptTemplate.from_messages(
    [
        ("system", "Answer from these sources and cite them by number.\n\n{sources}"),
        ("human", "{question}"),
    ]
)


def fill(folder: str) -> str:
    """Ingest the documents as the owner and return the secret of a token for the bot."""
    with truespan.open(folder, create=True) as library:
        world = library.world("company", create=True)
        for name, declared in DOCUMENTS.items():
            world.ingest(FOLDER / name, **declared)
        _, secret = library.tokens.create("company bot", worlds=["company"])
        return secret.reveal()


def answer(world: World, question: str, model: BaseChatModel, **filters: Any) -> str:
    """Answer from the documents that pass the filters, with a list of sources."""
    retriever = TruespanRetriever(world=world, k=2, **filters)
    found = retriever.invoke(question)
    sources = "\n\n".join(f"[{n}] {one.page_content}" for n, one in enumerate(found, start=1))
    said = (PROMPT | model).invoke({"sources": sources, "question": question})
    return "\n".join([str(said.content), *cited(found)])


def cited(found: list[Document]) -> list[str]:
    """Return a line for each source: its number, document, similarity and hash."""
    return [
        f"  [{n}] {one.metadata['source']}, {one.metadata['score']:.2f}, "
        f"sha256 {one.metadata['text_hash'][:12]}"
        for n, one in enumerate(found, start=1)
    ]


def main(folder: str) -> None:
    """Ask with three filters, and try what the token does not allow."""
    secret = fill(folder)
    model = FakeListChatModel(
        responses=["Twenty-five [1] or thirty days [2].", "Thirty days [1].", "It does not say."]
    )
    with truespan.open(folder) as library:
        authority = library.authenticate(secret)
    with truespan.open(folder, authority=authority) as library:
        world = library.world("company")
        for filters in (
            {"document_tags": ["people"]},
            {"document_metadata": {"team": "people", "year": {"gte": 2024}}},
            {"document_metadata": {"team": {"any_of": ["security", "facilities"]}}},
        ):
            print(f"{QUESTION} {filters}")
            print(answer(world, QUESTION, model, **filters))
        try:
            world.ingest(FOLDER / "keys.md")
        except truespan.TruespanError as error:
            print(f"The token does not allow changes: {error.code}")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "examples/demo-library")
