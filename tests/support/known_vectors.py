"""Vectors of the local model that are computed once in a process, however often a text comes.

A vector is a function of the text alone, as the contract tests of the embedder show without this.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from truespan.providers import local
from truespan.types.chunk import Vector

if TYPE_CHECKING:
    from onnxruntime import InferenceSession

_KNOWN: dict[tuple[InferenceSession, tuple[int, ...]], Vector] = {}
_RUN = local._run


def _run_once(session: InferenceSession, tokens: list[int]) -> Vector:
    key = (session, tuple(tokens))
    if key not in _KNOWN:
        _KNOWN[key] = _RUN(session, tokens)
    return _KNOWN[key]


@contextmanager
def known_vectors() -> Iterator[None]:
    """Let the local embedder give again what it gave before."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(local, "_run", _run_once)
        yield
