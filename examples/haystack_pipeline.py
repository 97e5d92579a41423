"""Haystack: a pipeline from a question to a prompt, for an owner and for a reader.

Run it with the folder of a library, which is made if it is not there:

    python examples/haystack_pipeline.py my-library
"""

from __future__ import annotations

import sys
from pathlib import Path

from haystack import Pipeline  # pyright: ignore[reportMissingImports]
from haystack.components.builders import PromptBuilder  # pyright: ignore[reportMissingImports]

import truespan
from truespan.integrations.haystack import TruespanReadingRetriever, TruespanRetriever

PROMPT = """{% for one in documents %}[{{ one.meta.chapter }}, sentence {{ one.meta.first_sid }}]
{{ one.content }}
{% endfor %}
{{ query }}"""
BOOK = Path(__file__).with_name("the-glass-ferry.md")
QUESTION = "Who had the spare key to the tide gauge hut?"


def main(folder: str) -> None:
    """Ask about the book as somebody who has all of it, and as Ada, who has read two chapters."""
    with truespan.open(folder, create=True) as library:
        world = library.world("mysteries", create=True)
        world.ingest(BOOK, kind="book", title="The Glass Ferry")
        world.reader("ada").set(BOOK.name, through_chapter="Chapter Two")
        for who, retriever in (
            ("owner", TruespanRetriever(world, top_k=2)),
            ("ada", TruespanReadingRetriever(world, "ada", top_k=2)),
        ):
            pipeline = prompting(retriever)
            asked = {"context": {"query": QUESTION}, "prompt": {"query": QUESTION}}
            print(f"{who}:", pipeline.run(asked)["prompt"]["prompt"], "\n")


def prompting(retriever: TruespanRetriever | TruespanReadingRetriever) -> Pipeline:
    """Return a pipeline that writes a prompt from what the retriever finds."""
    pipeline = Pipeline()
    pipeline.add_component("context", retriever)
    pipeline.add_component("prompt", PromptBuilder(PROMPT, required_variables="*"))
    pipeline.connect("context.documents", "prompt.documents")
    return pipeline


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "demo-library")
