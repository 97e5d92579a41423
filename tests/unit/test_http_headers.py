"""Headers are those of the requested scope, in their original order."""

from typing import Any

from truespan.extensions.server.http.bodies import header


def test_headers_are_those_of_their_scope_in_order() -> None:
    scope: Any = {"headers": [(b"accept", b"a"), (b"host", b"h"), (b"accept", b"b")]}
    assert header(scope, b"accept") == [b"a", b"b"]
    assert header(scope, b"host") == [b"h"]
    assert header(scope, b"cookie") == []
    scope: Any = {"headers": [(b"authorization", b"Bearer first")]}
    assert header(scope, b"authorization") == [b"Bearer first"]
    copy = {**scope, "headers": [(b"authorization", b"Bearer second")]}
    assert header(copy, b"authorization") == [b"Bearer second"]
    assert header(scope, b"authorization") == [b"Bearer first"]
