"""Requests, validated before anything is read."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Any, Protocol, Self, TypedDict, cast
from unicodedata import category

from msgspec import Struct
from msgspec.structs import force_setattr, replace

from truespan.core.fields import FieldError
from truespan.errors import InvalidArgument, QueryTooLong
from truespan.types.arguments import (
    DEFAULT_LANGUAGE,
    DEFAULT_TOP_K,
    DEFAULT_VERSION,
    FILTERS,
    MAX_CONTEXT_TOKENS,
    MAX_NAME_LENGTH,
    MAX_NEIGHBOURS,
    MAX_QUERY_LENGTH,
    MAX_SELECTION_LENGTH,
    MAX_TOP_K,
    READING_TOP_K,
    RETRIEVAL_TOP_K,
    Form,
)
from truespan.types.metadata import Condition, read_conditions
from truespan.types.source import DocumentKind

RELEVANCE_FLOOR = 0.3
MAX_NUMBER = 2**31 - 1
FUSED_WEIGHT = 0.5
"""Weight of keyword scores in a blend; docs/retrieval.md explains the choice."""


class Mode(StrEnum):
    """Method of finding and ranking results."""

    AUTO = "auto"
    """`hybrid` for a request with a query, `vector` for a selected text alone."""
    HYBRID = "hybrid"
    """Keywords and similarity, blended."""
    VECTOR = "vector"
    """Similarity alone."""
    KEYWORD = "keyword"
    """The words of the query alone."""


class RankPart(StrEnum):
    """Part of the ranking of a blended search, which an evaluation can leave out."""

    WINDOW = "window"
    """Words of the query that are close together."""
    LATE = "late"
    """Comparison of the words of the query with the words of a chunk, by their states."""
    FEEDBACK = "feedback"
    """Comparison of the best candidates of a long query with the first ones, by their vectors."""


MODES = ", ".join(Mode)
_MODE_OF = {mode.value: mode for mode in Mode}


class WorldDefaults(Struct, frozen=True, kw_only=True):
    """Defaults of a world for requests, ingestion and results."""

    mode: Mode
    """Search mode."""
    language: str | None
    """Language that `retrieve` filters by; None for any."""
    version: str | None
    """Version that `retrieve` filters by; None for any."""
    plain: bool
    """Whether passages are found, ranked, quoted and made plainly.

    Ingestion leaves long tables whole, cuts windows within words, takes no plain text for a novel,
    and stores no states of words. A search refuses a query beyond the input limit of the model,
    corrects no word, finds no compound and uses no reranker. It ranks boilerplate like other text,
    leaves copies apart, ranks by similarity or words without reading the best candidates again,
    and in the mode `keyword` it has a minimum similarity. Answers use fixed thresholds and
    no evidence, quote whole passages in the order of their similarity, and render no tables.
    """
    contract_fields: bool
    """Whether results repeat fields under their names in the contract."""

    @property
    def max_query_length(self) -> int:
        """Maximum number of characters of a query, except for a search."""
        return 1000 if self.plain else MAX_QUERY_LENGTH


class Defaults(StrEnum):
    """Defaults of requests to a world, with their values."""

    values: WorldDefaults

    def __new__(cls, name: str, values: WorldDefaults) -> Self:
        member = str.__new__(cls, name)
        member._value_, member.values = name, values
        return member

    RECOMMENDED = (
        "recommended",
        WorldDefaults(
            mode=Mode.AUTO, language=None, version=None, plain=False, contract_fields=False
        ),
    )
    """Blended search, any language and version, answers by the evidence of passages."""
    CONTRACT = (
        "contract",
        WorldDefaults(
            mode=Mode.VECTOR,
            language=DEFAULT_LANGUAGE,
            version=DEFAULT_VERSION,
            plain=True,
            contract_fields=True,
        ),
    )
    """Similarity alone, the language "en" and the version "1.0" in `retrieve`, fixed thresholds."""


def check_defaults(defaults: object) -> Defaults:
    """Return defaults by their name; raises InvalidArgument."""
    if not isinstance(defaults, str) or defaults not in set(Defaults):
        raise InvalidArgument(f"defaults must be one of {', '.join(Defaults)}.")
    return Defaults(defaults)


def mode_in_force(requested: Mode | None, defaults: Defaults, query: str | None) -> Mode:
    """Return the requested mode, or the default of the world, with `auto` decided."""
    mode = requested or defaults.values.mode
    if mode is not Mode.AUTO:
        return mode
    return Mode.VECTOR if query is None else Mode.HYBRID


def check_reader_name(name: str) -> str:
    """Return the name of a reader without surrounding spaces; raises InvalidArgument."""
    if not isinstance(name, str) or not name.strip() or len(name) > 200:
        raise InvalidArgument("A reader needs a name of 1 to 200 characters.")
    return name.strip()


def check_whole(name: str, value: object, least: int, most: int) -> None:
    """Raise InvalidArgument unless a value is a whole number from `least` to `most`."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise InvalidArgument(f"{name} must be a whole number.")
    if not least <= value <= most:
        raise InvalidArgument(f"{name} must be between {least} and {most}.")


