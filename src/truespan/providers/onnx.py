"""Networks in the ONNX format that run on this machine: their files and their runs.

Must hold: the bytes that were hashed are the bytes used, no file outside the model's folder is
read, and nothing leaves the machine.
"""

from __future__ import annotations

import os
from abc import abstractmethod
from collections.abc import Callable, Mapping, MutableMapping, Sequence
from functools import cached_property
from hashlib import sha256
from pathlib import PurePosixPath
from threading import Lock
from typing import TYPE_CHECKING, TypeVar
from weakref import WeakValueDictionary

from msgspec import Struct

from truespan.core.cancel import current_cancel_token
from truespan.errors import ModelUnavailable, resource_error
from truespan.providers.model_files import (
    DATA_LIMIT,
    DESCRIPTION_FILE,
    TEXT_LIMIT,
    TOKENIZER_FILE,
    ModelFiles,
    ModelFolder,
    unreadable,
)
from truespan.providers.protobuf import read_fields, read_messages

if TYPE_CHECKING:
    from concurrent.futures import Future, ThreadPoolExecutor

    import numpy
    from onnxruntime import InferenceSession
    from tokenizers import Encoding

NETWORK_FILES = ("model.onnx", "onnx/model.onnx")
"""Usual places of the network in an export; the first existing one is used."""
CPU = "CPUExecutionProvider"

_NETWORK_LIMIT = 2 << 30

Result = TypeVar("Result")


class NetworkFiles(ModelFiles):
    """The files of one model in the ONNX format."""

    @cached_property
    def network(self) -> str:
        return self._find_network()

    @property
    def external(self) -> tuple[str, ...]:
        """Return the names, as the network spells them, of the files with its weights."""
        return ()

    def check(self, name: str) -> None:
        """Raise ModelUnavailable if a file does not have its digest."""
        self.read(name)

    @abstractmethod
    def _find_network(self) -> str: ...


# Shared by threads: the tokenizer is loaded under a lock, configured before it is published, and
# afterwards only encodes; the properties are computed from files.
class FolderFiles(NetworkFiles, ModelFolder):
    """The files of a model that was exported into a folder.

    The network is the file that the description names, else `model.onnx`, in the folder or in its
    folder `onnx`, or the only network there is.
    """

    def _find_network(self) -> str:
        if self.description.file:
            names = [self.description.file]
        else:
            found = [*self.location.glob("*.onnx"), *self.location.glob("onnx/*.onnx")]
            others = [path.relative_to(self.location).as_posix() for path in found]
            names = [*NETWORK_FILES, *(others if len(others) == 1 else ())]
        for name in names:
            if self.path(name).is_file():
                return name
        raise ModelUnavailable(
            f"The model folder {self.location} does not hold {names[0]}.",
            advice=f"Export the model as ONNX into it, or set file in {DESCRIPTION_FILE}.",
        )

    @property
    def contents(self) -> NetworkContents:
        return self._network_read[1]

    @property
    def external(self) -> tuple[str, ...]:
        return self.contents.external

    def _find_digests(self) -> Mapping[str, str]:
        beside = PurePosixPath(self.network).parent
        limits = {(beside / name).as_posix(): DATA_LIMIT for name in self.external}
        digests = {self.network: self._network_read[0]}
        for name, limit in (limits | {TOKENIZER_FILE: TEXT_LIMIT}).items():
            digests[name] = self._digest(name, limit)
        return digests

    @cached_property
    def _network_read(self) -> tuple[str, NetworkContents]:
        path = self.path(self.network)
        self._require_size(self.network, _NETWORK_LIMIT)
        try:
            content = path.read_bytes()
            return sha256(content).hexdigest(), read_contents(content)
        except OSError as failure:
            raise resource_error(failure) or unreadable(path) from failure
        except ValueError as failure:
            raise ModelUnavailable(
                f"The file {path} is not an ONNX network.", advice="Export the model again."
            ) from failure


