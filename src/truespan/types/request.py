"""Requests, checked before anything is read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any, TypedDict, cast
from unicodedata import category

from msgspec import Struct
from msgspec.structs import force_setattr, replace

from truespan.core.fields import FieldError
from truespan.errors import InvalidArgument, QueryTooLong
from truespan.types.metadata import Condition, read_conditions
from truespan.types.source import DocumentKind

DEFAULT_TOP_K = 10
DEFAULT_FLOOR = 0.15

RETRIEVAL_TOP_K = 5
MAX_TOP_K = 20
MAX_QUERY_LENGTH = 10_000
"""Characters of a query. One that is longer than the model reads is embedded in parts."""
CONTRACT_QUERY = 1000
"""The same in a world with the defaults `contract`, except for a search. There a query that is
longer than the model reads is refused."""
MAX_NAME_LENGTH = 1000
"""Characters of a filter or of the name of a book."""
MAX_SELECTION_LENGTH = 5000
RELEVANCE_FLOOR = 0.3
MAX_CONTEXT_TOKENS = 4000
MAX_REQUESTED_TOKENS = 32_000
"""The largest token budget that a request may ask for, unless the operator sets another."""
MAX_NEIGHBOURS = 10
READING_TOP_K = 20
MAX_NUMBER = 2**31 - 1
DEFAULT_LANGUAGE = "en"
DEFAULT_VERSION = "1.0"
FUSED_WEIGHT = 0.5
"""What words count for in a blend, of one; docs/fused-search.md says how it was chosen."""


class Mode(StrEnum):
    """How results are found and ordered."""

    AUTO = "auto"
    """By words and similarity, blended; by similarity alone where a request has no words."""
    MEANING = "meaning"
    """By similarity alone."""
    WORDS = "words"
    """By the words of the query alone."""


MODES = ", ".join(Mode)
_MODE_OF = {mode.value: mode for mode in Mode}


class Defaults(StrEnum):
    """What the requests of a world do unless they say otherwise."""

    RECOMMENDED = "recommended"
    """Words and similarity, any language and version, thresholds measured for the model."""
    CONTRACT = "contract"
    """Similarity alone, the language "en" and the version "1.0" in `retrieve`, fixed thresholds."""

    @property
    def mode(self) -> Mode:
        """Return how requests of such a world search."""
        return Mode.AUTO if self is Defaults.RECOMMENDED else Mode.MEANING


def check_defaults(defaults: object) -> Defaults:
    """Return defaults by their name; raises InvalidArgument."""
    if not isinstance(defaults, str) or defaults not in set(Defaults):
        raise InvalidArgument(f"defaults must be one of {', '.join(Defaults)}.")
    return Defaults(defaults)


def mode_in_force(requested: Mode | None, defaults: Defaults, query: str | None) -> Mode:
    """Return how a request searches: as it asks, else as its world does by default.

    Without a query there are no words, so `auto` leaves similarity.
    """
    mode = requested or defaults.mode
    return Mode.MEANING if mode is Mode.AUTO and query is None else mode


def check_reader_name(name: str) -> str:
    """Return the name of a reader without surrounding spaces.

    Raises:
        InvalidArgument: it is blank or too long.
    """
    if not isinstance(name, str) or not name.strip() or len(name) > 200:
        raise InvalidArgument("A reader needs a name of 1 to 200 characters.")
    return name.strip()


def check_whole(name: str, value: object, least: int, most: int) -> None:
    """Raise InvalidArgument unless a value is a whole number between two others."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise InvalidArgument(f"{name} must be a whole number.")
    if not least <= value <= most:
        raise InvalidArgument(f"{name} must lie between {least} and {most}.")


