"""LlamaIndex: nodes with citations, for the owner and for a reader.

Pass the folder of a library, which is created if needed:

    python examples/llamaindex_retriever.py my-library
"""

from __future__ import annotations

import sys
from pathlib import Path

from llama_index.core.schema import NodeWithScore  # pyright: ignore[reportMissingImports]

import truespan
from truespan.integrations.llamaindex import TruespanReadingRetriever, TruespanRetriever

BOOK = Path(__file__).with_name("the-glass-ferry.md")
QUESTION = "Who had the spare key to the tide gauge hut?"


def main(folder: str) -> None:
    """Query the book as its owner, and as Ada, who has read two chapters."""
    with truespan.open(folder, create=True) as library:
        world = library.world("mysteries", create=True)
        world.ingest(BOOK, kind="book", title="The Glass Ferry")
        world.reader("ada").set_position(BOOK.name, through_chapter="Chapter Two")
        show("owner", TruespanRetriever(world, similarity_top_k=3).retrieve(QUESTION))
        ada = TruespanReadingRetriever(world, "ada", similarity_top_k=3)
        show("ada", ada.retrieve(QUESTION))


def show(who: str, found: list[NodeWithScore]) -> None:
    """Print the place and the beginning of each passage."""
    for node in found:
        cited = node.metadata
        place = f"{cited['chapter']}, sentences {cited['first_sid']}-{cited['last_sid']}"
        print(f"{who}: {node.score:.3f} {place}: {node.text[:60]!r}")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "examples/demo-library")
