"""The fields of a manifest line: what each may hold, and what is said when it does not."""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from fnmatch import translate
from functools import partial
from math import isfinite
from typing import Any
from urllib.parse import urlsplit

from truespan.errors import ManifestInvalid
from truespan.types.source import Declared, DocumentKind, Entry

ANY_DEPTH = "**"
_WILD = re.compile(r"[*?\[]")

States = frozenset[int]
"""Which parts of a pattern may match the next name."""


def is_wild(text: str) -> bool:
    """Say whether a path or a name holds a character that can stand for others."""
    return _WILD.search(text) is not None


def parts_of(path: str) -> list[str]:
    """Return the names in a path that slashes divide; empty ones and `.` say nothing."""
    return [part for part in path.split("/") if part not in ("", ".")]


@dataclass(frozen=True, slots=True)
class PathPattern:
    """A pattern that is held against one name after another.

    As in a shell, only a part that begins with a dot matches a name that does.
    """

    _parts: tuple[Callable[[str], bool] | None, ...]
    """How each part matches a name; None is any number of folders."""

    @classmethod
    def of(cls, parts: Sequence[str]) -> PathPattern:
        """Return the pattern with these parts; several `**` in a row are one."""
        pairs = zip(parts, ["", *parts], strict=False)
        kept = [part for part, before in pairs if not part == before == ANY_DEPTH]
        return cls(tuple(None if part == ANY_DEPTH else _name_test(part) for part in kept))

    def begin(self) -> States:
        """Return the states in which the folder to be searched is entered."""
        return self._with_skipped({0})

    def enter(self, states: States, name: str) -> States:
        """Return the states within the folder `name`; none when nothing below it can match."""
        after: set[int] = set()
        for state in states:
            test = self._test(state)
            if test is None:
                after.update(() if _is_hidden(name) else (state,))
            elif test(name):
                after.add(state + 1)
        return self._with_skipped(after)

    def accepts(self, states: States, name: str) -> bool:
        """Say whether a file of this name, met in these states, is what the pattern means."""
        last = len(self._parts) - 1
        if last not in states:
            return False
        test = self._parts[last]
        return not _is_hidden(name) if test is None else test(name)

    def matches(self, names: Sequence[str]) -> bool:
        """Say whether a whole path, given as its names, is what the pattern means."""
        if not names:
            return False
        states = self.begin()
        for name in names[:-1]:
            states = self.enter(states, name)
        return self.accepts(states, names[-1])

    def _test(self, state: int) -> Callable[[str], bool] | None:
        # Past the last part nothing matches any more.
        return self._parts[state] if state < len(self._parts) else _never

    def _with_skipped(self, states: set[int]) -> States:
        """Add what may come next where `**` stands for no folder at all."""
        skipped = {state + 1 for state in states if self._test(state) is None}
        return frozenset(states | skipped)


def _name_test(part: str) -> Callable[[str], bool]:
    if not is_wild(part):
        return part.__eq__
    match = re.compile(translate(part)).match
    if part.startswith("."):
        return lambda name: match(name) is not None
    return lambda name: not _is_hidden(name) and match(name) is not None


def _never(_: str) -> bool:
    return False


def _is_hidden(name: str) -> bool:
    return name.startswith(".")


LONGEST_PATH = 4096
LONGEST_URL = 2048
LONGEST_TITLE = 1000
LONGEST_LABEL = 200
MOST_TAGS = 100
MOST_METADATA = 16 * 1024
"""Bytes of the metadata of one document, spelled without spaces."""
MOST_PRIORITY = 10

