"""Arguments that several interfaces take: the description, default and limits of each.

The library (`engine.arguments`), the command line (`cli.options`), HTTP and MCP
(`extensions.server.arguments`) show these descriptions, so that all of them say the same. The
module imports nothing of the package: `truespan --help` needs the descriptions, but no records.
"""

from collections.abc import Mapping
from enum import Enum
from typing import Any, NamedTuple

DEFAULT_TOP_K = 10
DEFAULT_FLOOR = 0.15
RETRIEVAL_TOP_K = 5
READING_TOP_K = 20
MAX_TOP_K = 20
MAX_QUERY_LENGTH = 10_000
"""Maximum number of characters of a query. A query beyond the input limit is embedded in parts."""
MAX_NAME_LENGTH = 1000
"""Maximum number of characters of a filter or of the name of a book."""
MAX_SELECTION_LENGTH = 5000
MAX_CONTEXT_TOKENS = 4000
MAX_REQUESTED_TOKENS = 32_000
"""Maximum token budget of a request, unless the operator sets another."""
MAX_NEIGHBOURS = 10
MAX_FRESHNESS_SECONDS = 600
DEFAULT_LANGUAGE = "en"
DEFAULT_VERSION = "1.0"


class Argument(NamedTuple):
    """An argument of a call. Limits are those of a number, or of the length of a text."""

    description: str
    default: Any = None
    minimum: int | None = None
    maximum: int | None = None


def _name(description: str) -> Argument:
    return Argument(description, minimum=1, maximum=MAX_NAME_LENGTH)


class Form(Enum):
    """Form of the value of a filter."""

    TEXT = "text"
    TEXTS = "texts"
    KINDS = "kinds"
    """Kinds of documents."""
    REFERENCES = "references"
    """Names of documents; an empty list matches nothing."""
    CONDITIONS = "conditions"
    """Conditions on metadata, by key."""

    @property
    def is_list(self) -> bool:
        return self in (Form.TEXTS, Form.KINDS, Form.REFERENCES)


class Filter(NamedTuple):
    """A filter: its argument, the form of its value, and whether it chooses whole documents."""

    argument: Argument
    form: Form = Form.TEXT
    by_document: bool = True


