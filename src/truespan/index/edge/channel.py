"""The channel between clients and the index process of a folder: address, keys and messages.

The process listens on a local socket and publishes the address in the
folder. Socket paths are limited to about 100 bytes and folders are not, so the socket is in a
separate private directory. Both sides know the key in the folder and challenge each other. The
client also names its folder, because a copied library has a copied key and a copied address.

Messages are MessagePack. A client greets with `Hello`; then each `Call` names a method of
`IndexCalls` and carries its arguments, and is answered with a `Result` or an error. The annotations
of the method decide which arguments and results are valid. Nothing outside that table can be
called.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import socket
import stat
import struct
import tempfile
from collections.abc import Iterator
from multiprocessing import AuthenticationError
from multiprocessing.connection import (
    Client,
    Connection,
    Listener,
    answer_challenge,
    deliver_challenge,
)
from pathlib import Path
from typing import Any, TypeAlias, get_type_hints

import msgspec
from msgspec import Raw, Struct

from truespan import errors
from truespan.core.decoding import prepare
from truespan.core.disk import FileLock
from truespan.index.base import IndexCalls

LOCK = "server.lock"
LOG = "server.log"
_ADDRESS = "server.json"
_KEY = "key"
_KEY_BYTES = 32
_MAX_SOCKET_PATH_LENGTH = 100
_WAITING_CLIENTS = 64

EXIT_FULL, EXIT_DESCRIPTORS = 3, 4
"""Exit codes of a process that could not start because the disk is full, or no file descriptor is
free."""


class Refusal(Exception):
    """The other side does not know the key, or uses another protocol."""


class Address(Struct, frozen=True):
    """The address on which the process of a folder listens, and its process id."""

    name: str
    pid: int


def identity(folder: Path) -> str:
    """Return an identity that stays the same after a move, but differs in a copy."""
    found = folder.stat()
    return f"{found.st_dev}:{found.st_ino}"


def key_of(folder: Path) -> bytes:
    """Return the folder's key; create it if it is missing, readable by its owner only."""
    path = folder / _KEY
    key = path.read_bytes() if path.exists() else b""
    if len(key) == _KEY_BYTES:
        return key
    with FileLock(path):
        key = path.read_bytes()
        if len(key) != _KEY_BYTES:
            import secrets

            key = secrets.token_bytes(_KEY_BYTES)
            path.write_bytes(key)
    return key


# Where the process listens


def listen(folder: Path) -> tuple[Listener, Address]:
    """Listen for the clients of `folder`; the caller must hold the folder's lock."""
    digest = hashlib.sha256(os.fsencode(folder.resolve())).hexdigest()[:16]
    path = _private_directory() / f"{digest}.sock"
    # A killed process leaves its socket behind; the holder of the lock may remove it.
    path.unlink(missing_ok=True)
    return Listener(str(path), "AF_UNIX", _WAITING_CLIENTS), Address(str(path), os.getpid())


def publish(folder: Path, address: Address) -> None:
    """Publish the address for clients, atomically."""
    draft = folder / f"{_ADDRESS}.new"
    draft.write_bytes(msgspec.json.encode(address))
    os.replace(draft, folder / _ADDRESS)


def withdraw(folder: Path) -> None:
    """Withdraw the address; later clients wait for another process."""
    (folder / _ADDRESS).unlink(missing_ok=True)


def published(folder: Path) -> Address | None:
    """Return the address of the folder's process; None if no process is ready."""
    try:
        return msgspec.json.decode((folder / _ADDRESS).read_bytes(), type=prepare(Address))
    except (OSError, msgspec.DecodeError):
        return None


def _private_directory() -> Path:
    """Return a directory with a short path that belongs to this user alone."""
    user = f"truespan-{os.getuid()}"
    places = [Path(tempfile.gettempdir(), user), Path("/tmp", user)]  # noqa: S108
    if runtime := os.environ.get("XDG_RUNTIME_DIR"):
        places.insert(0, Path(runtime, "truespan"))
    for place in places:
        if len(os.fsencode(place)) + len("/0123456789abcdef.sock") > _MAX_SOCKET_PATH_LENGTH:
            continue
        try:
            place.mkdir(mode=0o700, exist_ok=True)
            found = place.lstat()
        except OSError:
            continue
        # In a shared directory another user may have created it first, or put a link there.
        mine = stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid()
        if mine and stat.S_IMODE(found.st_mode) == 0o700:
            return place
    raise PermissionError("no private directory for a socket can be had")


# Connections


def connect(address: Address, key: bytes, seconds: float) -> Connection:
    """Connect as a client; every later wait on the connection ends after `seconds`.

    Another key is a `Refusal`, a process that is ending an OSError or EOFError.
    """
    connection = Client(address.name, "AF_UNIX")
    try:
        limit_waiting(connection, seconds)
        answer_challenge(connection, key)
        deliver_challenge(connection, key)
    except BaseException as error:
        connection.close()
        if isinstance(error, AuthenticationError | AssertionError):
            raise Refusal from None
        raise
    return connection


def admit(connection: Connection, key: bytes, seconds: float) -> None:
    """Authenticate both sides, as the process; a client without our key is a `Refusal`."""
    try:
        limit_waiting(connection, seconds)
        deliver_challenge(connection, key)
        answer_challenge(connection, key)
        limit_waiting(connection, 0)
    except Exception as error:
        # Whatever an unauthenticated client sends, and however the handshake fails, it is refused.
        raise Refusal from error


def limit_waiting(connection: Connection, seconds: float) -> None:
    """Limit each single read and write on a socket to `seconds`; 0 removes the limit.

    Waiting for input before a read would not be enough: the other side may stop within a message,
    or stop reading ours.
    """
    whole = int(seconds)
    value = struct.pack("ll", whole, int((seconds - whole) * 1_000_000))
    with _socket_of(connection) as channel:
        channel.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, value)
        channel.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, value)


