"""Types of request bodies and query strings: they validate, and they are the schema."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from msgspec import UNSET, Meta, UnsetType, defstruct, field
from msgspec.structs import asdict

from truespan.core.fields import MAX_LABEL_LENGTH
from truespan.core.strict_json import JsonError, parse_json
from truespan.errors import InvalidArgument
from truespan.extensions.quality.compare import ALLOWED_DROP
from truespan.extensions.server.arguments import (
    METADATA_KEY,
    Arguments,
    Book,
    ContextArguments,
    DefaultFilterFields,
    FilterFields,
    PassageFields,
    Query,
    ReadingArguments,
    Rerank,
    SearchMode,
    TopK,
    describe,
    describe_text,
)
from truespan.types.arguments import (
    DOCUMENT_ARGUMENTS,
    FILTERS,
    POSITION_ARGUMENTS,
    QUERY_ARGUMENTS,
    RETRIEVAL_TOP_K,
    WORLD_ARGUMENTS,
    Form,
)
from truespan.types.audience import LABEL_PATTERN
from truespan.types.conversation import CONVERSATION_LIMIT, MAX_CONVERSATIONS
from truespan.types.document import (
    DEFAULT_FACET_VALUES,
    MAX_DOCUMENT_SEARCH_LENGTH,
    MAX_FACET_VALUES,
    MAX_PAGE_DOCUMENTS,
)
from truespan.types.note import MAX_NOTE_LENGTH, MAX_NOTE_LIMIT, NOTE_LIMIT
from truespan.types.reading import (
    LAST_FIRST,
    MAX_PAGE_CHUNKS,
    MAX_PAGE_SENTENCES,
    PAGE_CHUNKS,
    PAGE_SENTENCES,
)
from truespan.types.scope import MAX_GENERATION
from truespan.types.source import MAX_URL_LENGTH

WorldName = Annotated[str, Meta(min_length=1, max_length=200, pattern=r"\S")]
WorldDefaults = Annotated[
    Literal["recommended", "contract"], Meta(description="The defaults of requests to the world.")
]
Label = Annotated[str, Meta(min_length=1, max_length=1000)]
AudienceLabel = Annotated[
    str,
    Meta(
        min_length=1,
        # The engine itself refuses others, with the same error everywhere.
        extra_json_schema={"pattern": LABEL_PATTERN, "maxLength": MAX_LABEL_LENGTH},
    ),
]
ModelName = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=1000,
        description="An embedding model: `local`, `multilingual`, or one of the settings. By "
        "default that of the library.",
    ),
]
GenerationNumber = Annotated[
    int, Meta(ge=0, le=MAX_GENERATION, description="The number of a generation.")
]
DomainKey = Annotated[str, Meta(min_length=1, max_length=200, description="A domain's key.")]
LastRead = Annotated[int, describe(POSITION_ARGUMENTS["sentence"], ge=-1, le=LAST_FIRST)]
ChunkName = Annotated[str, describe_text(QUERY_ARGUMENTS["chunk_id"])]
NOT_SPACE = r"[^\s\u001c-\u001f\u0085]"
"""Matches a character that Python does not count as white space."""
NOT_BLANK = (
    r"[^\s\u0000-\u001f\u007f-\u00a0\u00ad\u0300-\u036f\u061c\u115f\u1160\u180b-\u180f\u200b-\u200f"
    r"\u2028-\u202f\u2060-\u2064\u2066-\u206f\u2800\u3164\ufe00-\ufe0f\ufeff\uffa0]"
)
"""Matches a character that is visible by itself; combining marks of most scripts match as well."""
_STRING = {"type": "string"}


class NewWorld(Arguments, frozen=True, kw_only=True):
    """A world to create."""

    name: WorldName
    defaults: WorldDefaults | None = None
    model: ModelName | None = None
    audience: Annotated[list[AudienceLabel], describe(WORLD_ARGUMENTS["audience"])] | None = None
    audience_required: Annotated[bool, describe(WORLD_ARGUMENTS["audience_required"])] | None = None


class ChosenDefaults(Arguments, frozen=True, kw_only=True):
    """The defaults of a world; what is left out stays."""

    defaults: WorldDefaults | None = None
    audience: Annotated[list[AudienceLabel], describe(WORLD_ARGUMENTS["audience"])] | None = None
    audience_required: Annotated[bool, describe(WORLD_ARGUMENTS["audience_required"])] | None = None


class NewGeneration(Arguments, frozen=True, kw_only=True):
    """Profiles of a new generation. By default, those of the library's settings."""

    model: ModelName | None = None
    chunking: Label | None = None