class NetworkContents(Struct, frozen=True):
    """Names in a network file: files with its weights, and outputs."""

    external: tuple[str, ...]
    outputs: Mapping[str, int | None]
    """Last dimension of each output, if it is fixed."""


_PARTS = {
    "model": {7: "network", 25: "function"},
    "network": {1: "node", 5: "tensor", 12: "output", 15: "sparse tensor"},
    "graph": {1: "node", 5: "tensor", 15: "sparse tensor"},
    "function": {7: "node"},
    "node": {4: "operator", 5: "attribute"},
    "attribute": {
        5: "tensor",
        6: "graph",
        10: "tensor",
        11: "graph",
        22: "sparse tensor",
        23: "sparse tensor",
    },
    "sparse tensor": {1: "tensor", 2: "tensor"},
    "tensor": {13: "entry"},
}
"""The members of each message of the ONNX format that lead to operators and external files."""


def read_contents(network: bytes) -> NetworkContents:
    """Return the names in a network file; raise ValueError if it is not an ONNX network."""
    # Weights are skipped, so this takes hardly any time.
    external: set[str] = set()
    has_operators = False
    outputs: dict[str, int | None] = {}
    todo = [("model", memoryview(network))]
    while todo:
        kind, view = todo.pop()
        if kind == "operator":
            has_operators = True
        elif kind == "entry":
            pair = {number: bytes(next(read_messages(view, number), b"")) for number in (1, 2)}
            if pair[1] == b"location":
                external.add(str(pair[2], "utf-8"))
        elif kind == "output":
            for name in read_messages(view, 1):
                outputs[str(name, "utf-8")] = _last_dimension(view)
        else:
            parts = _PARTS[kind]
            for number, value in read_fields(view):
                if number in parts and isinstance(value, memoryview):
                    todo.append((parts[number], value))
    if not has_operators:
        raise ValueError("It has no operators.")
    return NetworkContents(tuple(sorted(external)), outputs)


def _last_dimension(view: memoryview) -> int | None:
    for step in (2, 1, 2):  # The type of the value, the type of the tensor, its shape.
        found = next(read_messages(view, step), None)
        if found is None:
            return None
        view = found
    dimensions = list(read_messages(view, 1))
    # A dimension has either a number or a name.
    number, value = next(read_fields(dimensions[-1]), (0, 0)) if dimensions else (0, 0)
    return value if number == 1 and isinstance(value, int) else None


# Sessions

_SILENT = 4
"""The severity at which only fatal messages of the runtime are left; none may reach stdout."""
_LOADING = Lock()
# Shared by threads: changed only while `_LOADING` is held; onnxruntime's sessions may run on
# several threads.
_IN_USE: MutableMapping[tuple[str, ...], InferenceSession] = WeakValueDictionary()
"""Sessions by the digests of their files: libraries open at once in a process share one."""


def disable_telemetry() -> None:
    """Keep onnxruntime from collecting usage data; call it before onnxruntime is imported."""
    # On Linux, importing onnxruntime would write a device id and an event database to the user's
    # cache folder and later try to send events. Only this variable prevents that, because
    # `disable_telemetry_events` can only be called after the import. A set value is overridden.
    os.environ["ORT_DISABLE_TELEMETRY"] = "1"


def open_session(files: NetworkFiles) -> InferenceSession:
    """Return the loaded network of a model; models with the same files share one."""
    beside = PurePosixPath(files.network).parent
    names = [(beside / name).as_posix() for name in files.external]
    key = tuple(files.digests[name] for name in (files.network, *names))
    if (session := _IN_USE.get(key)) is not None:
        # The files are checked even if the network is loaded already.
        for name in (files.network, *names):
            files.check(name)
        return session
    content = files.read(files.network)
    weights = [files.read(name) for name in names]
    with _LOADING:
        session = _IN_USE.get(key)
        if session is None:
            session = _load(files, content, weights)
            _IN_USE[key] = session
        return session


