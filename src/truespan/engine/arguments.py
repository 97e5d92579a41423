"""Arguments that several methods share, listed by `help` for each of these methods.

A method takes them as `**arguments: Unpack[...]`, so that each is declared once. `list_arguments`
puts them into the signature and the docstring that `help` and editors show.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, TypeVar

from truespan.types.request import (
    FilterArguments,
    QueryArguments,
    ReaderArguments,
)
from truespan.types.source import DocumentArguments, IngestArguments, LabelArguments

F = TypeVar("F", bound=Callable[..., Any])

_FILTERS = {
    "chapter": "Only text of this chapter, by its full name.",
    "section": "Only text of this section, by its full name.",
    "language": "Only documents in this language; 'en' includes 'en-GB'.",
    "version": "Only documents with this version.",
    "documents": "Only these documents, by number, id, URL or path.",
    "tags": "Only documents with all of these tags.",
    "kinds": "Only documents of these kinds: 'document', 'book'.",
    "source": "Only documents whose path or URL matches this pattern with '*' and '?'.",
    "metadata": "Only documents that meet these conditions, by key of their metadata.",
}
_RANK = {
    "mode": "'hybrid', 'vector', 'keyword' or 'auto'; None for the default of the world.",
    "rerank": "Whether the reranker orders the first candidates; None: as the world does.",
}
_PASSAGES = {
    "neighbours": "Number of sentences to add before and after each passage, if they fit.",
    "granularity": "'passage' for whole passages, 'sentence' for their best sentences.",
    "max_tokens": "Token budget; None for the default.",
    "include_boilerplate": "Whether boilerplate ranks like other text; None: as the world does.",
}
_LABELS = {
    "language": "Language; by default detected.",
    "version": "Version label; by default '1.0'.",
    "tags": "Tags to filter by.",
    "source_url": "URL of a single document, shown in citations.",
    "metadata": "Metadata to filter by and to show, as a mapping.",
}
_DOCUMENTS = {
    "kind": "'book' for text that is read from beginning to end, 'document' for all other text.",
    "title": "Title of a single document.",
    "chunking": "Name of a chunking profile.",
    "fields": "Fields of the records of a table or a JSON file; each record becomes a document.",
    "ocr": "Whether to recognise the text of images and scanned pages.",
    "hidden_sheets": "Whether to read hidden sheets, rows and columns of workbooks.",
    "running_heads": "Whether running heads and page numbers of a PDF stay in its text.",
    "copies": "Treatment of a file with the content of another document: 'keep', 'refuse', 'link'.",
}
_INGEST = {
    "prune": "Whether to delete documents below the given folders whose files are gone.",
    "allow_empty": "Whether `prune` may delete all documents of a folder.",
    "within": "Folders that paths and links must not leave.",
}
_MEANINGS: dict[str, tuple[type, dict[str, str]]] = {
    "FilterArguments": (FilterArguments, _FILTERS),
    "ReaderArguments": (ReaderArguments, _RANK | _PASSAGES),
    "QueryArguments": (QueryArguments, _RANK | _PASSAGES | _FILTERS),
    "LabelArguments": (LabelArguments, _LABELS),
    "DocumentArguments": (DocumentArguments, _DOCUMENTS | _LABELS),
    "IngestArguments": (IngestArguments, _DOCUMENTS | _LABELS | _INGEST),
}
_DEFAULTS: dict[str, Any] = {
    "neighbours": 0,
    "granularity": "passage",
    **dict.fromkeys(("prune", "allow_empty"), False),
}


def list_arguments(method: F) -> F:
    """List the arguments behind `**arguments` in the signature and the docstring of a method."""
    signature = inspect.signature(method)
    *named, gathered = signature.parameters.values()
    name = str(gathered.annotation).removeprefix("Unpack[").removesuffix("]")
    kind, meanings = _MEANINGS[name]
    signature = signature.replace(parameters=[*named, *_parameters(kind)])
    setattr(method, "__signature__", signature)  # noqa: B010 -- no attribute of a callable
    method.__doc__ = _with_arguments(inspect.cleandoc(method.__doc__ or ""), meanings)
    return method


def _parameters(kind: type) -> list[inspect.Parameter]:
    empty = ("tags", "kinds") if "kinds" in kind.__annotations__ else ()
    return [
        inspect.Parameter(
            name,
            inspect.Parameter.KEYWORD_ONLY,
            default=() if name in empty else _DEFAULTS.get(name),
            annotation=getattr(annotation, "__forward_arg__", annotation),
        )
        for name, annotation in kind.__annotations__.items()
    ]


def _with_arguments(text: str, meanings: dict[str, str]) -> str:
    """Return a docstring whose list of arguments ends with further ones."""
    lines = [f"    {name}: {meaning}" for name, meaning in meanings.items()]
    before, end, after = text.partition("\n\nReturns:")
    if "\nArgs:\n" not in before:
        before += "\n\nArgs:"
    return "\n".join([before, *lines]) + end + after
