"""Declared labels: manifests, JSON lines that name files, and sidecars; patterns of paths.

`handbook.pdf.meta.toml` is the sidecar of `handbook.pdf`. A sidecar is never a document itself.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Collection, Sequence
from difflib import get_close_matches
from fnmatch import translate
from functools import partial
from typing import Any

from msgspec import Struct

from truespan.core.fields import MAX_LABEL_LENGTH, FieldError, check_fields, check_label, check_type
from truespan.core.graphemes import shorten
from truespan.core.strict_json import JsonError, parse_json_object
from truespan.errors import LinesInvalid, SourceRefused
from truespan.types.source import FIELD_CHECKS, DocumentOptions, Entry, is_page

ANY_DEPTH = "**"
_WILD = re.compile(r"[*?\[]")

States = frozenset[int]
"""Indexes of the parts of a pattern that may match the next name."""


def has_wildcard(text: str) -> bool:
    return _WILD.search(text) is not None


def split_path(path: str) -> list[str]:
    """Return the names in a path; empty ones and `.` are dropped."""
    return [part for part in path.split("/") if part not in ("", ".")]


class PathPattern(Struct, frozen=True):
    """A pattern of paths, matched name by name while folders are entered."""

    _parts: tuple[Callable[[str], bool] | None, ...]
    """Test of each part for a name; None is `**`, any number of folders."""

    @classmethod
    def of(cls, parts: Sequence[str]) -> PathPattern:
        """Return the pattern with these parts; several `**` in a row are one."""
        pairs = zip(parts, ["", *parts], strict=False)
        kept = [part for part, before in pairs if not part == before == ANY_DEPTH]
        return cls(tuple(None if part == ANY_DEPTH else _name_test(part) for part in kept))

    def begin(self) -> States:
        return self._with_skipped({0})

    def enter(self, states: States, name: str) -> States:
        """Return the states of the folder `name`; none if nothing below it can match."""
        after: set[int] = set()
        for state in states:
            # Nothing matches after the last part.
            if state == len(self._parts):
                continue
            test = self._parts[state]
            if test is not None and test(name):
                after.add(state + 1)
            elif test is None and not _is_hidden(name):
                after.add(state)
        return self._with_skipped(after)

    def accepts(self, states: States, name: str) -> bool:
        """Return whether a file of this name matches in a folder with these states."""
        last = len(self._parts) - 1
        if last not in states:
            return False
        test = self._parts[last]
        return not _is_hidden(name) if test is None else test(name)

    def matches(self, names: Sequence[str]) -> bool:
        states = self.begin()
        for name in names[:-1]:
            states = self.enter(states, name)
        return bool(names) and self.accepts(states, names[-1])

    def _with_skipped(self, states: set[int]) -> States:
        """Return the states with those in which `**` matches no folder."""
        depths = {place for place, test in enumerate(self._parts) if test is None}
        return frozenset(states | {state + 1 for state in states & depths})


def _name_test(part: str) -> Callable[[str], bool]:
    if not has_wildcard(part):
        return part.__eq__
    # As in a shell, only a part that begins with a dot matches a hidden name.
    match, hidden = re.compile(translate(part)).match, part.startswith(".")
    return lambda name: (hidden or not _is_hidden(name)) and match(name) is not None


def _is_hidden(name: str) -> bool:
    return name.startswith(".")


MAX_PATH_LENGTH = 4096
_DOC_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
_DRIVE = re.compile(r"[A-Za-z]:")
_DEVICE = re.compile(r"(?:con|prn|aux|nul|com[0-9]|lpt[0-9])(?:\..*)?", re.IGNORECASE)
"""Device names on Windows, with any extension."""
_OTHER_NAMES = {"chunking": "profile", "language": "lang"}
_DECLARED_FIELDS = {_OTHER_NAMES.get(name, name): name for name in FIELD_CHECKS}
"""Field of `DocumentOptions` for each field of a line."""
MANIFEST_FIELDS = ("path", "url", "doc_id", *_DECLARED_FIELDS)
_MEANT = {"id": "doc_id", "file": "path", **_OTHER_NAMES}


def path_fault(path: str) -> str | None:
    """Return the reason why a path cannot be used in a manifest; None if it can."""
    # A manifest must mean the same on every system, so a path that leaves the folder on any system
    # is refused on all: on some, a backslash is a separator, and a drive letter is absolute.
    is_absolute = path.startswith("/") or _DRIVE.match(path)
    # Windows drops dots and spaces at the end of a name: '.. ' and '...' lead out there too.
    leads_out = any(name.startswith("..") and not name.strip(". ") for name in path.split("/"))
    faults = (
        (not path.strip(), "is blank"),
        (len(path) > MAX_PATH_LENGTH, f"is longer than {MAX_PATH_LENGTH} characters"),
        ("\0" in path, "contains a NUL character"),
        ("\\" in path, "contains a backslash; write / between folders"),
        (is_absolute, "is absolute; it must be relative to the manifest"),
        (path.endswith("/"), "ends with a slash, so it names no file"),
        (leads_out, "contains '..'; it must stay within the manifest's folder"),
        (not split_path(path), "names no file"),
    )
    return next((fault for is_wrong, fault in faults if is_wrong), None)


def quote(text: str) -> str:
    """Return text for a message: quoted, without control characters, and not too long."""
    return repr(shorten(text, 80, "..."))


def _check_path(value: Any) -> str:
    if fault := path_fault(check_type(str, value)):
        raise FieldError(fault)
    return value


def _check_url(value: Any) -> str:
    if not is_page(url := check_type(str, value)):
        raise FieldError("must be an http or https address")
    return url


def _check_doc_id(value: Any) -> str:
    doc_id = check_label(MAX_LABEL_LENGTH, value)
    if not _DOC_ID.fullmatch(doc_id):
        raise FieldError(
            "must be 1 to 128 letters, digits, '.', '_' and '-', and begin with a letter or digit"
        )
    # The id becomes the name of a folder, on every system.
    if ".." in doc_id or doc_id.endswith("."):
        raise FieldError("must not contain '..' or end with a dot")
    if _DEVICE.fullmatch(doc_id):
        raise FieldError("is the name of a device on Windows")
    return doc_id


def _check_profile(profiles: Collection[str], value: Any) -> str:
    name = check_label(MAX_LABEL_LENGTH, value)
    if name not in profiles:
        known = ", ".join(sorted(profiles))
        raise FieldError(
            f"{quote(name)} is not a chunking profile (known: {known}); embedding profiles belong "
            "to the world"
        )
    return name


MAX_LINE_LENGTH = 1 << 20
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_BLANK = b" \t\r"


def parse_manifest(name: str, data: bytes, *, profiles: Collection[str]) -> tuple[Entry, ...]:
    """Return the entries of a manifest, whose lines may name `profiles`; raises LinesInvalid."""
    checks: dict[str, Callable[[Any], Any]] = {
        **{field: FIELD_CHECKS[name] for field, name in _DECLARED_FIELDS.items()},
        "path": _check_path,
        "url": _check_url,
        "doc_id": _check_doc_id,
        "profile": partial(_check_profile, profiles),
    }
    entries: list[Entry] = []
    bad: list[tuple[int, str]] = []
    for number, line in enumerate(data.removeprefix(_BYTE_ORDER_MARK).split(b"\n"), start=1):
        if not line.strip(_BLANK):
            continue
        try:
            fields = _parse_line(line)
        except FieldError as error:
            bad.append((number, str(error)))
            continue
        faults = [] if "path" in fields or "url" in fields else ["path is missing"]
        if "path" in fields and "url" in fields:
            faults.append("path and url cannot be combined")
        faults += [
            f"unknown field {quote(field)}{_suggest(field, checks)}"
            for field in fields
            if field not in checks
        ]
        known = {field: value for field, value in fields.items() if field in checks}
        checked, wrong = check_fields(known, checks)
        faults += wrong
        if faults:
            bad.extend((number, fault) for fault in faults)
            continue
        path, url = checked.pop("path", ""), checked.pop("url", "")
        doc_id = checked.pop("doc_id", None)
        declared = {_DECLARED_FIELDS[field]: value for field, value in checked.items()}
        entries.append(Entry(number, url or path, doc_id, DocumentOptions(**declared)))
    if bad:
        raise LinesInvalid("manifest_invalid", name, bad)
    return tuple(entries)


def first_entry(head: bytes) -> Entry | None:
    """Return the first entry of a file that begins like a manifest; None if it does not."""
    lines = head.removeprefix(_BYTE_ORDER_MARK).split(b"\n")
    line = next((line for line in lines if line.strip(_BLANK)), b"")
    try:
        # Any profile is accepted.
        profile = _parse_line(line).get("profile")
        return parse_manifest("", line, profiles=[str(profile)])[0]
    except (FieldError, LinesInvalid):
        return None


def _suggest(name: str, known: Collection[str]) -> str:
    """Return a hint at the field that was probably meant; empty if no field is similar."""
    plain = re.sub(r"[^a-z]+", "_", name.lower()[:40]).strip("_")
    found = get_close_matches(plain, known, n=1)
    meant = _MEANT.get(plain) or (found[0] if found else None)
    return f"; did you mean {meant}?" if meant else ""


def _parse_line(line: bytes) -> dict[str, Any]:
    if len(line) > MAX_LINE_LENGTH:
        raise FieldError(f"longer than {MAX_LINE_LENGTH} bytes")
    try:
        text = line.decode("utf-8")
    except UnicodeDecodeError:
        raise FieldError("not UTF-8") from None
    if text.startswith("\ufeff"):
        raise FieldError("a byte order mark that is not at the start of the file")
    try:
        return parse_json_object(text)
    except JsonError as error:
        raise FieldError(str(error)) from None


SIDECAR_ENDINGS = (".meta.toml", ".meta.json")
_DESCRIBED = (
    *("title", "language", "version", "kind", "tags", "source_url", "metadata", "fields"),
    "audience",
)
_SIDECAR = {name: FIELD_CHECKS[name] for name in _DESCRIBED}


def parse_sidecar(name: str, content: bytes) -> DocumentOptions:
    """Return the options in a sidecar; raises SourceRefused, with the line or the fields."""
    fields = _read_sidecar(name, content.removeprefix(_BYTE_ORDER_MARK))
    faults = [_explain_unknown(field) for field in fields if field not in _SIDECAR]
    known = {field: value for field, value in fields.items() if field in _SIDECAR}
    checked, wrong = check_fields(known, _SIDECAR)
    if faults := faults + wrong:
        raise SourceRefused("sidecar_invalid", name, reason="; ".join(faults))
    return DocumentOptions(**checked)


def _read_sidecar(name: str, content: bytes) -> dict[str, Any]:
    try:
        if name.endswith(".json"):
            return parse_json_object(content)
        return tomllib.loads(content.decode("utf-8"))
    except UnicodeDecodeError:
        raise SourceRefused("sidecar_invalid", name, reason="not UTF-8") from None
    except JsonError as error:
        raise SourceRefused("sidecar_invalid", name, reason=str(error)) from None
    except tomllib.TOMLDecodeError as error:
        reason = f"{error}"
        raise SourceRefused(
            "sidecar_invalid", name, reason=f"not TOML: {reason[:1].lower()}{reason[1:]}"
        ) from None
    # Python's parser calls itself for each level, and converts numbers of any length.
    except (RecursionError, ValueError):
        raise SourceRefused(
            "sidecar_invalid", name, reason="not TOML: nested too deep, or a number too long"
        ) from None


def _explain_unknown(field: str) -> str:
    near = get_close_matches(field.lower()[:40], _DESCRIBED, n=1)
    meant = f"did you mean {near[0]}?" if near else "put your own keys under metadata"
    return f"unknown field {quote(field)} ({meant})"
