"""Sidecars: TOML or JSON files beside documents that declare their labels.

`handbook.pdf.meta.toml` describes `handbook.pdf`. A sidecar is never a document itself.
"""

from __future__ import annotations

import tomllib
from difflib import get_close_matches
from typing import Any

from truespan.core.fields import check_fields
from truespan.core.strict_json import JsonError, parse_json_object
from truespan.errors import SidecarInvalid
from truespan.ingest.manifest import quote
from truespan.types.source import FIELD_CHECKS, DocumentOptions

SIDECAR_ENDINGS = (".meta.toml", ".meta.json")
_FIELDS = ("title", "language", "version", "kind", "tags", "source_url", "metadata", "fields")
_CHECKS = {name: FIELD_CHECKS[name] for name in _FIELDS}
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


def parse_sidecar(name: str, content: bytes) -> DocumentOptions:
    """Return the options in a sidecar; raises SidecarInvalid, with the line or the fields."""
    fields = _read_fields(name, content.removeprefix(_BYTE_ORDER_MARK))
    faults = [_explain_unknown(field) for field in fields if field not in _CHECKS]
    checked, wrong = check_fields(
        {field: value for field, value in fields.items() if field in _CHECKS}, _CHECKS
    )
    if faults := faults + wrong:
        raise SidecarInvalid(name, "; ".join(faults))
    return DocumentOptions(**checked)


def _read_fields(name: str, content: bytes) -> dict[str, Any]:
    try:
        if name.endswith(".json"):
            return parse_json_object(content)
        return tomllib.loads(content.decode("utf-8"))
    except UnicodeDecodeError:
        raise SidecarInvalid(name, "not UTF-8") from None
    except JsonError as error:
        raise SidecarInvalid(name, str(error)) from None
    except tomllib.TOMLDecodeError as error:
        reason = f"{error}"
        raise SidecarInvalid(name, f"not TOML: {reason[:1].lower()}{reason[1:]}") from None
    # Python's parser calls itself for each level, and converts numbers of any length.
    except (RecursionError, ValueError):
        raise SidecarInvalid(name, "not TOML: nested too deep, or a number too long") from None


def _explain_unknown(field: str) -> str:
    near = get_close_matches(field.lower()[:40], _FIELDS, n=1)
    meant = f"did you mean {near[0]}?" if near else "put your own keys under metadata"
    return f"unknown field {quote(field)} ({meant})"
