"""LlamaIndex: nodes to cite, for an owner and for a reader.

Run it with the folder of a library, which is made if it is not there:

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
    """Ask about the book as somebody who has all of it, and as Ada, who has read two chapters."""
    with truespan.open(folder, create=True) as library:
        world = library.world("mysteries", create=True)
        world.ingest(BOOK, kind="book", title="The Glass Ferry")
        world.reader("ada").set(BOOK.name, through_chapter="Chapter Two")
        show("owner", TruespanRetriever(world, similarity_top_k=3).retrieve(QUESTION))
        ada = TruespanReadingRetriever(world, "ada", similarity_top_k=3)
        show("ada", ada.retrieve(QUESTION))


def show(who: str, found: list[NodeWithScore]) -> None:
    """Print where each passage stands, and how it begins."""
    for one in found:
        cited = one.metadata
        place = f"{cited['chapter']}, sentences {cited['first_sid']}-{cited['last_sid']}"
        print(f"{who}: {one.score:.3f} {place}: {one.text[:60]!r}")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "demo-library")