def check_share(name: str, value: object) -> None:
    """Raise InvalidArgument unless a value is a number between 0 and 1."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InvalidArgument(f"{name} must be a number.")
    # The comparison also refuses NaN, and integers too large for a float.
    if not 0.0 <= value <= 1.0:
        raise InvalidArgument(f"{name} must be between 0.0 and 1.0.")


def _check_length(name: str, value: object, longest: int) -> None:
    if value is None:
        return
    if not isinstance(value, str):
        raise InvalidArgument(f"{name} must be a string.")
    if not 1 <= len(value) <= longest:
        raise InvalidArgument(f"{name} must have between 1 and {longest} characters.")


def check_query(query: object, longest: int = MAX_QUERY_LENGTH) -> None:
    """Raise QueryTooLong if a query has more than `longest` characters."""
    if isinstance(query, str) and len(query) > longest:
        raise QueryTooLong(len(query), longest, "characters")


_BLANK = frozenset("\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0")
"""Invisible characters that Unicode classifies as letters or symbols."""


def is_blank(text: str) -> bool:
    """Return whether a text has no visible character."""
    return all(
        char.isspace() or char in _BLANK or category(char) in ("Cc", "Cf", "Cs", "Mn", "Me")
        for char in text
    )


def check_mode(mode: object, rerank: object = None, query: str | None = "") -> Mode | None:
    """Return a mode by its name, None for the world's default; check `rerank` with it."""
    if rerank is not None and not isinstance(rerank, bool):
        raise InvalidArgument("rerank must be true or false.")
    if rerank and query is None:
        raise InvalidArgument("Reranking compares passages with a query; give one.")
    found = _MODE_OF.get(mode) if isinstance(mode, str) else None
    if found is None and mode is not None:
        raise InvalidArgument(f"mode must be one of {MODES}.")
    return found


class Granularity(StrEnum):
    """Size of the passages in a result."""

    PASSAGE = "passage"
    """Whole chunks."""
    EXCERPT = "excerpt"
    """The consecutive sentences of each chunk that match best."""
    SENTENCE = "sentence"
    """The best sentences of the chunks."""


_GRANULARITIES = frozenset(Granularity)
PARTS = frozenset({Granularity.EXCERPT, Granularity.SENTENCE})
"""Granularities that return parts of chunks."""


class RankArguments(TypedDict, total=False):
    """Search mode and reranking, as keyword arguments of library methods."""

    mode: Mode | str | None
    rerank: bool | None


class PassageArguments(TypedDict, total=False):
    """Options for the returned passages, as keyword arguments of library methods."""

    neighbours: int
    granularity: Granularity | str | None
    max_tokens: int | None
    include_boilerplate: bool | None


class PassageOptions(Struct, frozen=True):
    """Options for the returned passages."""

    neighbours: int = 0
    """Number of sentences to add before and after each passage, within the token budget."""
    granularity: Granularity | None = None
    """None for the default: passages, and excerpts of them where they are quoted as an answer."""
    max_tokens: int | None = None
    """Token budget; None for the default: 4,000 tokens of context, unlimited for a search."""
    include_boilerplate: bool | None = None
    """Whether licences, lists of chapters and page numbers rank like other text instead of after
    it; None for the default of the world."""
    highlight: bool = False
    """Whether passages include the matching sentence and words. Answers do not have this option."""

    def __post_init__(self) -> None:
        check_whole("neighbours", self.neighbours, 0, MAX_NEIGHBOURS)
        if self.granularity is not None:
            if not isinstance(self.granularity, str) or self.granularity not in _GRANULARITIES:
                raise InvalidArgument(f"granularity must be one of {', '.join(Granularity)}.")
            force_setattr(self, "granularity", Granularity(self.granularity))
        if self.max_tokens is not None:
            check_whole("max_tokens", self.max_tokens, 1, MAX_NUMBER)
        if not isinstance(self.include_boilerplate, bool | None):
            raise InvalidArgument("include_boilerplate must be true or false.")
        if not isinstance(self.highlight, bool):
            raise InvalidArgument("highlight must be true or false.")

    @property
    def is_plain(self) -> bool:
        """Whether whole chunks are returned unchanged."""
        return not self.neighbours and self.granularity not in PARTS

    @property
    def reads_sentences(self) -> bool:
        """Whether sentences must be read in addition to the chunks."""
        return self.highlight or self.neighbours > 0 or self.granularity in PARTS

    def budget(self, allowed: int) -> int:
        """Return the token budget of a context; raises InvalidArgument if it exceeds `allowed`."""
        if self.max_tokens is None:
            return min(MAX_CONTEXT_TOKENS, allowed)
        if self.max_tokens > allowed:
            raise InvalidArgument(
                f"max_tokens must be between 1 and {allowed}.",
                advice="The operator can raise 'retrieval_max_tokens'.",
            )
        return self.max_tokens