class DoctorRequest(Arguments, frozen=True, kw_only=True):
    """Options of the doctor, who only reports by default."""

    apply: bool = False
    repair: Annotated[bool, Meta(description="Run the queued repairs, without comparing.")] = False


class AliasMove(Arguments, frozen=True, kw_only=True):
    """The alias to move: of a domain, or by default of the world."""

    domain: DomainKey | None = None


class RetrieveRequest(ContextArguments, frozen=True, kw_only=True):
    """A query, a selected text, or a query within a selected text; and filters."""

    near_misses: Annotated[bool, describe(QUERY_ARGUMENTS["near_misses"])] = False

    SCHEMA: ClassVar[dict[str, Any]] = {
        "anyOf": [
            {"required": ["query"], "properties": {"query": {**_STRING, "pattern": NOT_BLANK}}},
            {
                "required": ["selected_text"],
                "properties": {
                    "query": {"type": "null"},
                    "selected_text": {**_STRING, "pattern": NOT_BLANK},
                    "mode": {"enum": [None, "auto", "vector"]},
                    "rerank": {"enum": [None, False]},
                },
            },
        ]
    }
    """Combinations of members. The engine refuses other combinations with its own errors."""


class WhyNotRequest(DefaultFilterFields, frozen=True, kw_only=True):
    """A chunk, and the retrieve request that did not return it."""

    chunk_id: ChunkName
    query: Query
    top_k: TopK = RETRIEVAL_TOP_K


class Question(FilterFields, frozen=True, kw_only=True):
    """A question, and filters for the documents that answer it."""

    query: Query
    stream: Annotated[bool, Meta(description="Send the answer as server-sent events.")] = False


class ChatQuestion(Question, frozen=True, kw_only=True):
    """A question. The world may be left out if there is only one."""

    world: Label | None = None
    conversation_id: (
        Annotated[
            str,
            Meta(
                min_length=1,
                max_length=200,
                description="The conversation that the question continues, or 'new' to start one; "
                "null for a separate question.",
            ),
        ]
        | None
    ) = None


class ReaderFollowUp(PassageFields, frozen=True, kw_only=True):
    """A further question about the book of a conversation."""

    query: Query
    stream: bool = False


class ReaderQuestion(ReaderFollowUp, frozen=True, kw_only=True):
    """A question about the part of a book that the reader has read."""

    book: Book | None = None


class ReaderWhyNotRequest(ReadingArguments, frozen=True, kw_only=True):
    """A chunk, and the reader's request that did not return it."""

    chunk_id: ChunkName


MAX_GOLDEN_TEXT = 256 << 10
"""Maximum number of characters of golden queries in a request. Parsing them takes a second."""


class EvaluationRequest(Arguments, frozen=True, kw_only=True):
    """Golden queries to ask, in one or several modes, or of two generations."""

    golden: Annotated[
        str,
        Meta(
            min_length=1,
            max_length=MAX_GOLDEN_TEXT,
            description="Golden queries as YAML or JSON Lines, as in a file.",
        ),
    ]
    modes: Annotated[
        list[SearchMode],
        Meta(description="Modes to compare; none for the default of the world.", max_length=3),
    ] = field(default_factory=list)
    generation: GenerationNumber | None = None
    against: (
        Annotated[
            GenerationNumber, Meta(description="Compare with this generation, as the old one.")
        ]
        | None
    ) = None
    allowed_drop: Annotated[
        float, Meta(ge=0.0, le=1.0, description="How far a mean may fall below the old one.")
    ] = ALLOWED_DROP
    rerank: Rerank | None = None
    reader: Annotated[Label, Meta(description="Ask as this reader of the current book.")] | None = (
        None
    )
    stream: Annotated[bool, Meta(description="Send progress as server-sent events.")] = False