def _load(files: NetworkFiles, content: bytes, weights: list[bytes]) -> InferenceSession:
    disable_telemetry()
    import onnxruntime

    onnxruntime.set_default_logger_severity(_SILENT)
    # For Windows, and for a program that imported onnxruntime before.
    onnxruntime.disable_telemetry_events()
    options = onnxruntime.SessionOptions()
    options.log_severity_level = _SILENT
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    # Measured: the arena saves a tenth of the time and a third of the memory. Memory patterns are
    # kept per length of text, and hardly any two texts have the same.
    options.enable_cpu_mem_arena = True
    options.enable_mem_pattern = False
    try:
        if weights:
            # Passed from memory: the runtime would look for the files in the current folder.
            names = list(files.external)
            if list(read_contents(content).external) != names:
                raise ValueError("The network refers to other files than before.")
            options.add_external_initializers_from_files_in_memory(
                names, weights, list(map(len, weights))
            )
        # Named, because a build of the runtime may have providers that send inputs to a server.
        session = onnxruntime.InferenceSession(content, options, providers=[CPU])
        # The runtime decodes names only when they are read, and some may not be UTF-8.
        for entry in (*session.get_inputs(), *session.get_outputs()):
            _ = entry.name, entry.shape
        return session
    except Exception as failure:  # The runtime's own errors have no common root.
        raise ModelUnavailable(
            f"The network {files.path(files.network)} cannot be loaded.",
            advice="The folder must hold a model as ONNX that the installed onnxruntime supports.",
        ) from failure


# Runs

_KNOWN_INPUTS = ("input_ids", "attention_mask", "token_type_ids", "position_ids")


def require_known_inputs(session: InferenceSession, files: NetworkFiles) -> None:
    """Raise ModelUnavailable if a network needs other inputs than the tokens of texts."""
    names = [entry.name for entry in session.get_inputs()]
    unknown = [name for name in names if name not in _KNOWN_INPUTS]
    if unknown or "input_ids" not in names:
        reason = f"needs the input {unknown[0]!r}" if unknown else "has no input 'input_ids'"
        raise ModelUnavailable(
            f"The network {files.path(files.network)} {reason}.",
            advice="Export the model for feature extraction, so that it reads tokens only.",
        )


def run_tokens(
    session: InferenceSession, outputs: Sequence[str], encoding: Encoding
) -> list[numpy.ndarray]:
    """Return outputs of the network for one text; threads may share a session."""
    # Inputs that the network does not have are left out.
    import numpy

    size = len(encoding.ids)
    values = (encoding.ids, [1] * size, encoding.type_ids, range(size))
    given = dict(zip(_KNOWN_INPUTS, values, strict=True))
    feed = {
        entry.name: numpy.array(
            [given[entry.name]], numpy.int32 if entry.type == "tensor(int32)" else numpy.int64
        )
        for entry in session.get_inputs()
    }
    return [numpy.asarray(found) for found in session.run([*outputs], feed)]


class Workers:
    """Threads that run a network on one input each, in parallel."""

    def __init__(self, count: int) -> None:
        from concurrent.futures import ThreadPoolExecutor

        self._pool: ThreadPoolExecutor = ThreadPoolExecutor(count, "truespan-embed")

    def map(self, run: Callable[[int], Result], order: Sequence[int]) -> list[Result]:
        """Return the results of `run` for 0, 1, ..., started in the order of `order`."""
        # If the request is cancelled, inputs that are not yet running never run.
        token = current_cancel_token()

        def run_unless_cancelled(number: int) -> Result:
            token.check()
            return run(number)

        return gather({i: self._pool.submit(run_unless_cancelled, i) for i in order})


def gather(futures: Mapping[int, Future[Result]]) -> list[Result]:
    """Return the results of futures numbered from 0; after a failure, cancel the others."""
    try:
        return [futures[i].result() for i in range(len(futures))]
    except BaseException:
        # Ctrl-C included: what is not yet running never runs, so stopping takes one text's time.
        for future in futures.values():
            future.cancel()
        raise