def check_share(name: str, value: object) -> None:
    """Raise InvalidArgument unless a value is a number between 0 and 1."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InvalidArgument(f"{name} must be a number.")
    # A whole number may be too large for `math`, and NaN is not between any two numbers.
    if not 0.0 <= value <= 1.0:
        raise InvalidArgument(f"{name} must lie between 0.0 and 1.0.")


def _check_length(name: str, value: object, longest: int) -> None:
    if value is None:
        return
    if not isinstance(value, str):
        raise InvalidArgument(f"{name} must be a string.")
    if not 1 <= len(value) <= longest:
        raise InvalidArgument(f"{name} must have between 1 and {longest} characters.")


def check_query(query: object, longest: int = MAX_QUERY_LENGTH) -> None:
    """Raise QueryTooLong for a text with more characters than a query may have."""
    if isinstance(query, str) and len(query) > longest:
        raise QueryTooLong(len(query), longest, "characters")


_BLANK = frozenset("\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0")
"""Characters that Unicode calls letters or symbols, and that show nothing."""


def is_blank(text: str) -> bool:
    """Return whether a text has no visible character: none but spaces, controls and the like."""
    return all(
        char.isspace() or char in _BLANK or category(char) in ("Cc", "Cf", "Cs", "Mn", "Me")
        for char in text
    )


def check_mode(mode: object) -> Mode | None:
    """Return a mode by its name, None for the world's default; raises InvalidArgument."""
    if mode is None:
        return None
    found = _MODE_OF.get(mode) if isinstance(mode, str) else None
    if found is None:
        raise InvalidArgument(f"mode must be one of {MODES}.")
    return found


def check_rerank(rerank: object, query: str | None) -> None:
    """Raise InvalidArgument unless `rerank` is true, false or None, and true only with a query."""
    if rerank is not None and not isinstance(rerank, bool):
        raise InvalidArgument("rerank must be true or false.")
    if rerank and query is None:
        raise InvalidArgument("Reranking compares passages with a query; give one.")


class Granularity(StrEnum):
    """What a result consists of."""

    PASSAGE = "passage"
    """Whole chunks."""
    SENTENCE = "sentence"
    """The best sentences of these chunks."""


_GRANULARITIES = frozenset(Granularity)


class PassageArguments(TypedDict, total=False):
    """How much of what is found is returned, as the keyword arguments of library methods."""

    neighbours: int
    granularity: Granularity | str
    max_tokens: int | None
    include_boilerplate: bool | None


class PassageOptions(Struct, frozen=True):
    """How much of what is found is returned."""

    neighbours: int = 0
    """How many sentences before and after each passage are added, as far as the budget allows."""
    granularity: Granularity = Granularity.PASSAGE
    max_tokens: int | None = None
    """The token budget; None for the default: 4,000 tokens of context, none for a search."""
    include_boilerplate: bool | None = None
    """Whether licences, lists of chapters and page numbers rank like any other text instead of
    after it; None for the default of the world."""
    highlight: bool = False
    """Whether each passage says which of its sentences and words match. Not an option of answers,
    so it is no argument that all requests share."""

    def __post_init__(self) -> None:
        check_whole("neighbours", self.neighbours, 0, MAX_NEIGHBOURS)
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
        """Return whether whole chunks are returned as they are."""
        return not self.neighbours and self.granularity is Granularity.PASSAGE

    @property
    def reads_sentences(self) -> bool:
        """Return whether sentences are read besides the chunks that were found."""
        return self.highlight or not self.is_plain

    def budget(self, allowed: int) -> int:
        """Return the token budget of a context; raises InvalidArgument if it is not allowed."""
        if self.max_tokens is None:
            return min(MAX_CONTEXT_TOKENS, allowed)
        if self.max_tokens > allowed:
            raise InvalidArgument(
                f"max_tokens must lie between 1 and {allowed}.",
                advice="The operator can raise 'retrieval_max_tokens'.",
            )
        return self.max_tokens


class FilterArguments(TypedDict, total=False):
    """Filters as the keyword arguments of library methods, under the names of the interfaces."""

    chapter_filter: str | None
    section_filter: str | None
    language_constraint: str | None
    version_constraint: str | None
    documents: Sequence[str] | None
    tags: Sequence[str]
    kinds: Sequence[str]
    source_pattern: str | None
    metadata_filter: Mapping[str, Any] | None