class ReceiptText(Arguments, frozen=True, kw_only=True):
    """A signed receipt, exactly as it was received."""

    receipt: Annotated[str, Meta(description="The receipt as JSON text.")]


class NewPosition(Arguments, frozen=True, kw_only=True):
    """A reader's position: exactly one of a sentence, a chapter, or the passage read last."""

    book: Label
    sid: LastRead | None = None
    through_chapter: Annotated[Label, describe(POSITION_ARGUMENTS["through_chapter"])] | None = None
    passage: (
        Annotated[str, describe(POSITION_ARGUMENTS["passage"], min_length=1, max_length=5000)]
        | None
    ) = None
    current: bool = True

    SCHEMA: ClassVar[dict[str, Any]] = {
        "oneOf": [
            {"required": ["sid"], "properties": {"sid": {"type": "integer"}}},
            {"required": ["through_chapter"], "properties": {"through_chapter": _STRING}},
            {"required": ["passage"], "properties": {"passage": _STRING}},
        ]
    }


class PageQuery(Arguments, frozen=True, kw_only=True):
    offset: Annotated[int, Meta(ge=0, le=LAST_FIRST)] = 0
    limit: Annotated[int, Meta(ge=1, le=MAX_PAGE_SENTENCES)] = PAGE_SENTENCES


class DrawnPageQuery(Arguments, frozen=True, kw_only=True):
    page: Annotated[int, Meta(ge=1, le=LAST_FIRST)] = 1


class PictureQuery(DrawnPageQuery, frozen=True, kw_only=True):
    sentence: (
        Annotated[
            int,
            Meta(ge=0, le=LAST_FIRST, description="A sentence; the page that it is on is drawn."),
        ]
        | None
    ) = None


_LIST_AS_JSON = "A JSON array of strings."


_FILTERS_AS_JSON = {
    name: "A JSON array of strings." if row.form.is_list else "A JSON object, as in a search."
    for name, row in FILTERS.items()
    if row.form is not Form.TEXT
}


def _filter_type(name: str) -> Any:
    as_json = _FILTERS_AS_JSON.get(name)
    return Annotated[str, Meta(description=as_json)] if as_json else Label


class _FilterQuery(Arguments, frozen=True, kw_only=True):
    def arguments(self) -> dict[str, Any]:
        """Return the arguments of the request with JSON parsed; raises InvalidArgument."""
        left_out = (None, UNSET)
        values = {name: value for name, value in asdict(self).items() if value not in left_out}
        for name in values.keys() & {"keys", *_FILTERS_AS_JSON}:
            try:
                values[name] = parse_json(values[name])
            except JsonError as error:
                raise InvalidArgument(f"The argument {name!r} is wrong: {error}.") from None
            if not isinstance(values[name], dict if name == "metadata" else list):
                kind = "object" if name == "metadata" else "array"
                raise InvalidArgument(f"The argument {name!r} is wrong: it is not a JSON {kind}.")
        return values


if TYPE_CHECKING:

    class DocumentFilterQuery(_FilterQuery, frozen=True, kw_only=True): ...

else:
    DocumentFilterQuery = defstruct(
        "DocumentFilterQuery",
        [
            (name, _filter_type(name) | None, None)
            for name, row in FILTERS.items()
            if row.by_document
        ],
        bases=(_FilterQuery,),
        module=__name__,
        namespace={"__doc__": "Filters that choose documents, in a query string."},
        frozen=True,
        kw_only=True,
    )