FILTERS: Mapping[str, Filter] = {
    "chapter": Filter(_name("Only text of this chapter, by its full name."), by_document=False),
    "section": Filter(_name("Only text of this section, by its full name."), by_document=False),
    "language": Filter(_name("Only documents in this language; 'en' includes 'en-GB'.")),
    "version": Filter(_name("Only documents with this version.")),
    "documents": Filter(
        Argument("Only these documents, by number, id, URL or path."), Form.REFERENCES
    ),
    "tags": Filter(Argument("Only documents with all of these tags.", ()), Form.TEXTS),
    "kinds": Filter(Argument("Only documents of these kinds: 'document', 'book'.", ()), Form.KINDS),
    "source": Filter(
        _name(
            "Only documents whose path or URL matches this pattern with '*' and '?', such as "
            "'handbook/*'."
        )
    ),
    "metadata": Filter(
        Argument("Only documents that meet these conditions, by key of their metadata."),
        Form.CONDITIONS,
    ),
}
"""All filters, in the order of the members of `Filters`. Every interface takes them from here."""
QUERY_ARGUMENTS: Mapping[str, Argument] = {
    "query": Argument("The text to search for.", minimum=1, maximum=MAX_QUERY_LENGTH),
    "selected_text": Argument(
        "A passage to rank by; with a query, the passage to search in.",
        minimum=1,
        maximum=MAX_SELECTION_LENGTH,
    ),
    "book": _name("The book, by number, doc_id, title, URL or path; default: the current one."),
    "chunk_id": Argument("Id of the chunk.", minimum=1, maximum=200),
    "top_k": Argument("Maximum number of passages.", minimum=1, maximum=MAX_TOP_K),
    "floor": Argument(
        f"Minimum similarity, from 0.0 to 1.0. Default: {DEFAULT_FLOOR}; in keyword mode 0.0, "
        "unless the world has the contract's defaults.",
        minimum=0,
        maximum=1,
    ),
    "near_misses": Argument("Whether to include passages that scored just below the floor."),
    "highlight": Argument("Whether each passage says which of its sentences and words match."),
    "mode": Argument(
        "Search by keywords and similarity ('hybrid'), by similarity alone ('vector') or by "
        "keywords alone ('keyword'); 'auto' chooses. Default: the world's mode."
    ),
    "rerank": Argument(
        "Whether the configured reranker orders the first candidates; default: as the world does."
    ),
    "neighbours": Argument(
        f"Number of sentences, 0 to {MAX_NEIGHBOURS}, to add before and after each passage, if "
        "they fit.",
        0,
        0,
        MAX_NEIGHBOURS,
    ),
    "granularity": Argument(
        "'passage' for whole passages, 'excerpt' for the matching part of each, 'sentence' for "
        "their best sentences. Default: passages, but excerpts where an answer quotes them "
        "without a model."
    ),
    "max_tokens": Argument(
        f"Token budget; default: {MAX_CONTEXT_TOKENS}, or none for a search. The operator sets the "
        "maximum.",
        minimum=1,
        maximum=MAX_REQUESTED_TOKENS,
    ),
    "notes": Argument(
        "Whether to add the reader's own notes that have words of the query, as far as the token "
        "budget has room for them.",
        False,
    ),
    "include_boilerplate": Argument(
        "Whether licences, lists of chapters and page numbers rank like other text, not after it; "
        "default: as the world does."
    ),
    **{name: row.argument for name, row in FILTERS.items()},
}
POSITION_ARGUMENTS: Mapping[str, Argument] = {
    "sentence": Argument("Number of the last sentence read, from 0; -1 for nothing.", minimum=-1),
    "through_chapter": _name("The last chapter read to its end, by its name or printed number."),
    "passage": _name("The words read last, as in the book."),
}
DOCUMENT_ARGUMENTS: Mapping[str, Argument] = {
    "kind": Argument(
        "'book' for text that is read from beginning to end, 'document' for all other text; "
        "default: by content."
    ),
    "title": Argument("Title of a single document; default: the title of the file."),
    "chunking": Argument(
        "Chunking profile: 'window', 'sentences', 'tokens' or your own; default: by kind."
    ),
    "fields": Argument(
        "Fields of the records of a table or a JSON file; each record becomes a document."
    ),
    "ocr": Argument("Whether to recognise the text of images and scanned pages."),
    "hidden_sheets": Argument("Whether to read hidden sheets, rows and columns of workbooks."),
    "running_heads": Argument(
        "Whether running heads and page numbers of a PDF file stay in its text."
    ),
    "copies": Argument(
        "Treatment of a file with the content of another document: 'keep', 'refuse' or 'link'."
    ),
    "language": Argument("Language code; default: detected."),
    "version": Argument("Version label; default: '1.0'."),
    "tags": Argument("Tags to filter by."),
    "audience": Argument(
        "Labels of the callers who see the document, such as 'group:legal'; an empty list: only "
        "the owner. Default: the present audience, or the world's."
    ),
    "source_url": Argument("URL of a single document, shown in citations."),
    "metadata": Argument("Metadata to filter by and to show."),
    "prune": Argument(
        "Whether to delete documents below the ingested folders whose files are gone.", False
    ),
    "allow_empty": Argument("Whether 'prune' may delete all documents of a folder.", False),
    "within": Argument("Folders that paths and links must not leave."),
    "manifest": Argument("A JSON Lines file that lists files with their labels."),
    "sitemap": Argument("URL of a sitemap whose pages are ingested."),
    "golden": Argument(
        "File of golden queries; the alias moves only if the new generation scores no worse."
    ),
}

WORLD_ARGUMENTS: Mapping[str, Argument] = {
    "audience": Argument(
        "Labels of new documents that declare no audience; an empty list: only the owner."
    ),
    "audience_required": Argument("Whether new documents must declare an audience."),
}