FILTER_ARGUMENTS = {
    name: name.removesuffix("_filter").removesuffix("_constraint").removesuffix("_pattern")
    for name in FilterArguments.__annotations__
}
"""The member of `Filters` behind each argument."""
_LISTS = ("documents", "tags", "kinds")


def _check_conditions(name: str, wanted: object) -> tuple[Condition, ...]:
    try:
        return () if wanted is None else read_conditions(wanted)
    except FieldError as error:
        raise InvalidArgument(f"{name} {error}.") from None


class Filters(Struct, frozen=True):
    """Which documents and which part of them a request covers. All conditions hold together.

    None, and no tags, kinds or conditions, restrict nothing. `documents` are numbers, doc ids or
    names; an empty tuple of them matches nothing.
    """

    chapter: str | None = None
    section: str | None = None
    language: str | None = None
    version: str | None = None
    documents: tuple[str, ...] | None = None
    tags: tuple[str, ...] = ()
    kinds: tuple[str, ...] = ()
    """Document kinds, of which a document has one."""
    source: str | None = None
    """A pattern with `*` and `?` for the path or the source URL of a document."""
    metadata: tuple[Condition, ...] = ()

    def __post_init__(self) -> None:
        for name, member in FILTER_ARGUMENTS.items():
            value = getattr(self, member)
            if member == "metadata":
                continue
            if member not in _LISTS:
                _check_length(name, value, MAX_NAME_LENGTH)
            # A string is a sequence of letters to Python, and hardly ever meant that way.
            elif isinstance(value, str) or not all(isinstance(part, str) for part in value or ()):
                raise InvalidArgument(f"{name} must be a list of strings.")
        if self.kinds and (unknown := set(self.kinds) - set(DocumentKind)):
            kinds = ", ".join(DocumentKind)
            raise InvalidArgument(f"kinds must be of {kinds}; {min(unknown)[:40]!r} is none.")

    def with_arguments(self, arguments: FilterArguments) -> Filters:
        """Return these filters with those that a caller gave as keyword arguments, checked."""
        given: dict[str, Any] = {}
        values: dict[str, Any] = {**arguments}
        for name, value in values.items():
            if name not in FILTER_ARGUMENTS:
                raise TypeError(f"got an unexpected keyword argument {name!r}")
            member = FILTER_ARGUMENTS[name]
            if member == "metadata":
                given[member] = _check_conditions(name, value)
            elif value is None and member in ("tags", "kinds"):
                given[member] = ()
            elif member in _LISTS and value is not None and not isinstance(value, str):
                given[member] = tuple(value)
            else:
                given[member] = value
        return replace(self, **given) if given else self


class QueryArguments(FilterArguments, PassageArguments, total=False):
    """Filters and options as the keyword arguments of library methods."""


def split_arguments(arguments: QueryArguments) -> tuple[PassageOptions, FilterArguments]:
    """Return the options among keyword arguments, checked, and the filters as they are."""
    values: dict[str, Any] = {**arguments}
    names = [name for name in PassageArguments.__annotations__ if name in values]
    options = PassageOptions(**{name: values.pop(name) for name in names})
    return options, cast("FilterArguments", values)


def passage_options(arguments: PassageArguments) -> PassageOptions:
    """Return options that a caller gave as keyword arguments, checked."""
    options, unknown = split_arguments(cast("QueryArguments", arguments))
    for name in unknown:
        raise TypeError(f"got an unexpected keyword argument {name!r}")
    return options


NO_FILTERS = Filters()
RETRIEVAL_FILTERS = Filters(language=DEFAULT_LANGUAGE, version=DEFAULT_VERSION)
"""What a request for context is restricted to unless it says otherwise; answers have no default."""
DEFAULT_FILTERS = frozenset({"language", "version"})
"""The members of `Filters` with a default, which holds in worlds with the contract's defaults."""