class FilterArguments(TypedDict, total=False):
    """Filters as keyword arguments of library methods."""

    chapter: str | None
    section: str | None
    language: str | None
    version: str | None
    documents: Sequence[str] | None
    tags: Sequence[str]
    kinds: Sequence[str]
    source: str | None
    metadata: Mapping[str, Any] | None


FILTER_NAMES = tuple(FILTERS)


def _is_texts(value: object) -> bool:
    is_tuple = isinstance(value, tuple)
    return value is None or (is_tuple and all(isinstance(part, str) for part in value))


class Labels(Protocol):
    """The labels of a document that filters match."""

    @property
    def tags(self) -> Collection[str]: ...
    @property
    def kind(self) -> str: ...
    @property
    def version(self) -> str: ...
    @property
    def language(self) -> str: ...


def _check_conditions(wanted: object) -> tuple[Condition, ...]:
    try:
        return () if wanted is None else read_conditions(wanted)
    except FieldError as error:
        raise InvalidArgument(f"metadata {error}.") from None


class Filters(Struct, frozen=True):
    """Filters of a request by document and by place. All of them must match.

    None, and an empty tuple of tags, kinds or metadata, does not filter. `documents` are numbers,
    doc ids or names; an empty tuple of `documents` matches nothing.
    """

    chapter: str | None = None
    section: str | None = None
    language: str | None = None
    version: str | None = None
    documents: tuple[str, ...] | None = None
    tags: tuple[str, ...] = ()
    kinds: tuple[str, ...] = ()
    """Kinds of documents, any of which matches."""
    source: str | None = None
    """A pattern with `*` and `?` for the path or the source URL of a document."""
    metadata: tuple[Condition, ...] = ()

    def __post_init__(self) -> None:
        for name, row in FILTERS.items():
            value = getattr(self, name)
            if row.form is Form.TEXT:
                _check_length(name, value, MAX_NAME_LENGTH)
            elif row.form.is_list and not _is_texts(value):
                raise InvalidArgument(f"{name} must be a list of strings.")
        if self.kinds and (unknown := set(self.kinds) - set(DocumentKind)):
            known = " or ".join(repr(kind.value) for kind in DocumentKind)
            raise InvalidArgument(f"Unknown kind {min(unknown)[:40]!r}. Use {known}.")

    def match_labels(self, labels: Labels) -> bool:
        """Return whether a document has all tags, the version, the language and a kind."""
        return (
            set(self.tags) <= set(labels.tags)
            and (not self.kinds or labels.kind in self.kinds)
            and self.version in (None, labels.version)
            and matches_language(labels.language, self.language)
        )

    def with_arguments(self, arguments: FilterArguments) -> Filters:
        """Return the filters, overridden by checked keyword arguments."""
        given: dict[str, Any] = {}
        values: dict[str, Any] = {**arguments}
        for name, value in values.items():
            if name not in FILTERS:
                raise unknown_argument(name)
            form = FILTERS[name].form
            if form is Form.CONDITIONS:
                given[name] = _check_conditions(value)
            elif value is None and form in (Form.TEXTS, Form.KINDS):
                given[name] = ()
            # A string is iterable too, but never a list of filters.
            elif form.is_list and isinstance(value, Iterable) and not isinstance(value, str):
                given[name] = tuple(value)
            else:
                given[name] = value
        return replace(self, **given) if given else self


class ReaderArguments(PassageArguments, RankArguments, total=False):
    """Options of a reader's question, as keyword arguments of library methods."""


class QueryArguments(FilterArguments, PassageArguments, RankArguments, total=False):
    """Filters and options of a question, as keyword arguments of library methods."""


def unknown_argument(name: str) -> TypeError:
    """Return the error for an argument that does not exist, with the closest name."""
    from difflib import get_close_matches

    own = ("top_k", "floor", "highlight", "near_misses", "selected_text")
    known = (*own, *QueryArguments.__annotations__)
    close = get_close_matches(name, known, n=1)
    advice = f". Did you mean {close[0]!r}?" if close else ""
    return TypeError(f"got an unexpected keyword argument {name!r}{advice}")


