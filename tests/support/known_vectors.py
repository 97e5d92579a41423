"""Vectors of the local model that are computed once in a process, however often a text comes.

A vector is a function of the text alone, as the contract tests of the embedder show without this.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

from truespan.providers.local import LocalEmbedder
from truespan.types.vectors import Vector

if TYPE_CHECKING:
    from tokenizers import Encoding

_KNOWN: dict[tuple[Any, tuple[int, ...]], Vector] = {}
_RUN = LocalEmbedder._run


def _run_once(self: LocalEmbedder, loaded: Any, inputs: Sequence[Encoding]) -> list[Vector]:
    [encoding] = inputs
    key = (loaded.session, tuple(encoding.ids))
    if key not in _KNOWN:
        [_KNOWN[key]] = _RUN(self, loaded, inputs)
    return [_KNOWN[key]]


@contextmanager
def known_vectors() -> Iterator[None]:
    """Let the local embedder give again what it gave before."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(LocalEmbedder, "_run", _run_once)
        yield
