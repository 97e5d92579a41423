"""Networks of PyTorch on the devices of this machine: choice of devices, batches and runs.

Owns: finding devices, batches by a token budget, smaller batches after a device ran out of memory,
and several devices side by side.
Does not own: the networks, and the meaning of their output.
Must hold: a device is used or refused, never replaced by another one; the shape in which a text is
run depends on no other text, except for the number of texts.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cached_property
from importlib import import_module
from pathlib import Path
from queue import SimpleQueue
from threading import Lock
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from msgspec import Struct

from truespan.errors import InvalidConfiguration, ModelUnavailable, TruespanError
from truespan.providers.onnx import gather

if TYPE_CHECKING:
    from concurrent.futures import Future, ThreadPoolExecutor

    import numpy
    from tokenizers import Encoding
    from torch import Tensor, device, dtype  # pyright: ignore[reportMissingImports]

BATCH_TOKENS = 131_072
"""Maximum number of tokens of a batch. On an H200, half of them cost a tenth of the rate."""
_WIDTH_STEP = 64
"""Number of tokens to a multiple of which the texts of a batch are padded."""
_RUNS_PER_DEVICE = 2
"""Concurrent runs of a GPU: one is prepared while the other is on it. More wait for each other."""
_DRIVER_FILE, _DRIVER_NODE = Path("/proc/driver/nvidia/version"), Path("/dev/nvidiactl")


def import_torch(package: str = "torch") -> Any:
    """Return PyTorch or a package around it; raise ModelUnavailable if it is not installed."""
    try:
        return import_module(package)
    except ImportError:
        text = f"The package {package} is not installed."
        raise ModelUnavailable(text, advice="Install Truespan with the extra 'torch'.") from None


def find_devices(wanted: str) -> list[device]:
    """Return the devices of a comma-separated list; "auto" is the first GPU, or else the CPU."""
    torch = import_torch()
    names = [name.strip().lower() for name in wanted.split(",") if name.strip()]
    if names == ["auto"]:
        names = [_usable()[0]]
        if names == ["cpu"] and _DRIVER_NODE.exists():
            raise InvalidConfiguration(
                "This machine has an NVIDIA GPU that the installed PyTorch cannot use.",
                advice="Install the build of PyTorch for its driver, or set the device to 'cpu'.",
            )
    try:
        found = [torch.device(name) for name in names]
    except RuntimeError:
        found = []
    if not found or not all(_is_usable(each) for each in found):
        raise InvalidConfiguration(
            f"PyTorch {torch.__version__} has no device {wanted!r} on this machine.",
            advice=f"Choose among: auto, {', '.join(_usable())}.",
        )
    if len({each.type for each in found}) > 1:
        raise InvalidConfiguration("Devices that share the work must be of the same type.")
    return found


def _usable() -> list[str]:
    torch = import_torch()
    gpus = [f"cuda:{number}" for number in range(torch.cuda.device_count())]
    return [*gpus, *(["mps"] if torch.backends.mps.is_available() else []), "cpu"]


def _is_usable(each: device) -> bool:
    name = f"cuda:{each.index or 0}" if each.type == "cuda" else each.type
    return name in _usable()


class TorchNetwork(ABC):
    """A copy of a network on one device."""

    @abstractmethod
    def run(self, ids: Tensor, mask: Tensor, kinds: Tensor) -> tuple[Tensor, Tensor]:
        """Return a vector for each row of tokens, and the states of its tokens."""


class _Slot(NamedTuple):
    """A network on a device, for several runs, which are launched one after another."""

    device: device
    network: TorchNetwork
    launching: Lock
    """Held while a run is launched: other threads would slow down each of its many calls."""
    stream: Any = None
    """Stream of a GPU; None for other devices."""

    @classmethod
    def make(cls, device: device, network: TorchNetwork) -> _Slot:
        """Return a slot with a separate stream, once the weights are on the device."""
        if device.type != "cuda":
            return cls(device, network, Lock())
        cuda = import_torch().cuda
        cuda.synchronize(device)
        return cls(device, network, Lock(), cuda.Stream(device))

    def on_stream(self) -> AbstractContextManager[None]:
        """Return a block whose operations run on the stream."""
        return nullcontext() if self.stream is None else import_torch().cuda.stream(self.stream)

    def send(self, numbers: numpy.ndarray) -> Tensor:
        """Copy an array to the device; a GPU copies it beside other runs."""
        tensor = import_torch().from_numpy(numbers)
        if self.stream is None:
            return tensor.to(self.device)
        return tensor.pin_memory().to(self.device, non_blocking=True)


class BatchStates(NamedTuple):
    """States of the tokens of a batch, which are still on the device."""

    states: Tensor
    """One row for each token, also for those that fill the batch."""
    starts: Sequence[int]
    lengths: Sequence[int]
    """First token and number of tokens of each text."""
    texts: Sequence[int]
    """Numbers of the texts in the run."""


ReadStates: TypeAlias = "Callable[[BatchStates], Sequence[Any]]"
"""Returns the needed part of the states of each text of a batch."""


def copy_states(batch: BatchStates) -> list[numpy.ndarray]:
    """Return the states of the tokens of each text."""
    rows = batch.states.float().cpu().numpy()
    bounds = zip(batch.starts, batch.lengths, strict=True)
    return [rows[start : start + length] for start, length in bounds]


class Rows(NamedTuple):
    """Vectors of texts as rows, with the needed part of the states of each text, if any."""

    vectors: numpy.ndarray
    states: list[Any]


class Batches(NamedTuple):
    """Texts of each batch, by their numbers, and the run of each batch."""

    groups: list[list[int]]
    runs: list[Future[Rows]]

    def join(self, results: Sequence[Rows]) -> Rows:
        """Return the results of all batches in the order of the texts."""
        import numpy

        order = numpy.argsort([number for group in self.groups for number in group])
        states = [each for rows in results for each in rows.states]
        vectors = numpy.concatenate([rows.vectors for rows in results])
        return Rows(vectors[order], [states[place] for place in order])


class RunOptions(Struct, frozen=True):
    """Precision of a network, size of its batches, and the shape of their rows."""

    precision: str = "float16"
    batch_tokens: int = BATCH_TOKENS
    padding: int = 0
    """Id of the tokens that rows are padded with."""
    max_length: int = 512
    """Maximum number of tokens of a row, including special tokens."""
    pairs: bool = False
    """Whether a row has two texts, whose tokens are of different kinds."""


# Shared by threads: networks are loaded under a lock and then only run, each by one thread at a
# time; the size of batches only falls.
class TorchRunner:
    """Runs a network on one or several devices, loaded with the first texts."""

    def __init__(
        self,
        make: Callable[[device, dtype], TorchNetwork],
        devices: str,
        options: Callable[[], RunOptions],
    ) -> None:
        """Prepare runs; nothing is loaded, and `options` are read with the first texts."""
        self._make = make
        self._wanted = devices
        self._read_options = options
        self._batch_tokens = BATCH_TOKENS
        self._loading = Lock()
        self._free: SimpleQueue[_Slot] = SimpleQueue()
        self._pool: ThreadPoolExecutor | None = None

    @cached_property
    def devices(self) -> list[device]:
        """Return the devices; see `find_devices`."""
        return find_devices(self._wanted)

    @cached_property
    def _options(self) -> RunOptions:
        return self._read_options()

    @property
    def on_cpu(self) -> bool:
        return self.devices[0].type == "cpu"

    def describe(self) -> str:
        """Return the devices, the precision and the driver, as for people."""
        torch, names = import_torch(), list[str]()
        for each in self.devices:
            model = torch.cuda.get_device_name(each) if each.type == "cuda" else ""
            names.append(f"{each} {model}".strip())
        says = f"{', '.join(names)}, {'float32' if self.on_cpu else self._options.precision}"
        if self.devices[0].type == "cuda" and _DRIVER_FILE.exists():
            found = re.search(r"(?<!\d)\d+\.[.\d]+", _DRIVER_FILE.read_text())
            says += f", driver {found[0]}" if found else ""
        return says

    def run(self, texts: Sequence[Encoding], read: ReadStates | None = None) -> Rows:
        """Return the vectors of texts in order, and the results of `read` for their states."""
        batches = self.submit(texts, read)
        return batches.join(gather(dict(enumerate(batches.runs))))

    def submit(self, texts: Sequence[Encoding], read: ReadStates | None = None) -> Batches:
        """Start the runs of texts, after loading the network."""
        pool = self._load()
        groups = list(self._groups([len(text) for text in texts]))
        runs = [pool.submit(self._run, group, [texts[i] for i in group], read) for group in groups]
        return Batches(groups, runs)

    def _load(self) -> ThreadPoolExecutor:
        from concurrent.futures import ThreadPoolExecutor

        with self._loading:
            if self._pool is None:
                precision = getattr(import_torch(), self._options.precision)
                self._batch_tokens = self._options.batch_tokens
                networks = [(each, self._make(each, precision)) for each in self.devices]
                slots = [_Slot.make(device, network) for device, network in networks]
                slots *= 1 if self.on_cpu else _RUNS_PER_DEVICE
                for slot in slots:
                    self._free.put(slot)
                self._pool = ThreadPoolExecutor(len(slots), "truespan-torch")
            return self._pool

    def _groups(self, lengths: Sequence[int]) -> Iterator[list[int]]:
        """Yield the texts of each batch: one on a CPU, otherwise texts of about the same length."""
        if self.on_cpu:
            yield from ([i] for i in range(len(lengths)))
            return
        widths = [self._width(length) for length in lengths]
        group: list[int] = []
        used = 0
        for i in sorted(range(len(lengths)), key=widths.__getitem__, reverse=True):
            alike = not group or widths[group[0]] == widths[i]
            if group and not (alike and used + widths[i] <= self._batch_tokens):
                yield group
                group, used = [], 0
            group.append(i)
            used += widths[i]
        if group:
            yield group

    def _run(
        self, numbers: Sequence[int], texts: Sequence[Encoding], read: ReadStates | None
    ) -> Rows:
        """Run a batch; if the device runs out of memory, run its halves one after the other."""
        import numpy

        with self._slot() as slot:
            try:
                return self._run_once(slot, numbers, texts, read)
            except TruespanError:
                raise
            except Exception as failure:  # PyTorch's own errors have no common root.
                if "out of memory" not in str(failure) or len(texts) == 1:
                    raise ModelUnavailable(
                        f"The network failed on {slot.device} at {len(texts)} texts: "
                        f"{str(failure).splitlines()[0][:200]}",
                        advice="Free memory of the device, choose another device, or update "
                        "PyTorch and the driver.",
                    ) from failure
        self._halve(sum(map(len, texts)), slot.device)
        middle = len(texts) // 2
        first = self._run(numbers[:middle], texts[:middle], read)
        second = self._run(numbers[middle:], texts[middle:], read)
        vectors = numpy.concatenate([first.vectors, second.vectors])
        return Rows(vectors, first.states + second.states)

    @contextmanager
    def _slot(self) -> Iterator[_Slot]:
        slot = self._free.get()
        try:
            yield slot
        finally:
            self._free.put(slot)

    def _halve(self, tokens: int, device: device) -> None:
        import_torch().cuda.empty_cache()
        with self._loading:
            lower = max(tokens // 2, 1) < self._batch_tokens
            self._batch_tokens = min(self._batch_tokens, max(tokens // 2, 1))
        if lower:
            # Most searches have no torch model and need no log.
            import logging

            log = logging.getLogger("truespan.providers")
            log.warning(
                "The device %s ran out of memory; batches have at most %s tokens from now on.",
                device,
                self._batch_tokens,
            )

    def _run_once(
        self,
        slot: _Slot,
        numbers: Sequence[int],
        texts: Sequence[Encoding],
        read: ReadStates | None,
    ) -> Rows:
        lengths = [len(text) for text in texts]
        with import_torch().inference_mode(), slot.on_stream():
            width = lengths[0] if self.on_cpu else self._width(lengths[0])
            parts = _pad(texts, width, self._options)
            with slot.launching:
                vectors, found = slot.network.run(*map(slot.send, parts))
            own: Sequence[Any] = [None] * len(texts)
            if read is not None:
                states = found.reshape(-1, found.shape[-1])
                starts = range(0, len(texts) * width, width)
                own = read(BatchStates(states, starts, lengths, numbers))
            rows = vectors.float().cpu().numpy()
        return Rows(rows, [*own])

    def _width(self, length: int) -> int:
        """Return the length to which a text is padded; it depends on the text alone."""
        return min(-(-length // _WIDTH_STEP) * _WIDTH_STEP, max(self._options.max_length, length))


def _pad(texts: Sequence[Encoding], width: int, options: RunOptions) -> tuple[numpy.ndarray, ...]:
    import numpy

    ids, mask, kinds = (numpy.zeros((len(texts), width), numpy.int64) for _ in range(3))
    ids += options.padding
    for row, text in enumerate(texts):
        size = len(text)
        ids[row, :size], mask[row, :size] = text.ids, 1
        if options.pairs:
            kinds[row, :size] = text.type_ids
    return ids, mask, kinds