_DOC_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
_LANGUAGE = re.compile(r"[A-Za-z]{2,8}(?:-[A-Za-z0-9]{1,8})*")
_DRIVE = re.compile(r"[A-Za-z]:")
_URL = re.compile(r"[A-Za-z0-9._~:/?#\[\]@!$&'()*+,;=%-]+")
_SCHEMES = ("http", "https", "truespan")
_DEVICE = re.compile(r"(?:con|prn|aux|nul|com[0-9]|lpt[0-9])(?:\..*)?", re.IGNORECASE)
"""Names that Windows takes for a device, whatever ending they have."""
_TYPES = {str: "a string", int: "an integer", list: "a list", dict: "an object"}
_MEANT = {
    "id": "doc_id",
    "file": "path",
    "url": "source_url",
    "chunking": "profile",
    "language": "lang",
}


class FieldWrong(Exception):
    """What is wrong with a line or a field, in words that follow its name."""


@dataclass(frozen=True, slots=True)
class Fields:
    """The fields of one line, each of them checked."""

    path: str = ""
    doc_id: str | None = None
    profile: str | None = None
    kind: DocumentKind | None = None
    tags: tuple[str, ...] | None = None
    lang: str | None = None
    priority: int | None = None
    metadata: str | None = None
    version: str | None = None
    source_url: str | None = None
    title: str | None = None

    def declared(self) -> Declared:
        """Return what the line says of its documents."""
        return Declared(
            kind=self.kind,
            title=self.title,
            language=self.lang,
            version=self.version,
            chunking=self.profile,
            tags=self.tags,
            source_url=self.source_url,
            metadata=self.metadata,
            priority=self.priority,
        )


def checked_fields(given: Mapping[str, Any], profiles: Collection[str]) -> tuple[Fields, list[str]]:
    """Return the fields of a line, and everything that is wrong with them."""
    checks: dict[str, Callable[[Any], Any]] = {**_CHECKS, "profile": partial(_profile, profiles)}
    right: dict[str, Any] = {}
    faults = [] if "path" in given else ["path is missing"]
    for name, value in given.items():
        if name not in checks:
            faults.append(f"unknown field {shown(name)}{_nearest(name, checks)}")
            continue
        try:
            right[name] = checks[name](value)
        except FieldWrong as wrong:
            faults.append(f"{name} {wrong}")
    return (Fields() if faults else Fields(**right)), faults


def path_fault(path: str) -> str | None:
    """Say why a path may not stand in a manifest; None when it may.

    A manifest must mean the same wherever it is read, so what any system takes for a way out of a
    folder is refused on all of them: a backslash is a separator somewhere, and so is a drive.
    """
    if not path.strip():
        return "is blank"
    if len(path) > LONGEST_PATH:
        return f"is longer than {LONGEST_PATH} characters"
    if "\0" in path:
        return "holds a NUL character"
    if "\\" in path:
        return "holds a backslash; write / between folders"
    if path.startswith("/") or _DRIVE.match(path):
        return "is absolute; it must be relative to the manifest"
    if path.endswith("/"):
        return "ends with a slash, so that it names no file"
    names = path.split("/")
    # Windows drops dots and spaces at the end of a name: '.. ' and '...' are ways out there too.
    if any(name.startswith("..") and not name.strip(". ") for name in names):
        return "holds '..'; it must stay within the manifest's folder"
    return None if any(name not in ("", ".") for name in names) else "names no file"


def shown(text: str) -> str:
    """Return a name for a message: quoted, without control characters, and not too long."""
    return repr(text if len(text) <= 80 else f"{text[:77]}...")


def _typed(kind: type, value: Any) -> Any:
    # A boolean is an integer to Python, and to nobody who writes a manifest.
    if not isinstance(value, kind) or isinstance(value, bool):
        raise FieldWrong(f"must be {_TYPES[kind]}")
    return value


def _text(limit: int, value: Any) -> str:
    text: str = _typed(str, value)
    if not text.strip():
        raise FieldWrong("is blank")
    if len(text) > limit:
        raise FieldWrong(f"is longer than {limit} characters")
    if any(unicodedata.category(character) == "Cc" for character in text):
        raise FieldWrong("holds a control character")
    return text