def matches_language(language: str | None, wanted: str | None) -> bool:
    """Return whether a language is the wanted one; 'en' covers 'en-GB', and None any."""
    if wanted is None:
        return True
    own, other = (f"{label}".casefold().replace("_", "-") for label in (language, wanted))
    return own == other or own.startswith(f"{other}-")


class SearchRequest(Struct, frozen=True):
    """A query, how many results it may give, and the least similarity they must have.

    Wrong types are refused rather than converted: `True` is an `int` in Python, and a caller who
    passes it has made a mistake.
    """

    query: str
    top_k: int = DEFAULT_TOP_K
    floor: float = DEFAULT_FLOOR
    mode: Mode | None = None
    """How to search; None for the default of the world."""
    rerank: bool | None = None
    """Whether a reranker orders the first candidates; None for the default of the world."""
    passages: PassageOptions = PassageOptions()
    filters: Filters = NO_FILTERS

    def __post_init__(self) -> None:
        if not isinstance(self.query, str):
            raise InvalidArgument("The query must be a string.")
        check_query(self.query)
        if isinstance(self.top_k, bool) or not isinstance(self.top_k, int):
            raise InvalidArgument("top_k must be a whole number.")
        if self.top_k < 0:
            raise InvalidArgument("top_k must not be negative.")
        check_share("The floor", self.floor)
        force_setattr(self, "mode", check_mode(self.mode))
        check_rerank(self.rerank, self.query)


class RetrievalRequest(Struct, frozen=True):
    """A request for context: a query, a selection, or a query within a selection."""

    query: str | None = None
    selected_text: str | None = None
    top_k: int = RETRIEVAL_TOP_K
    filters: Filters = RETRIEVAL_FILTERS
    mode: Mode | None = None
    rerank: bool | None = None
    passages: PassageOptions = PassageOptions()
    by_default: frozenset[str] = DEFAULT_FILTERS
    """The filters that the caller did not choose. Where the world has no such defaults, they do
    not apply."""

    def __post_init__(self) -> None:
        if self.query is None and self.selected_text is None:
            raise InvalidArgument("Give a query, a selected text, or both.")
        check_query(self.query)
        _check_length("query", self.query, MAX_QUERY_LENGTH)
        _check_length("selected_text", self.selected_text, MAX_SELECTION_LENGTH)
        check_whole("top_k", self.top_k, 1, MAX_TOP_K)
        force_setattr(self, "mode", check_mode(self.mode))
        if self.mode is Mode.WORDS and self.query is None:
            raise InvalidArgument("The mode 'words' needs a query.")
        check_rerank(self.rerank, self.query)

    @property
    def query_type(self) -> str:
        """Return the kind of request, as the bundle names it."""
        return "standard" if self.selected_text is None else "selected_text"


class ReadingRequest(Struct, frozen=True):
    """A reader's request. It names neither the reader nor the position."""

    query: str
    top_k: int = READING_TOP_K
    book: str | None = None
    mode: Mode | None = None
    rerank: bool | None = None
    passages: PassageOptions = PassageOptions()

    def __post_init__(self) -> None:
        if self.query is None:
            raise InvalidArgument("A query is required.")
        check_query(self.query)
        _check_length("query", self.query, MAX_QUERY_LENGTH)
        check_whole("top_k", self.top_k, 1, MAX_TOP_K)
        _check_length("book", self.book, MAX_NAME_LENGTH)
        force_setattr(self, "mode", check_mode(self.mode))
        check_rerank(self.rerank, self.query)


def require_domain_key(domain: str | None) -> None:
    """Raise InvalidArgument unless a domain's key is short, printable and without outer spaces."""
    if domain is None:
        return
    is_plain = bool(domain) and domain == domain.strip() and domain.isprintable()
    if not is_plain or len(domain) > 200:
        raise InvalidArgument(
            "A domain's key has 1 to 200 printable characters and no surrounding white space."
        )