class FacetQuery(DocumentFilterQuery, frozen=True, kw_only=True):
    """Labels to count, and filters for the documents."""

    keys: Annotated[str, Meta(description=f"Labels and keys. {_LIST_AS_JSON}")] | None = None
    limit: Annotated[int, Meta(ge=1, le=MAX_FACET_VALUES)] = DEFAULT_FACET_VALUES


class DocumentQuery(DocumentFilterQuery, frozen=True, kw_only=True):
    """A selection of documents, its order, and a page of it; everything without `count`."""

    search: (
        Annotated[
            str,
            Meta(
                max_length=MAX_DOCUMENT_SEARCH_LENGTH,
                description="Words in title, path, tags, URL or metadata, or the whole id.",
            ),
        ]
        | None
    ) = None
    status: Literal["ready", "ingesting", "updating", "incomplete", "damaged"] | UnsetType = UNSET
    sort: Literal[
        "number", "title", "path", "status", "kind", "language", "version", "characters", "chunks"
    ] = "number"
    descending: bool = False
    offset: Annotated[int, Meta(ge=0, le=LAST_FIRST)] = 0
    limit: Annotated[int, Meta(ge=1, le=MAX_PAGE_DOCUMENTS)] | None = None


class ChunkQuery(Arguments, frozen=True, kw_only=True):
    offset: Annotated[int, Meta(ge=0, le=LAST_FIRST)] = 0
    limit: Annotated[int, Meta(ge=1, le=MAX_PAGE_CHUNKS)] = PAGE_CHUNKS


class BookQuery(Arguments, frozen=True, kw_only=True):
    book: Label | None = None


class BookPageQuery(PageQuery, frozen=True, kw_only=True):
    book: Label | None = None


TriedPosition = Annotated[
    int,
    Meta(
        ge=-1,
        le=LAST_FIRST,
        description="Answer as if this were the last sentence read of the book; nothing is "
        "recorded. For callers who may read the whole world.",
    ),
]


class BookPictureQuery(DrawnPageQuery, frozen=True, kw_only=True):
    book: Label | None = None
    sid: TriedPosition | None = None


class GenerationQuery(Arguments, frozen=True, kw_only=True):
    """The generation to ask; by default that of the world or the domain."""

    generation: (
        Annotated[
            int,
            Meta(
                ge=0,
                le=MAX_GENERATION,
                description="The number of the generation to ask instead of the default; for "
                "callers who may read the whole world.",
            ),
        ]
        | None
    ) = None


class ReaderQuery(GenerationQuery, frozen=True, kw_only=True):
    """The generation to ask, and a position instead of the recorded one."""

    sid: TriedPosition | None = None


Highlight = Annotated[bool, describe(QUERY_ARGUMENTS["highlight"])]


class PassageQuery(GenerationQuery, frozen=True, kw_only=True):
    """The generation to ask, and whether matches are marked."""

    highlight: Highlight = False


class ReaderPassageQuery(ReaderQuery, frozen=True, kw_only=True):
    """The generation and position to ask from, and whether matches are marked."""

    highlight: Highlight = False


class UsageQuery(Arguments, frozen=True, kw_only=True):
    limit: Annotated[int, Meta(ge=0, le=10_000)] = 50


class ConversationsQuery(Arguments, frozen=True, kw_only=True):
    limit: Annotated[int, Meta(ge=1, le=MAX_CONVERSATIONS)] = CONVERSATION_LIMIT
    offset: Annotated[int, Meta(ge=0, le=LAST_FIRST)] = 0


class ReaderConversationsQuery(ConversationsQuery, frozen=True, kw_only=True):
    book: Label | None = None


class NotesQuery(Arguments, frozen=True, kw_only=True):
    book: Label | None = None
    search: (
        Annotated[str, Meta(max_length=1000, description="Words that must all occur.")] | None
    ) = None
    limit: Annotated[int, Meta(ge=1, le=MAX_NOTE_LIMIT)] = NOTE_LIMIT
    offset: Annotated[int, Meta(ge=0, le=LAST_FIRST)] = 0