def _path(value: Any) -> str:
    path: str = _typed(str, value)
    if fault := path_fault(path):
        raise FieldWrong(fault)
    return path


def _doc_id(value: Any) -> str:
    doc_id = _text(LONGEST_LABEL, value)
    if not _DOC_ID.fullmatch(doc_id):
        raise FieldWrong(
            "must be 1 to 128 letters, digits, '.', '_' and '-', and begin with a letter or digit"
        )
    # It becomes the name of a folder, on whatever system.
    if ".." in doc_id or doc_id.endswith("."):
        raise FieldWrong("must neither hold '..' nor end with a dot")
    if _DEVICE.fullmatch(doc_id):
        raise FieldWrong("is the name of a device on Windows")
    return doc_id


def _profile(profiles: Collection[str], value: Any) -> str:
    name = _text(LONGEST_LABEL, value)
    if name not in profiles:
        known = ", ".join(sorted(profiles))
        raise FieldWrong(
            f"{shown(name)} is no chunking profile ({known} are); embedding profiles belong to "
            "the world"
        )
    return name


def _kind(value: Any) -> DocumentKind:
    try:
        return DocumentKind(_typed(str, value))
    except ValueError:
        raise FieldWrong("must be 'document' or 'book'") from None


def _tags(value: Any) -> tuple[str, ...]:
    tags: list[Any] = _typed(list, value)
    if len(tags) > MOST_TAGS:
        raise FieldWrong(f"are more than {MOST_TAGS}")
    try:
        return tuple(sorted({_text(LONGEST_LABEL, tag) for tag in tags}))
    except FieldWrong as wrong:
        raise FieldWrong(f"hold one that {wrong}") from None


def _language(value: Any) -> str:
    language = _text(LONGEST_LABEL, value)
    if not _LANGUAGE.fullmatch(language):
        raise FieldWrong("must be a language code such as 'en' or 'pt-BR'")
    return language


def _priority(value: Any) -> int:
    priority: int = _typed(int, value)
    if not 0 <= priority <= MOST_PRIORITY:
        raise FieldWrong(f"must be from 0 to {MOST_PRIORITY}")
    return priority


