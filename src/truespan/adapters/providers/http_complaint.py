"""What providers mean when they say no in words. The words are looked at and never passed on."""

from __future__ import annotations

import re
from typing import Any

import msgspec

from truespan.adapters.providers.http_json import Reply
from truespan.errors import BatchTooLarge, ProviderRefused, TextTooLong

_MOST_READ = 20_000
"""Characters of a complaint that are looked at: none that is meant to be read is longer."""

_BATCH_TOO_LARGE = re.compile(
    r"max_tokens_per_request|tokens per request"
    r"|array_above_max_length|array too long"
    r"|maximum allowed batch size|batch size.{0,40}(?:exceed|too large)"
    r"|at most \d+ requests can be in one batch"
    r"|payload size exceeds|request too large|request entity too large",
    re.IGNORECASE,
)
_TEXT_TOO_LONG = re.compile(
    r"context_length_exceeded|exceed_context_size|maximum context length"
    r"|exceeds? .{0,60}context (?:length|size)|larger than the max\w* context"
    r"|too large to process|must have less than \d+ tokens"
    r"|input token count.{0,40}exceeds|maximum (?:input|sequence) length",
    re.IGNORECASE,
)
_NO_SUCH_MODEL = re.compile(
    r"model_not_found|\bmodels?\b.{0,200}\b(?:not found|does not exist|not exist)", re.IGNORECASE
)


def words_of(reply: Reply) -> str:
    """Return every piece of text in the body of a reply, which may be of any shape."""
    try:
        return " ".join(_texts(msgspec.json.decode(reply.body[: 1 << 20])))[:_MOST_READ]
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return ""


def _texts(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value]
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [text for part in inner for text in _texts(part)]


def size_refusal(reply: Reply) -> ProviderRefused | None:
    """Return the error for a reply that says the request or a text in it is too large."""
    words = words_of(reply)
    if reply.status == 413 or _BATCH_TOO_LARGE.search(words):
        return BatchTooLarge(f"A request is larger than {reply.who} takes (status {reply.status}).")
    if _TEXT_TOO_LONG.search(words):
        return TextTooLong(
            f"A text is longer than the model reads ({reply.who}).",
            advice="Nothing was cut off; shorten the query, or choose smaller chunks.",
        )
    return None


def names_no_model(reply: Reply) -> bool:
    """Say whether a reply says that there is no such model."""
    return _NO_SUCH_MODEL.search(words_of(reply)) is not None
