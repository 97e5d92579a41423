"""What the OpenAPI document says of errors: which a call can give, and how each looks."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator
from http import HTTPStatus
from typing import Any

import msgspec

from truespan.doors.http.call import Call
from truespan.doors.http.problems import PROBLEM, problem_reply
from truespan.doors.wire import status_of
from truespan.errors import (
    DeadlineExceeded,
    DomainNotFound,
    HostRefused,
    InternalError,
    Interrupted,
    InvalidSettings,
    KeyBusy,
    KeyReused,
    MediaTypeUnsupported,
    OriginRefused,
    Overloaded,
    RequestTooLarge,
    RouteNotFound,
    StorageFull,
    StoreBusy,
    StoreDamaged,
    TooManyRequests,
    TruespanError,
    Unauthorized,
)

Kind = type[TruespanError]

EVERYWHERE: tuple[Kind, ...] = (
    InvalidSettings,
    RequestTooLarge,
    HostRefused,
    OriginRefused,
    DeadlineExceeded,
    Interrupted,
    Overloaded,
    InternalError,
)
"""What can go wrong with any request, before anything is asked of the library."""
KNOWN: tuple[Kind, ...] = (Unauthorized, TooManyRequests, StoreBusy, StoreDamaged)
"""What can go wrong where the caller must be known, beside that."""
WRITING: tuple[Kind, ...] = (KeyReused, KeyBusy, StorageFull)

_SAMPLES: dict[str, Any] = {
    "str": "example",
    "int": 12,
    "float": 2.0,
    "Iterable[str]": ("GET", "HEAD"),
    "list[tuple[int, str]]": [],
    "message": "This sentence says what was wrong.",
    "verb": "write",
    "kind": "error",
    "tokens": 700,
    "limit": 512,
    "wanted": "application/json",
    "state": "running",
}
"""What stands in an example where an error is told something, by its name or its type."""


def kinds_of(call: Call) -> list[Kind]:
    """Return every error that a call can give, in the order of their statuses and codes."""
    told = [*EVERYWHERE, *call.errors]
    told += [] if call.open else KNOWN
    told += [RouteNotFound] if "{" in call.path else []
    told += [MediaTypeUnsupported] if call.takes is not None or call.form else []
    told += WRITING if call.writes else []
    told += [DomainNotFound] if call.domains else []
    every = {kind for one in told for kind in _family(one)}
    return sorted(every, key=lambda kind: (_status(kind), kind.code))


def problem_responses(call: Call) -> dict[str, Any]:
    """Return the responses of a call that fails, one for each status."""
    by_status: dict[int, list[Kind]] = {}
    for kind in kinds_of(call):
        by_status.setdefault(_status(kind), []).append(kind)
    return {str(status): _response(status, kinds) for status, kinds in by_status.items()}


def problem_examples(calls: Iterable[Call]) -> dict[str, Any]:
    """Return an example of every error that some call can give, by its code."""
    kinds = {kind.code: kind for call in calls for kind in kinds_of(call)}
    return {code: _example(kinds[code]) for code in sorted(kinds)}


def _response(status: int, kinds: list[Kind]) -> dict[str, Any]:
    codes = [kind.code for kind in kinds]
    narrowed = {"properties": {"status": {"const": status}, "code": {"enum": codes}}}
    headers = {name: entry for kind in kinds for name, entry in _headers(kind, kinds)}
    return {
        "description": f"{HTTPStatus(status).phrase}. The code is {_either(codes)}.",
        **({"headers": headers} if headers else {}),
        "content": {
            PROBLEM: {
                "schema": {
                    "allOf": [{"$ref": "#/components/schemas/ProblemDetails"}, narrowed],
                },
                "examples": {code: {"$ref": f"#/components/examples/{code}"} for code in codes},
            }
        },
    }


def _headers(kind: Kind, beside: list[Kind]) -> Iterator[tuple[str, dict[str, Any]]]:
    if kind is Unauthorized:
        yield "WWW-Authenticate", {"$ref": "#/components/headers/WWW-Authenticate"}
    elif kind.retryable:
        always = all(one is TooManyRequests for one in beside)
        yield (
            "Retry-After",
            {"$ref": f"#/components/headers/{'' if always else 'Maybe-'}Retry-After"},
        )


def _either(codes: list[str]) -> str:
    spelled = [f"`{code}`" for code in codes]
    return spelled[0] if len(spelled) == 1 else f"{', '.join(spelled[:-1])} or {spelled[-1]}"


def _example(kind: Kind) -> dict[str, Any]:
    error = _sample(kind)
    return {
        "summary": f"{error.message}",
        "value": msgspec.to_builtins(problem_reply(error).value),
    }


def _sample(kind: Kind) -> TruespanError:
    """Return an error of a kind, told of something that might have been."""
    wanted = inspect.signature(kind).parameters.values()
    told = [
        _SAMPLES.get(parameter.name) or _SAMPLES[str(parameter.annotation)]
        for parameter in wanted
        if parameter.default is parameter.empty
    ]
    return kind(*told)


def _status(kind: Kind) -> int:
    return status_of(kind.__new__(kind)).http


def _family(kind: Kind) -> Iterator[Kind]:
    """Give a kind of error and the kinds below it: a call that can give one can give the others."""
    yield kind
    for below in kind.__subclasses__():
        # Whoever uses the library may have made kinds of their own; no call gives those.
        if below.__module__.startswith("truespan."):
            yield from _family(below)