class NewNote(Arguments, frozen=True, kw_only=True):
    """A note of a reader, and the sentences that it marks, if any."""

    text: Annotated[str, Meta(min_length=1, max_length=MAX_NOTE_LENGTH)]
    book: Label | None = None
    first: Annotated[int, Meta(ge=0, le=LAST_FIRST)] | None = None
    last: Annotated[int, Meta(ge=0, le=LAST_FIRST)] | None = None


class FreshnessQuery(Arguments, frozen=True, kw_only=True):
    """Time for checking sources."""

    seconds: Annotated[int, Meta(ge=1, le=60, description="Maximum time in seconds.")] = 10


class EraseQuery(Arguments, frozen=True, kw_only=True):
    """Options of a deletion. By default, data is also erased from the library's files."""

    erase: bool = True


class LabelChanges(Arguments, frozen=True, kw_only=True):
    """Labels to change; null removes one, and what is left out stays."""

    language: Label | UnsetType = UNSET
    version: Label | UnsetType | None = UNSET
    tags: list[Label] | UnsetType | None = UNSET
    audience: (
        Annotated[list[AudienceLabel], describe(DOCUMENT_ARGUMENTS["audience"])] | UnsetType
    ) = UNSET
    source_url: Label | UnsetType | None = UNSET
    metadata: (
        Annotated[
            dict[str, Any],
            Meta(
                description="Keys to add or replace; a key with null is removed.",
                extra_json_schema={"propertyNames": METADATA_KEY},
            ),
        ]
        | UnsetType
        | None
    ) = UNSET


MAX_PAGES_OF_REQUEST = 1000
Address = Annotated[str, Meta(min_length=1, max_length=MAX_URL_LENGTH)]


MAX_TEXTS_OF_REQUEST = 1000
"""Maximum number of texts in a request."""


class DocumentLabels(Arguments, frozen=True, kw_only=True):
    """Declared labels of the documents of a request."""

    kind: Annotated[Literal["document", "book"], describe(DOCUMENT_ARGUMENTS["kind"])] | None = None
    language: Annotated[Label, describe(DOCUMENT_ARGUMENTS["language"])] | None = None
    version: Annotated[Label, describe(DOCUMENT_ARGUMENTS["version"])] | None = None
    tags: Annotated[list[Label], describe(DOCUMENT_ARGUMENTS["tags"])] | None = None
    audience: Annotated[list[AudienceLabel], describe(DOCUMENT_ARGUMENTS["audience"])] | None = None
    chunking: Annotated[Label, describe(DOCUMENT_ARGUMENTS["chunking"])] | None = None


class SourcesRequest(DocumentLabels, frozen=True, kw_only=True):
    """Texts to ingest, or web pages by their addresses or as a sitemap lists them, or the sample.

    Other combinations are refused with an error.
    """

    SCHEMA: ClassVar[dict[str, Any]] = {
        "anyOf": [{"required": [name]} for name in ("texts", "urls", "sitemap", "sample")]
    }
    texts: (
        Annotated[
            list[str],
            Meta(
                min_length=1,
                max_length=MAX_TEXTS_OF_REQUEST,
                description="Texts; each becomes a document.",
            ),
        ]
        | None
    ) = None
    ids: (
        Annotated[
            list[Label],
            Meta(
                description="A name for each text; another text of the same name is a new "
                "revision. Without names, texts are named by their hashes."
            ),
        ]
        | None
    ) = None
    metadata: Annotated[list[dict[str, Any]], Meta(description="Metadata of each text.")] | None = (
        None
    )
    urls: Annotated[list[Address], Meta(max_length=MAX_PAGES_OF_REQUEST)] = field(
        default_factory=list
    )
    sitemap: Annotated[Address, describe(DOCUMENT_ARGUMENTS["sitemap"])] | None = None
    prune: Annotated[
        bool, Meta(description="Remove documents of pages that are gone, or no longer listed.")
    ] = False
    ocr: Annotated[bool, describe(DOCUMENT_ARGUMENTS["ocr"])] | None = None
    sample: Annotated[bool, Meta(description="Ingest the sample book of the package.")] = False