def _metadata(value: Any) -> str:
    """Return an object in one spelling, so that equal metadata are equal texts."""
    fields = _typed(dict, value)
    text = json.dumps(fields, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    if len(text.encode()) > MOST_METADATA:
        raise FieldWrong(f"has more than {MOST_METADATA} bytes")
    return text


def _source_url(value: Any) -> str:
    """Return an address that is well formed; nobody goes there."""
    url = _text(LONGEST_URL, value)
    if not _URL.fullmatch(url):
        raise FieldWrong("holds characters that an address must not; percent-encode them")
    try:
        split = urlsplit(url)
        # To ask for the port is to have it checked.
        valid = split.scheme in _SCHEMES and bool(split.hostname) and split.port != 0
    except ValueError:
        raise FieldWrong("is no address") from None
    if not valid or (split.scheme == "truespan" and not split.path.strip("/")):
        raise FieldWrong("must be an http, https or truespan address")
    if "@" in split.netloc:
        raise FieldWrong("must not hold a user or a password")
    return url


def _nearest(name: str, known: Collection[str]) -> str:
    """Return which field was probably meant, as a remark; nothing when none is near."""
    plain = re.sub(r"[^a-z]+", "_", name.lower()[:40]).strip("_")
    found = get_close_matches(plain, known, n=1)
    meant = _MEANT.get(plain) or (found[0] if found else None)
    return f"; did you mean {meant}?" if meant else ""


_CHECKS: dict[str, Callable[[Any], Any]] = {
    "path": _path,
    "doc_id": _doc_id,
    "kind": _kind,
    "tags": _tags,
    "lang": _language,
    "priority": _priority,
    "metadata": _metadata,
    "version": partial(_text, LONGEST_LABEL),
    "source_url": _source_url,
    "title": partial(_text, LONGEST_TITLE),
}


LONGEST_LINE = 1 << 20
MOST_DEPTH = 32
"""How deep objects and lists may lie in one another; whoever reads them later has less room."""
MOST_INTEGER = 1 << 63
_MARK = b"\xef\xbb\xbf"
_BLANK = b" \t\r"
_TOO_DEEP = f"nested more than {MOST_DEPTH} levels deep"


def parse_manifest(name: str, data: bytes, *, profiles: Collection[str]) -> tuple[Entry, ...]:
    """Return the entries of a manifest; `profiles` are the chunking profiles a line may name.

    Raises:
        ManifestInvalid: with every line that cannot be used, and why.
    """
    entries: list[Entry] = []
    bad: list[tuple[int, str]] = []
    for number, line in enumerate(data.removeprefix(_MARK).split(b"\n"), start=1):
        if not line.strip(_BLANK):
            continue
        fields, faults = _judged(line, profiles)
        bad.extend((number, fault) for fault in faults)
        if not faults:
            entries.append(Entry(number, fields.path, fields.doc_id, fields.declared()))
    if bad:
        raise ManifestInvalid(name, bad)
    return tuple(entries)


def _judged(line: bytes, profiles: Collection[str]) -> tuple[Fields, list[str]]:
    """Return what a line says, and everything that is wrong with it."""
    try:
        return checked_fields(_object(line), profiles)
    except FieldWrong as wrong:
        return Fields(), [str(wrong)]


def _object(line: bytes) -> dict[str, Any]:
    """Return the object that a line holds."""
    if len(line) > LONGEST_LINE:
        raise FieldWrong(f"longer than {LONGEST_LINE} bytes")
    value = _decoded(line)
    if not isinstance(value, dict):
        raise FieldWrong("not a JSON object")
    _check_depth(value)
    try:
        # A string may still hold half of a pair of surrogates, which is no character.
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise FieldWrong("a string holds half a character (a lone surrogate)") from None
    return value


def _decoded(line: bytes) -> Any:
    try:
        text = line.decode("utf-8")
    except UnicodeDecodeError:
        raise FieldWrong("not UTF-8") from None
    if text.startswith("\ufeff"):
        raise FieldWrong("a byte order mark that is not at the start of the file")
    try:
        return json.loads(
            text,
            object_pairs_hook=_unique,
            parse_constant=_no_constant,
            parse_float=_finite,
            parse_int=_bounded,
        )
    except json.JSONDecodeError as error:
        raise FieldWrong(f"not JSON: {_lowered(error.msg)} (column {error.colno})") from None
    except RecursionError:
        raise FieldWrong(_TOO_DEEP) from None


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    unique: dict[str, Any] = {}
    for key, value in pairs:
        if key in unique:
            raise FieldWrong(f"{shown(key)} is there twice")
        unique[key] = value
    return unique


def _no_constant(spelled: str) -> Any:
    raise FieldWrong(f"not JSON: {spelled} is no number of JSON")


def _finite(digits: str) -> float:
    number = float(digits)
    if not isfinite(number):
        raise FieldWrong("a number is too large")
    return number


def _bounded(digits: str) -> int:
    # Counted first: turning very many digits into a number is slow, and Python refuses it.
    if len(digits) > 20 or not -MOST_INTEGER <= (number := int(digits)) < MOST_INTEGER:
        raise FieldWrong("a number is too large")
    return number


def _check_depth(value: Any) -> None:
    level: Iterable[Any] = [value]
    for _ in range(MOST_DEPTH + 1):
        level = [inner for outer in level for inner in _within(outer)]
        if not level:
            return
    raise FieldWrong(_TOO_DEEP)


def _within(value: Any) -> Iterable[Any]:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else ()


def _lowered(message: str) -> str:
    return message[:1].lower() + message[1:]