def refuse_more(connection: Connection) -> None:
    """Accept nothing more: later sends of the client fail, so it knows that they were not read."""
    # The client may have closed the connection already.
    with contextlib.suppress(OSError), _socket_of(connection) as channel:
        channel.shutdown(socket.SHUT_RD)


@contextlib.contextmanager
def _socket_of(connection: Connection) -> Iterator[socket.socket]:
    """Yield the socket of a connection, which stays its owner."""
    channel = socket.socket(fileno=connection.fileno())
    try:
        # A default timeout set elsewhere in the process would have made it non-blocking.
        channel.setblocking(True)
        yield channel
    finally:
        channel.detach()


VERSION = 1
"""Changes whenever a call does. The greeting and its replies are the same in every version."""

MAX_MESSAGE_SIZE = 256 << 20
_LENGTH_BYTES = 4
_FIRST_BLOCK, _BLOCK = 1 << 16, 1 << 20
"""Maximum number of bytes of one read: before the length of a message is known, and after."""

RETIRE = "retire"
"""Asks the process to end cleanly; all other calls are calls of the index."""


class Hello(Struct, tag=True, array_like=True):
    """The first message: the client's version and the identity of its folder."""

    version: int
    folder: str


class Welcome(Struct, tag=True, array_like=True):
    pid: int


class Retiring(Struct, tag=True, array_like=True):
    """The process is ending and ignored the request; another process will take it."""


class Refused(Struct, tag=True, array_like=True):
    message: str
    advice: str = ""


class Failed(Struct, tag=True, array_like=True):
    """An error whose class has its own constructor: the name of the class and the arguments."""

    error: str
    values: list[int | str]


class Call(Struct, array_like=True):
    """The name of a method and its encoded arguments."""

    name: str
    arguments: Raw


class Result(Struct, tag=True, array_like=True):
    """The encoded result of the method."""

    value: Raw


Reply: TypeAlias = Welcome | Retiring | Refused | Failed | Result

encode = msgspec.msgpack.Encoder().encode
decode_hello = msgspec.msgpack.Decoder(prepare(Hello)).decode
decode_call = msgspec.msgpack.Decoder(prepare(Call)).decode
decode_reply = msgspec.msgpack.Decoder(prepare(Reply)).decode

CALLS = {name: method for name, method in vars(IndexCalls).items() if not name.startswith("_")}
"""The table of calls: every method of `IndexCalls`."""


def receive(connection: Connection) -> bytes:
    """Return the next message; OSError or EOFError if none arrives in time."""
    # `recv_bytes` reads the length apart from the rest. Here a short message takes one read, after
    # which no other thread has to give the interpreter back. Neither side sends a second message
    # before the reply to the first.
    message, total, is_known = bytearray(), _LENGTH_BYTES, False
    while len(message) < total:
        size = min(total - len(message), _BLOCK) if is_known else _FIRST_BLOCK
        part = os.read(connection.fileno(), size)
        if not part:
            raise EOFError
        message += part
        if not is_known and len(message) >= _LENGTH_BYTES:
            total = _LENGTH_BYTES + int.from_bytes(message[:_LENGTH_BYTES], signed=True)
            if not 0 <= total - len(message) <= MAX_MESSAGE_SIZE:
                raise OSError("a message of this length is not expected")
            is_known = True
    return bytes(memoryview(message)[_LENGTH_BYTES:])


def decode_arguments(call: Call) -> tuple[Any, ...]:
    """Return the arguments of a call, or refuse those that its annotations do not allow."""
    if call.name not in CALLS:
        raise errors.IndexRefused("The index process has no such call.")
    try:
        return _argument_decoder(call.name).decode(call.arguments)
    except msgspec.DecodeError:
        raise errors.IndexRefused(f"The arguments of the call {call.name!r} are invalid.") from None


# Shared by threads: caches of msgspec decoders, which keep no state between calls.
@functools.cache
def _argument_decoder(name: str) -> msgspec.msgpack.Decoder[tuple[Any, ...]]:
    hints = get_type_hints(CALLS[name])
    types = tuple(kind for parameter, kind in hints.items() if parameter != "return")
    return msgspec.msgpack.Decoder(prepare(tuple[types]))


# Shared by threads: as above.
@functools.cache
def result_decoder(name: str) -> msgspec.msgpack.Decoder[Any]:
    return msgspec.msgpack.Decoder(
        prepare(get_type_hints(CALLS[name])["return"]) if name in CALLS else None
    )


_ERRORS = {
    "full": errors.StorageFull,
    "descriptors": errors.TooManyOpenFiles,
    "mismatch": errors.IndexSchemaMismatch,
    "unavailable": errors.IndexUnavailable,
}


def reply_for(error: errors.TruespanError) -> Reply:
    """Return the reply that carries an error to the client."""
    match error:
        case errors.StorageFull():
            return Failed("full", [error.free, error.reserve])
        case errors.TooManyOpenFiles():
            return Failed("descriptors", [])
        case errors.IndexSchemaMismatch():
            return Failed("mismatch", [error.expected, error.found])
        case errors.IndexUnavailable():
            return Failed("unavailable", [error.message])
        case _:
            return Refused(error.message, error.advice)


def error_from(reply: Reply) -> errors.TruespanError:
    """Return the error that a reply carries."""
    match reply:
        case Failed(name, values) if name in _ERRORS:
            return _ERRORS[name](*values)
        case Refused(message, advice):
            return errors.IndexRefused(message, advice=advice)
        case _:
            return errors.IndexRefused(
                "The index process sent a reply that does not fit the request."
            )
