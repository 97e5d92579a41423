"""Errors as RFC 9457 problem details."""

from __future__ import annotations

import math
from http import HTTPStatus

import msgspec

from truespan.errors import MethodNotAllowed, TruespanError, Unauthorized
from truespan.http.call import Reply
from truespan.serialize import failure_of, problem, status_of
from truespan.types.bundle import ContextBundle

PROBLEM = "application/problem+json"


class ProblemDetails(msgspec.Struct, frozen=True, kw_only=True):
    """Why a request failed. `code` is stable; `retryable` says whether the same may help later.

    `bundle` is that of a retrieval that failed, its account included.
    """

    type: str
    title: str
    status: int
    detail: str
    code: str
    retryable: bool
    advice: str = ""
    bundle: ContextBundle | msgspec.UnsetType = msgspec.UNSET


def problem_reply(error: TruespanError, bundle: ContextBundle | None = None) -> Reply:
    """Return an error as it leaves."""
    status, told = status_of(error).http, problem(error)
    found = ProblemDetails(
        type=f"urn:truespan:problem:{error.code}",
        title=HTTPStatus(status).phrase,
        status=status,
        detail=told["message"],
        code=told["code"],
        retryable=told["retryable"],
        advice=told["advice"],
        bundle=msgspec.UNSET if bundle is None else bundle,
    )
    return Reply(found, status, tuple(_headers(error)), PROBLEM)


def bundle_reply(bundle: ContextBundle) -> Reply:
    """Return a bundle, or the problem that it tells of with the bundle in it."""
    failure = failure_of(bundle)
    return Reply(bundle) if failure is None else problem_reply(failure, bundle)


def _headers(error: TruespanError) -> list[tuple[str, str]]:
    headers: list[tuple[str, str]] = []
    wait = getattr(error, "retry_after", None)
    if wait is not None and math.isfinite(wait):
        headers.append(("retry-after", str(max(1, math.ceil(wait)))))
    if isinstance(error, Unauthorized):
        headers.append(("www-authenticate", 'Bearer realm="truespan"'))
    if isinstance(error, MethodNotAllowed):
        headers.append(("allow", ", ".join(error.allowed)))
    return headers
