"""What is known of embedding models by name: how Ollama spells them, and how they want to be asked.

A model that is not listed is taken as it is named, and gets texts and queries as they are.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

ALIASES = {
    "baai/bge-small-en-v1.5": "hf.co/CompendiumLabs/bge-small-en-v1.5-gguf",
    "baai/bge-base-en-v1.5": "hf.co/CompendiumLabs/bge-base-en-v1.5-gguf",
    "baai/bge-large-en-v1.5": "hf.co/CompendiumLabs/bge-large-en-v1.5-gguf",
    "baai/bge-m3": "bge-m3",
    "nomic-ai/nomic-embed-text-v1.5": "nomic-embed-text:v1.5",
    "mixedbread-ai/mxbai-embed-large-v1": "mxbai-embed-large",
    "sentence-transformers/all-minilm-l6-v2": "all-minilm",
    "google/embeddinggemma-300m": "embeddinggemma",
}
"""Names under which models are published, and under which Ollama can pull the same weights.

Ollama's own library has no English bge, but it pulls GGUF files from the model hub by address.
"""

_LIBRARY = re.compile(r"^(registry\.ollama\.ai/)?(library/)?", re.IGNORECASE)


def spellings(model: str) -> list[str]:
    """Return the names a model may be installed under, the one to look for first at the front.

    The given name goes first: who has made a model of that very name wants that one.
    """
    alias = ALIASES.get(model.lower())
    return [model] if alias is None else [model, alias]


def to_pull(model: str) -> str:
    """Return the name that `ollama pull` finds."""
    return ALIASES.get(model.lower(), model)


def same_model(one: str, other: str) -> bool:
    """Say whether two names are the same to Ollama, which adds a tag and ignores case."""
    return _full(one) == _full(other)


def _full(name: str) -> str:
    name = _LIBRARY.sub("", name).lower()
    return name if ":" in name.rpartition("/")[2] else f"{name}:latest"


@dataclass(frozen=True, slots=True)
class Manner:
    """What stands before a query and before a document when a model is asked."""

    query: str = ""
    document: str = ""

    @property
    def query_mode(self) -> str:
        """Return the profile's word for it."""
        return f"instruction: {self.query}" if self.query else "plain"

    @property
    def document_mode(self) -> str:
        """Return the profile's word for it."""
        return f"instruction: {self.document}" if self.document else "passage"


_REPRESENT = Manner(query="Represent this sentence for searching relevant passages: ")
_FAMILIES = (
    (re.compile(r"bge[-:](small|base|large)-en"), _REPRESENT),
    (re.compile(r"mxbai-embed-large"), _REPRESENT),
    (re.compile(r"snowflake-arctic-embed2|arctic-embed-[lm]-v2"), Manner(query="query: ")),
    (re.compile(r"arctic-embed"), _REPRESENT),
    (re.compile(r"nomic-embed-text"), Manner("search_query: ", "search_document: ")),
    (re.compile(r"\be5-(small|base|large)"), Manner("query: ", "passage: ")),
    (
        re.compile(r"embeddinggemma"),
        Manner("task: search result | query: ", "title: none | text: "),
    ),
)
"""Models that were trained with instructions, by what their name holds; the first match counts."""


def manner_of(name: str) -> Manner:
    """Return how a model wants to be asked; as it is, unless its family is known."""
    known = (manner for pattern, manner in _FAMILIES if pattern.search(name.lower()))
    return next(known, Manner())
