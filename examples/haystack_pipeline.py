"""Haystack: a pipeline from a question to a prompt, for the owner and for a reader.

Pass the folder of a library, which is created if needed:

    python examples/haystack_pipeline.py my-library
"""

from __future__ import annotations

import sys
from pathlib import Path

from haystack import Pipeline  # pyright: ignore[reportMissingImports]
from haystack.components.builders import PromptBuilder  # pyright: ignore[reportMissingImports]

import truespan
from truespan.integrations.haystack import TruespanReadingRetriever, TruespanRetriever

PROMPT = """{% for doc in documents %}[{{ doc.meta.chapter }}, sentence {{ doc.meta.first_sid }}]
{{ doc.content }}
{% endfor %}
{{ query }}"""
BOOK = Path(__file__).with_name("the-glass-ferry.md")
QUESTION = "Who had the spare key to the tide gauge hut?"


def main(folder: str) -> None:
    """Query the book as its owner, and as Ada, who has read two chapters."""
    with truespan.open(folder, create=True) as library:
        world = library.world("mysteries", create=True)
        world.ingest(BOOK, kind="book", title="The Glass Ferry")
        world.reader("ada").set_position(BOOK.name, through_chapter="Chapter Two")
        for who, retriever in (
            ("owner", TruespanRetriever(world, top_k=2)),
            ("ada", TruespanReadingRetriever(world, "ada", top_k=2)),
        ):
            pipeline = build_pipeline(retriever)
            inputs = {"context": {"query": QUESTION}, "prompt": {"query": QUESTION}}
            print(f"{who}:", pipeline.run(inputs)["prompt"]["prompt"], "\n")


def build_pipeline(retriever: TruespanRetriever | TruespanReadingRetriever) -> Pipeline:
    """Return a pipeline that builds a prompt from the retrieved documents."""
    pipeline = Pipeline()
    pipeline.add_component("context", retriever)
    pipeline.add_component("prompt", PromptBuilder(PROMPT, required_variables="*"))
    pipeline.connect("context.documents", "prompt.documents")
    return pipeline


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "examples/demo-library")
