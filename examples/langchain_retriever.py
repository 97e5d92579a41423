"""LangChain: documents with citations, for the owner and for a reader.

Pass the folder of a library, which is created if needed:

    python examples/langchain_retriever.py my-library
"""

from __future__ import annotations

import sys
from pathlib import Path

from langchain_core.documents import Document  # pyright: ignore[reportMissingImports]

import truespan
from truespan.integrations.langchain import TruespanReadingRetriever, TruespanRetriever

BOOK = Path(__file__).with_name("the-glass-ferry.md")
QUESTION = "Who had the spare key to the tide gauge hut?"


def main(folder: str) -> None:
    """Query the book as its owner, and as Ada, who has read two chapters."""
    with truespan.open(folder, create=True) as library:
        world = library.world("mysteries", create=True)
        world.ingest(BOOK, kind="book", title="The Glass Ferry")
        world.reader("ada").set_position(BOOK.name, through_chapter="Chapter Two")
        show("owner", TruespanRetriever(world=world, k=3).invoke(QUESTION))
        show("ada", TruespanReadingRetriever(world=world, reader="ada", k=3).invoke(QUESTION))


def show(who: str, found: list[Document]) -> None:
    """Print the place and the beginning of each passage."""
    for document in found:
        cited = document.metadata
        place = f"{cited['chapter']}, sentences {cited['first_sid']}-{cited['last_sid']}"
        print(f"{who}: {cited['score']:.3f} {place}: {document.page_content[:60]!r}")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "examples/demo-library")
