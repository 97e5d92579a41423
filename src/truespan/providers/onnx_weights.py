"""Weights of a network in the ONNX format, read without a runtime."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from truespan.providers.onnx import read_varint

if TYPE_CHECKING:
    import numpy

_TYPES = {1: "<f4", 2: "u1", 3: "i1"}
"""Element types of the weights of quantised networks, by their numbers in the format."""
_GRAPH, _TENSOR = 7, 5
_DIMENSIONS, _TYPE, _FLOATS, _NUMBERS, _NAME, _RAW = 1, 2, 4, 5, 8, 9
"""Numbers of the fields that lead to the weights, and of the fields of a tensor."""


def read_weights(network: bytes) -> dict[str, numpy.ndarray]:
    """Return the weights in a network file by their names; other element types are left out."""
    view = memoryview(network)
    tensors = (
        tensor
        for number, graph in _fields(view)
        if number == _GRAPH and isinstance(graph, memoryview)
        for number, tensor in _fields(graph)
        if number == _TENSOR and isinstance(tensor, memoryview)
    )
    return dict(found for tensor in tensors if (found := _read_tensor(tensor)) is not None)


def _read_tensor(view: memoryview) -> tuple[str, numpy.ndarray] | None:
    import numpy

    lists: dict[int, list[int]] = {_DIMENSIONS: [], _TYPE: [], _NUMBERS: []}
    name, raw = "", b""
    for number, value in _fields(view):
        if number in lists:
            lists[number] += [value] if isinstance(value, int) else _numbers(value)
        elif number == _NAME and not isinstance(value, int):
            name = str(value, "utf-8")
        elif number in (_FLOATS, _RAW) and not isinstance(value, int):
            raw += value
    kind = _TYPES.get(sum(lists[_TYPE]))
    if kind is None:
        return None
    # Few bytes are a list of numbers, in which a negative one has its upper bits set.
    raw = raw or bytes(each & 255 for each in lists[_NUMBERS])
    return name, numpy.frombuffer(bytearray(raw), kind).reshape(lists[_DIMENSIONS])


def _numbers(view: memoryview) -> Iterator[int]:
    start = 0
    while start < len(view):
        value, start = read_varint(view, start, len(view))
        yield value


def _fields(view: memoryview) -> Iterator[tuple[int, int | memoryview]]:
    """Yield number and value of each field of a message; numbers of fixed size as their bytes."""
    start, end = 0, len(view)
    while start < end:
        tag, start = read_varint(view, start, end)
        if tag & 7 == 0:
            value, start = read_varint(view, start, end)
            yield tag >> 3, value
        else:
            length = 8 if tag & 7 == 1 else 4
            if tag & 7 == 2:
                length, start = read_varint(view, start, end)
            yield tag >> 3, view[start : start + length]
            start += length
