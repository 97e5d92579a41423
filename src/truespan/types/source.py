"""Sources, their declared labels, and the options of an ingestion.

The fields that a caller can declare are defined and validated here for all interfaces: library,
manifests, command line and HTTP.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from functools import partial
from pathlib import PurePath
from typing import Any, BinaryIO, NamedTuple, TypedDict, Unpack, cast
from urllib.parse import urlsplit

from msgspec import Struct, field
from msgspec.structs import replace

from truespan.core.fields import MAX_LABEL_LENGTH, FieldError, check_fields, check_label, check_type
from truespan.errors import InvalidArgument
from truespan.types.audience import Audience, check_audience
from truespan.types.metadata import check_metadata, read_metadata

MAX_URL_LENGTH = 2048
MAX_TITLE_LENGTH = 1000
MAX_TAGS = 100
MAX_PRIORITY = 10

_LANGUAGE = re.compile(r"[A-Za-z]{2,8}(?:-[A-Za-z0-9]{1,8})*")
_URL = re.compile(r"[A-Za-z0-9._~:/?#\[\]@!$&'()*+,;=%-]+")
_SCHEMES = ("http", "https", "truespan")


class DocumentKind(StrEnum):
    """Kind of a document: a reference, or a book with reading positions."""

    DOCUMENT = "document"
    BOOK = "book"


class Copies(StrEnum):
    """Treatment of a new file whose content equals that of another document in the world."""

    KEEP = "keep"
    """Ingest the file as a separate document; the report names the original."""
    REFUSE = "refuse"
    """Refuse the file."""
    LINK = "link"
    """Skip the file; the report names the document with its content."""


class RecordFields(Struct, frozen=True):
    """Mapping from the fields of a record, in a table or a JSON file, to those of a document."""

    text: tuple[str, ...]
    title: str | None = None
    source_url: str | None = None
    language: str | None = None
    tags: str | None = None
    audience: str | None = None
    """Field with the labels of the callers who see a record; by default the labels of the file."""
    metadata: tuple[tuple[str, str], ...] = ()
    """Metadata keys, each with the field that contains the value."""
    id: str | None = None
    """Field that identifies a record; by default the content does."""
    records: str = ""
    """Path of the list of records in a JSON file; by default the longest list at the top level."""
    format: str = ""
    """Format of the text: "text", "html" or "markdown"; by default HTML is detected."""

    @property
    def names(self) -> list[str]:
        """Names of all mapped fields."""
        single = (self.title, self.source_url, self.language, self.tags, self.audience, self.id)
        from_metadata = [name for _, name in self.metadata]
        return [*self.text, *(name for name in single if name is not None), *from_metadata]


class TextArguments(TypedDict, total=False):
    """Declared labels of texts, as keyword arguments; None leaves a value to the default."""

    kind: str | None
    language: str | None
    version: str | None
    chunking: str | None
    tags: Sequence[str] | None
    audience: Sequence[str] | None


class DocumentArguments(TextArguments, total=False):
    """Declared labels and parse options of documents, as keyword arguments.

    None leaves a value to the source or the default.
    """

    title: str | None
    source_url: str | None
    metadata: Mapping[str, Any] | None
    fields: Mapping[str, Any] | None
    ocr: bool | None
    hidden_sheets: bool | None
    running_heads: bool | None
    copies: str | None


class LabelArguments(TypedDict, total=False):
    """Labels that can be changed without the source of a document.

    None removes a label; a removed version becomes '1.0' again.
    """

    language: str
    version: str | None
    tags: Sequence[str] | None
    source_url: str | None
    metadata: Mapping[str, Any] | None
    """Metadata to merge into the stored metadata; a key with the value None is removed."""
    audience: Sequence[str]
    """Labels of the callers who see the document; an empty list for the owner alone."""


class IngestArguments(DocumentArguments, total=False):
    """Options of an ingestion, as keyword arguments."""

    prune: bool
    allow_empty: bool
    within: Sequence[str] | None


class DocumentOptions(Struct, frozen=True):
    """Declared labels and parse options of a document; None leaves it to the source or default."""

    kind: DocumentKind | None = None
    title: str | None = None
    language: str | None = None
    version: str | None = None
    chunking: str | None = None
    tags: tuple[str, ...] | None = None
    source_url: str | None = None
    metadata: str | None = None
    """Metadata as a JSON object with sorted keys."""
    priority: int | None = None
    """Priority from 0 to 10; sources with a higher priority are ingested first."""
    fields: RecordFields | None = None
    ocr: bool | None = None
    hidden_sheets: bool | None = None
    running_heads: bool | None = None
    copies: Copies | None = None
    audience: Audience | None = None

    @classmethod
    def from_arguments(cls, **keywords: Unpack[DocumentArguments]) -> DocumentOptions:
        """Return checked options from keyword arguments; raises InvalidArgument."""
        if unknown := keywords.keys() - DocumentArguments.__annotations__.keys():
            raise TypeError(f"unexpected keyword argument {min(unknown)!r}")
        return cls(**_check_arguments({k: v for k, v in keywords.items() if v is not None}))

    def relabel(self, **changes: Unpack[LabelArguments]) -> DocumentOptions:
        """Return the options with changed labels; raises InvalidArgument."""
        if unknown := changes.keys() - LabelArguments.__annotations__.keys():
            raise TypeError(f"unexpected keyword argument {min(unknown)!r}")
        values: dict[str, Any] = {**changes}
        kept = ("language", "audience")
        removed = {name for name, value in values.items() if value is None and name not in kept}
        changed = values.get("metadata")
        if isinstance(changed, Mapping):
            joined = {**read_metadata(self.metadata), **changed}
            values["metadata"] = {key: value for key, value in joined.items() if value is not None}
        checked = _check_arguments({k: v for k, v in values.items() if k not in removed})
        return replace(self, **dict.fromkeys(removed), **checked)

    def or_else(self, earlier: DocumentOptions) -> DocumentOptions:
        """Return the options, completed by earlier ones."""
        if self == UNDECLARED:
            return earlier
        names = self.__struct_fields__
        own = {name: value for name in names if (value := getattr(self, name)) is not None}
        if self.kind not in (None, earlier.kind):
            # Another kind of document has another chunking profile by default.
            own.setdefault("chunking", None)
        return replace(earlier, **own)

    def over(self, sidecar: DocumentOptions) -> DocumentOptions:
        """Return the options, completed by those of a sidecar; metadata are merged by key."""
        joined = {**read_metadata(sidecar.metadata), **read_metadata(self.metadata)}
        declared = self.or_else(sidecar)
        return replace(declared, metadata=check_metadata(joined)) if joined else declared


UNDECLARED = DocumentOptions()


class ParseOptions(NamedTuple):
    """Options of parsers.

    Pictures are always found and placed; `images` adds their bytes.
    """

    images: bool = False
    hidden_sheets: bool = False
    """Whether hidden sheets, rows and columns of workbooks are read."""
    ocr: bool = False
    """Whether the text of images and scanned pages is recognised."""
    running_heads: bool = False
    """Whether running heads and page numbers of a PDF stay in its text."""


PARSE_DEFAULTS = ParseOptions()


def _check_arguments(values: dict[str, Any]) -> dict[str, Any]:
    """Return checked keyword arguments; raises InvalidArgument."""
    if isinstance(values.get("language"), str):
        values["language"] = values["language"].replace("_", "-")
    for name in ("tags", "audience"):
        if isinstance(values.get(name), Iterable) and not isinstance(values[name], str):
            values[name] = list(values[name])
    checked, faults = check_fields(values, FIELD_CHECKS)
    if faults:
        raise InvalidArgument(f"The {'; the '.join(faults)}.")
    return checked


class IngestOptions(Struct, frozen=True):
    """Options of an ingestion: declared labels, and which documents it may remove."""

    declared: DocumentOptions = field(default_factory=DocumentOptions)
    prune: bool = False
    allow_empty: bool = False
    within: tuple[str, ...] | None = None

    @classmethod
    def from_arguments(cls, **keywords: Unpack[IngestArguments]) -> IngestOptions:
        """Return checked options from keyword arguments; raises InvalidArgument."""
        prune, allow_empty = keywords.pop("prune", False), keywords.pop("allow_empty", False)
        within = keywords.pop("within", None)
        folders = None if within is None else tuple(str(folder) for folder in within)
        return cls(DocumentOptions.from_arguments(**keywords), prune, allow_empty, folders)


def _check_member(kind: type[StrEnum], value: Any) -> StrEnum:
    try:
        return kind(check_type(str, value))
    except ValueError:
        *others, last = map(repr, map(str, kind))
        raise FieldError(f"must be {', '.join(others)} or {last}") from None


def _check_tags(value: Any) -> tuple[str, ...]:
    tags: list[Any] = check_type(list, value)
    if len(tags) > MAX_TAGS:
        raise FieldError(f"are more than {MAX_TAGS}")
    try:
        return tuple(sorted({check_label(MAX_LABEL_LENGTH, tag) for tag in tags}))
    except FieldError as error:
        raise FieldError(f"contain a tag that {error}") from None


def _check_audience(value: Any) -> Audience:
    try:
        return check_audience(value)
    except InvalidArgument as error:
        raise FieldError(f"is not valid: {error.message.removesuffix('.')}") from None


def _check_language(value: Any) -> str:
    language = check_label(MAX_LABEL_LENGTH, value)
    if not _LANGUAGE.fullmatch(language):
        raise FieldError("must be a language code such as 'en' or 'pt-BR'")
    return language


def _check_priority(value: Any) -> int:
    priority: int = check_type(int, value)
    if not 0 <= priority <= MAX_PRIORITY:
        raise FieldError(f"must be from 0 to {MAX_PRIORITY}")
    return priority


def _check_source_url(value: Any) -> str:
    """Return a URL if it is well-formed; it is never opened."""
    url = check_label(MAX_URL_LENGTH, value)
    if not _URL.fullmatch(url):
        raise FieldError("contains characters that a URL must not; percent-encode them")
    try:
        split = urlsplit(url)
        # Reading the port validates it.
        valid = split.scheme in _SCHEMES and bool(split.hostname) and split.port != 0
    except ValueError:
        raise FieldError("is not a URL") from None
    if not valid or (split.scheme == "truespan" and not split.path.strip("/")):
        raise FieldError("must be an http, https or truespan URL")
    if "@" in split.netloc:
        raise FieldError("must not contain a user or a password")
    return url


def _check_record_fields(value: Any) -> RecordFields:
    if not isinstance(value, Mapping):
        raise FieldError("must be an object")
    known = RecordFields.__struct_fields__
    values: dict[str, Any] = {}
    for name, field_name in cast(Mapping[str, Any], value).items():
        if name not in known:
            raise FieldError(f"has the unknown member {name!r} (known: {', '.join(known)})")
        try:
            if name == "text":
                listed = [field_name] if isinstance(field_name, str) else field_name
                values[name] = tuple(_check_names(listed))
            elif name == "metadata" and isinstance(field_name, Mapping):
                pairs = cast(Mapping[str, Any], field_name)
                values[name] = tuple(zip(pairs, _check_names(list(pairs.values())), strict=True))
            elif name == "metadata":
                values[name] = tuple((each, each) for each in _check_names(field_name))
            else:
                values[name] = check_label(MAX_LABEL_LENGTH, field_name)
        except FieldError as error:
            raise FieldError(f"has a {name} that {error}") from None
    if not values.get("text"):
        raise FieldError("must name the text of a record, as in {'text': 'body'}")
    if values.get("format", "text") not in ("text", "html", "markdown"):
        raise FieldError("has a format that must be 'text', 'html' or 'markdown'")
    return RecordFields(**values)


def _check_names(value: Any) -> list[str]:
    return [check_label(MAX_LABEL_LENGTH, name) for name in check_type(list, value)]


def _check_choice(value: Any) -> bool:
    if not isinstance(value, bool):
        raise FieldError("must be true or false")
    return value


FIELD_CHECKS: dict[str, Callable[[Any], Any]] = {
    "kind": partial(_check_member, DocumentKind),
    "title": partial(check_label, MAX_TITLE_LENGTH),
    "language": _check_language,
    "version": partial(check_label, MAX_LABEL_LENGTH),
    "chunking": partial(check_label, MAX_LABEL_LENGTH),
    "tags": _check_tags,
    "source_url": _check_source_url,
    "metadata": check_metadata,
    "priority": _check_priority,
    "fields": _check_record_fields,
    "ocr": _check_choice,
    "hidden_sheets": _check_choice,
    "running_heads": _check_choice,
    "copies": partial(_check_member, Copies),
    "audience": _check_audience,
}
"""Check of each field of `DocumentOptions`: returns the value to use or raises FieldError."""


class Source(Struct, frozen=True, gc=False):
    """A file that may become a document. `doc_id` is its identity within a world."""

    path: str
    name: str
    doc_id: str
    size: int
    declared: DocumentOptions = field(default_factory=DocumentOptions)
    origin: str = ""
    """Manifest that listed the source; empty if none did."""
    upload: str = ""
    """Path in the upload store; empty for a file."""
    confined: bool = False
    """Whether the file is read without following links, as the files of a manifest are."""
    shown_path: str = ""
    """Path shown in results, relative to the ingested folder."""
    member: str = ""
    """Path inside the file at `path`, if the document is a member of an archive or similar."""
    refusal: Refusal | None = None
    """Reason why the source cannot be ingested, if known before it is read."""
    no_sidecar: bool = False
    """Whether the listing of its folder, in which it was found, had no sidecars."""

    @property
    def is_page(self) -> bool:
        """Whether the source is a web page; then `path` is its URL."""
        return is_page(self.path)

    @property
    def recorded_path(self) -> str:
        """Path recorded in the store; the path of a member is below that of its file."""
        return to_utf8(f"{self.path}/{self.member}" if self.member else self.path)


class Refusal(Struct, frozen=True):
    """Code of a `SourceRefused` error, and advice if it differs from the default."""

    code: str
    advice: str | None = None


class Member(Struct, frozen=True):
    """A document inside a file, found by a parser; see `parsing.members`.

    `name` is its unique path inside the file. A member without a name is the file itself, such as a
    message with attachments.
    """

    name: str
    data: bytes = b""
    ending: str = ""
    """Suffix for the name when it is parsed, if the name does not show the format."""
    declared: dict[str, Any] = field(default_factory=dict)
    """Unchecked fields of `DocumentOptions` stated by the file."""
    parent: str | None = None
    """Name of the member to which it is attached."""
    size: int = 0
    line: int = 0
    """Line at which the member begins, if the file is text."""
    refusal: Refusal | None = None


class Members(Struct, frozen=True):
    """Members of a file, and the number of members with an unsupported format."""

    members: tuple[Member, ...] = ()
    unsupported: int = 0


class Page(Struct, frozen=True):
    """A fetched web page; `content` is None if it has not changed since the known version."""

    url: str
    """URL after redirects."""
    content: bytes | None
    content_type: str = ""
    etag: str | None = None
    last_modified: str | None = None
    name: str = ""
    """Name with the ending of its content type."""


class Entry(Struct, frozen=True):
    """A checked line of a manifest before its files are searched. `path` of a page is its URL."""

    line: int
    path: str
    doc_id: str | None = None
    declared: DocumentOptions = field(default_factory=DocumentOptions)


class Root(Struct, frozen=True):
    """A searched folder and the number of sources found in it.

    `pattern` limits the search to matching paths. `origin` is the manifest whose files were
    searched.
    """

    folder: str
    found: int
    pattern: str = ""
    origin: str = ""


class FoundSources(Struct, frozen=True):
    """Sources in the order of ingestion, and the paths without sources.

    `unsupported` is the number of files with an unsupported format, `unmatched` the paths that
    match no file.
    """

    sources: tuple[Source, ...] = ()
    unsupported: int = 0
    unmatched: tuple[str, ...] = ()
    roots: tuple[Root, ...] = ()
    opened: tuple[str, ...] = ()
    """Files whose members are all in `sources`; documents of other members are gone."""

    def __iter__(self) -> Iterator[Source]:
        return iter(self.sources)

    def __len__(self) -> int:
        return len(self.sources)


_PAGES = ("http://", "https://")
_MAX_SCHEME_LENGTH = len("https://")


def is_page(path: str) -> bool:
    """Return whether a path, or the recorded path of a document, is the URL of a web page."""
    # Fast path: most paths begin with a slash.
    return path[:1] in "hH" and path[:_MAX_SCHEME_LENGTH].lower().startswith(_PAGES)


UPLOAD = "upload:"
"""Prefix of the recorded path of an upload; no file has such a path."""


def upload_of(path: str) -> str:
    """Return the recorded path of an upload, from its path or the path of a member."""
    return path.partition("/")[0]


def holds(file: str, path: str) -> bool:
    """Return whether a recorded path is the path of a file or of one of its members."""
    return path == file or path.startswith(f"{file}/")


def to_utf8(path: str) -> str:
    """Return a path for the store, with question marks for bytes that are not UTF-8."""
    return path if path.isascii() else path.encode("utf-8", "replace").decode()


_UNSHOWN = re.compile("[\0-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
"""Control characters, line ends, direction overrides, and bytes that are not UTF-8."""


def display_path(path: str) -> str:
    r"""Return a path for display, with unsafe characters escaped as in `\x1b`.

    Unsafe are characters that break a line or control a terminal, and bytes that are not UTF-8.
    """
    if path.isascii() and path.isprintable():
        return path

    def escape(found: re.Match[str]) -> str:
        code = ord(found[0])
        # Python names the byte 0xff, if it is not UTF-8, by the surrogate 0xdcff.
        byte = code - 0xDC00 if 0xDC80 <= code <= 0xDCFF else code
        return f"\\x{byte:02x}" if byte <= 0xFF else f"\\u{byte:04x}"

    return _UNSHOWN.sub(escape, path)


def short_path(path: str, folders: int = 1) -> str:
    """Return the end of a path for display: the name and at most `folders` folders above it."""
    if path.startswith(UPLOAD):
        return display_path(path.removeprefix(UPLOAD))
    # Without `PurePath`, which is much slower: this runs for every file of a folder.
    parts = [part for part in path.split("/") if part not in ("", ".")]
    return display_path("/".join(parts[-folders - 1 :]))


def make_paths_unique(
    sources: Sequence[Source], owners: Callable[[Sequence[str]], Mapping[str, str]]
) -> tuple[Source, ...]:
    """Return sources whose shown paths differ from each other and from those of other `owners`."""
    taken: dict[str, str] = {}
    settled: dict[str, Source] = {}
    pending = list(sources)
    while pending:
        taken |= owners([source.shown_path for source in pending])
        clashing: list[Source] = []
        for source in pending:
            settled[source.doc_id] = source
            if taken.setdefault(source.shown_path, source.doc_id) != source.doc_id:
                longer = short_path(source.recorded_path, source.shown_path.count("/") + 1)
                if longer != source.shown_path:
                    clashing.append(replace(source, shown_path=longer))
        pending = clashing
    return tuple(settled[source.doc_id] for source in sources)


MAX_NAME_BYTES = 255
_JOINERS = "\u200c\u200d"
"""Zero-width joiners: not printable, but needed for names in some scripts."""


class Upload(Struct, frozen=True):
    """An uploaded file and its name. The content is read once, from its current position.

    The name identifies the document within a world: another upload of the same name is a new
    revision.
    """

    name: str
    content: bytes | PurePath | BinaryIO
    metadata: Mapping[str, Any] | None = None
    """Metadata of this file, instead of that declared for all files of an upload."""


def check_upload_name(name: object) -> str:
    """Return the name of an upload in NFC; raises InvalidArgument if it is not a file name."""
    if not isinstance(name, str):
        raise InvalidArgument("The name of an upload must be a string.")
    normal = unicodedata.normalize("NFC", name)
    if not normal.strip(" .") or normal != normal.strip():
        raise InvalidArgument(
            "The name of an upload must not be blank or only dots, nor start or end with a space."
        )
    if "/" in normal or "\\" in normal:
        raise InvalidArgument("The name of an upload must be a file name without a folder.")
    if not all(char.isprintable() or char in _JOINERS for char in normal):
        raise InvalidArgument("The name of an upload contains unprintable characters.")
    if len(normal.encode()) > MAX_NAME_BYTES:
        raise InvalidArgument(f"The name of an upload has more than {MAX_NAME_BYTES} bytes.")
    return normal


def check_uploads(uploads: Sequence[Upload]) -> tuple[Upload, ...]:
    """Return uploads with checked names; raises InvalidArgument if none, or two have the same."""
    checked = tuple(replace(upload, name=check_upload_name(upload.name)) for upload in uploads)
    if not checked:
        raise InvalidArgument("There is no file to ingest.")
    if len({upload.name for upload in checked}) < len(checked):
        raise InvalidArgument(
            "Two files have the same name.", advice="The name identifies the document: rename one."
        )
    return checked
