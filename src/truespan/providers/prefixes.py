"""Prefixes that embedding models expect before a query and before a document."""

from __future__ import annotations

import re

from msgspec import Struct

from truespan.types.profile import INSTRUCTION


class ModelPrefixes(Struct, frozen=True):
    """Prefixes that a model expects before a query and before a document."""

    query: str = ""
    document: str = ""

    @property
    def modes(self) -> tuple[str, str]:
        """Return the modes of documents and queries as the profile states them."""
        document = INSTRUCTION + self.document if self.document else "passage"
        return document, INSTRUCTION + self.query if self.query else "plain"


GEMMA_PREFIXES = ModelPrefixes("task: search result | query: ", "title: none | text: ")
_REPRESENT = ModelPrefixes(query="Represent this sentence for searching relevant passages: ")
_FAMILIES = (
    (re.compile(r"bge[-:](small|base|large)-en"), _REPRESENT),
    (re.compile(r"mxbai-embed-large"), _REPRESENT),
    (re.compile(r"snowflake-arctic-embed2|arctic-embed-[lm]-v2"), ModelPrefixes(query="query: ")),
    (re.compile(r"arctic-embed"), _REPRESENT),
    (re.compile(r"nomic-embed-text"), ModelPrefixes("search_query: ", "search_document: ")),
    (re.compile(r"\be5-(small|base|large)"), ModelPrefixes("query: ", "passage: ")),
    (re.compile(r"embeddinggemma"), GEMMA_PREFIXES),
)
"""Prefixes of models that were trained with them, by a pattern of the name; first match wins."""


def prefixes_for(model: str) -> ModelPrefixes:
    """Return the prefixes of a model's family; none if the family is unknown."""
    matches = (prefixes for pattern, prefixes in _FAMILIES if pattern.search(model.lower()))
    return next(matches, ModelPrefixes())
