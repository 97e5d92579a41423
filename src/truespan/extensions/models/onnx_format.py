"""Networks in the ONNX format, which consists of messages of protocol buffers: writing and weights.

Owns: the bytes of nodes, tensors, inputs, outputs and networks; reading weights without a runtime.
Does not own: the meaning of a network; its caller names operators and their attributes.
Must hold: weights are in the network itself, or in a file beside it that the network names.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Sequence
from enum import IntEnum
from typing import TYPE_CHECKING, TypeAlias

from truespan.providers.protobuf import read_fields, read_messages, read_number

if TYPE_CHECKING:
    import numpy

Attribute: TypeAlias = int | float | Sequence[int]


class ElementType(IntEnum):
    """Type of the elements of a tensor."""

    FLOAT = 1
    UINT8 = 2
    INT64 = 7


def node(
    operator: str, inputs: Iterable[str], outputs: str | Sequence[str], **attributes: Attribute
) -> bytes:
    """Return a node: an operator with the names of its inputs and outputs."""
    names = [outputs] if isinstance(outputs, str) else outputs
    return (
        b"".join(_field(1, name) for name in inputs)
        + b"".join(_field(2, name) for name in names)
        + _field(4, operator)
        + b"".join(_field(5, _attribute(name, value)) for name, value in attributes.items())
    )


def _attribute(name: str, value: Attribute) -> bytes:
    if isinstance(value, int):
        return _field(1, name) + _field(3, value) + _field(20, 2)
    if isinstance(value, float):
        return _field(1, name) + _varint(2 << 3 | 5) + struct.pack("<f", value) + _field(20, 1)
    return _field(1, name) + b"".join(_field(8, number) for number in value) + _field(20, 7)


def value(name: str, element: ElementType, *shape: int | str) -> bytes:
    """Return an input or output; a dimension of variable size has a name."""
    sizes = b"".join(_field(1, _field(1 if isinstance(n, int) else 2, n)) for n in shape)
    return _field(1, name) + _field(2, _field(1, _field(1, element) + _field(2, sizes)))


def tensor(name: str, element: ElementType, shape: Iterable[int], content: bytes) -> bytes:
    """Return weights that are part of the network."""
    return _tensor(name, element, shape) + _field(9, content)


def external_tensor(
    name: str, element: ElementType, shape: Iterable[int], file: str, *, start: int, length: int
) -> bytes:
    """Return weights in a file beside the network: `length` bytes from `start` on."""
    pairs = {"location": file, "offset": str(start), "length": str(length)}
    entries = [_field(13, _field(1, key) + _field(2, text)) for key, text in pairs.items()]
    return _tensor(name, element, shape) + b"".join(entries) + _field(14, 1)


def _tensor(name: str, element: ElementType, shape: Iterable[int]) -> bytes:
    return b"".join(_field(1, size) for size in shape) + _field(2, element) + _field(8, name)


def network(
    nodes: Iterable[bytes],
    weights: Iterable[bytes],
    inputs: Iterable[bytes],
    outputs: Iterable[bytes],
    *,
    operators: int = 17,
) -> bytes:
    """Return a network with the operators of a version of the format."""
    graph = b"".join(_field(1, entry) for entry in nodes) + _field(2, "network")
    graph += b"".join(_field(5, entry) for entry in weights)
    graph += b"".join(_field(11, entry) for entry in inputs)
    graph += b"".join(_field(12, entry) for entry in outputs)
    return _field(1, 8) + _field(8, _field(2, operators)) + _field(7, graph)


_TYPES = {1: "<f4", 2: "u1", 3: "i1"}
"""Element types of the weights of quantised networks, by their numbers in the format."""
_GRAPH, _TENSOR = 7, 5
_DIMENSIONS, _TYPE, _FLOATS, _NUMBERS, _NAME, _RAW = 1, 2, 4, 5, 8, 9
"""Numbers of the fields that lead to the weights, and of the fields of a tensor."""


def read_weights(network: bytes) -> dict[str, numpy.ndarray]:
    """Return the weights in a network file by their names; other element types are left out."""
    tensors = (
        tensor
        for graph in read_messages(memoryview(network), _GRAPH)
        for tensor in read_messages(graph, _TENSOR)
    )
    return dict(found for tensor in tensors if (found := _read_tensor(tensor)) is not None)


def _read_tensor(view: memoryview) -> tuple[str, numpy.ndarray] | None:
    import numpy

    lists: dict[int, list[int]] = {_DIMENSIONS: [], _TYPE: [], _NUMBERS: []}
    name, raw = "", b""
    for number, value in read_fields(view):
        if number in lists:
            lists[number] += [value] if isinstance(value, int) else _read_numbers(value)
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


def _read_numbers(view: memoryview) -> Iterator[int]:
    start = 0
    while start < len(view):
        value, start = read_number(view, start)
        yield value


def _field(number: int, content: bytes | str | int) -> bytes:
    """Return a field with a number, a text or bytes."""
    if isinstance(content, int):
        return _varint(number << 3) + _varint(content)
    content = content.encode() if isinstance(content, str) else content
    return _varint(number << 3 | 2) + _varint(len(content)) + content


def _varint(number: int) -> bytes:
    parts = bytearray()
    while number > 127:
        parts.append(number & 127 | 128)
        number >>= 7
    return bytes([*parts, number])