def check_arguments(
    arguments: QueryArguments | ReaderArguments, *, filters: bool = True, **options: Any
) -> dict[str, Any]:
    """Return the fields of a request from arguments and options of passages."""
    rest: dict[str, Any] = {**arguments}
    fields = {name: rest.pop(name) for name in RankArguments.__annotations__ if name in rest}
    names = [name for name in PassageArguments.__annotations__ if name in rest]
    if names or any(options.values()):
        fields["passages"] = PassageOptions(**{name: rest.pop(name) for name in names}, **options)
    if rest and not filters:
        raise unknown_argument(min(rest))
    if rest:
        fields["filters"] = NO_FILTERS.with_arguments(cast("FilterArguments", rest))
    return fields


NO_OPTIONS = PassageOptions()
NO_FILTERS = Filters()
DEFAULT_FILTERS = frozenset({"language", "version"})
"""Fields of `Filters` for which a world may have a default in `retrieve`."""


def matches_language(language: str | None, wanted: str | None) -> bool:
    """Return whether a language matches; 'en' matches 'en-GB', and None matches any."""
    if wanted is None:
        return True
    own, other = (f"{label}".casefold().replace("_", "-") for label in (language, wanted))
    return own == other or own.startswith(f"{other}-")


class SearchRequest(Struct, frozen=True):
    """A search: query, maximum number of results and minimum similarity.

    Wrong types are refused, not converted; `True` is not accepted as an integer.
    """

    query: str
    top_k: int = DEFAULT_TOP_K
    floor: float | None = None
    """Minimum similarity; None for the default of the mode."""
    mode: Mode | None = None
    """Search mode; None for the default of the world."""
    rerank: bool | None = None
    """Whether to rerank the best candidates; None for the default of the world."""
    passages: PassageOptions = NO_OPTIONS
    filters: Filters = NO_FILTERS

    def __post_init__(self) -> None:
        if not isinstance(self.query, str):
            raise InvalidArgument("The query must be a string.")
        check_query(self.query)
        if isinstance(self.top_k, bool) or not isinstance(self.top_k, int):
            raise InvalidArgument("top_k must be a whole number.")
        if self.top_k < 0:
            raise InvalidArgument("top_k must not be negative.")
        if self.floor is not None:
            check_share("The floor", self.floor)
        force_setattr(self, "mode", check_mode(self.mode, self.rerank, self.query))


class RetrievalRequest(Struct, frozen=True):
    """A request for context: a query, a selection, or a query within a selection."""

    query: str | None = None
    selected_text: str | None = None
    top_k: int = RETRIEVAL_TOP_K
    filters: Filters = NO_FILTERS
    mode: Mode | None = None
    rerank: bool | None = None
    passages: PassageOptions = NO_OPTIONS
    by_default: frozenset[str] = DEFAULT_FILTERS
    """Filters that the caller did not set; the defaults of the world apply to them."""

    def __post_init__(self) -> None:
        if self.query is None and self.selected_text is None:
            raise InvalidArgument("Give a query, a selected text, or both.")
        check_query(self.query)
        _check_length("query", self.query, MAX_QUERY_LENGTH)
        _check_length("selected_text", self.selected_text, MAX_SELECTION_LENGTH)
        check_whole("top_k", self.top_k, 1, MAX_TOP_K)
        force_setattr(self, "mode", check_mode(self.mode, self.rerank, self.query))
        if self.mode in (Mode.HYBRID, Mode.KEYWORD) and self.query is None:
            raise InvalidArgument(f"The mode '{self.mode}' needs a query.")

    @property
    def query_type(self) -> str:
        """Type of the request in the metadata of the bundle."""
        return "standard" if self.selected_text is None else "selected_text"


class ReadingRequest(Struct, frozen=True):
    """A request of a reader. It contains neither the reader nor the position."""

    query: str
    top_k: int = READING_TOP_K
    book: str | None = None
    mode: Mode | None = None
    rerank: bool | None = None
    passages: PassageOptions = NO_OPTIONS

    def __post_init__(self) -> None:
        if self.query is None:
            raise InvalidArgument("A query is required.")
        check_query(self.query)
        _check_length("query", self.query, MAX_QUERY_LENGTH)
        check_whole("top_k", self.top_k, 1, MAX_TOP_K)
        _check_length("book", self.book, MAX_NAME_LENGTH)
        force_setattr(self, "mode", check_mode(self.mode, self.rerank, self.query))


def require_domain_key(domain: str | None) -> None:
    """Raise InvalidArgument unless the key of a domain is short, printable and without padding."""
    if domain is None:
        return
    is_plain = bool(domain) and domain == domain.strip() and domain.isprintable()
    if not is_plain or len(domain) > 200:
        raise InvalidArgument(
            "A domain's key has 1 to 200 printable characters and no surrounding white space."
        )
