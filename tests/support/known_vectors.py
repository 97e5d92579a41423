"""Vectors of the local model, computed once for each text in a process.

A vector is a function of the text alone, as the contract tests of the embedder show without this.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from truespan.providers.local import LocalEmbedder

_KNOWN: dict[tuple[Any, ...], Any] = {}
_RUN = LocalEmbedder._run


def _run_once(self: LocalEmbedder, loaded: Any, text: Any, *, states: bool) -> Any:
    key = (loaded.session, tuple(text.encoding.ids), states)
    if key not in _KNOWN:
        _KNOWN[key] = _RUN(self, loaded, text, states=states)
    return _KNOWN[key]


@contextmanager
def known_vectors() -> Iterator[None]:
    """Let the local embedder return its earlier vectors again."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(LocalEmbedder, "_run", _run_once)
        yield
