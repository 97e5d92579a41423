"""CUDA graphs of a packed network: one call launches all kernels of a batch.

Launching them one by one takes about as long as running them, because the launching thread waits
for the interpreter after each one. A graph has fixed shapes: there is one for each number of
tokens, and the bounds are filled with empty texts.
"""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    import numpy
    from torch import Tensor, device  # pyright: ignore[reportMissingImports]

MAX_BOUNDS = 1025
"""Maximum number of bounds of a batch, one more than texts."""
# PyTorch captures one graph at a time.
_CAPTURING = Lock()


class _Graph(NamedTuple):
    """A captured graph, and the memory of the device that it reads and writes."""

    graph: Any
    ids: Tensor
    bounds: Tensor
    vectors: Tensor


# The caller lets one thread at a time run a batch.
class PackedGraphs:
    """Graphs of a network on a GPU, captured when a number of tokens first occurs."""

    def __init__(
        self, network: Callable[[Tensor, Tensor], tuple[Tensor, Tensor]], device: device
    ) -> None:
        self._network = network
        self._device = device
        self._graphs: dict[int, _Graph] = {}
        self._capturing: Any = None
        """Stream of captures. When another thread frees memory that was copied on a stream, PyTorch
        records an event there, which must not become a part of a graph."""

    def prepare(self, ids: numpy.ndarray, bounds: numpy.ndarray) -> tuple[Tensor, Tensor]:
        """Return a batch in memory from which the GPU copies while it computes."""
        import numpy
        import torch  # pyright: ignore[reportMissingImports]

        filled = numpy.full(MAX_BOUNDS, len(ids), numpy.int32)
        filled[: len(bounds)] = bounds
        return torch.from_numpy(ids).pin_memory(), torch.from_numpy(filled).pin_memory()

    def run(self, batch: tuple[Tensor, Tensor]) -> Tensor:
        """Launch a batch on the current stream, which also copies the vectors to the CPU."""
        import torch  # pyright: ignore[reportMissingImports]

        ids, bounds = batch
        graph = self._graphs.get(len(ids))
        if graph is None:
            graph = self._capture(ids.to(self._device), bounds.to(self._device))
            self._graphs[len(ids)] = graph
        graph.ids.copy_(ids, non_blocking=True)
        graph.bounds.copy_(bounds, non_blocking=True)
        graph.graph.replay()
        # The next batch overwrites the vectors on the device.
        found = torch.empty_like(graph.vectors, device="cpu", pin_memory=True)
        return found.copy_(graph.vectors, non_blocking=True)

    def _capture(self, ids: Tensor, bounds: Tensor) -> _Graph:
        import torch  # pyright: ignore[reportMissingImports]

        if self._capturing is None:
            self._capturing = torch.cuda.Stream(self._device)
        torch.cuda.current_stream().synchronize()
        graph, stream = torch.cuda.CUDAGraph(), self._capturing
        pool = next(iter(self._graphs.values())).graph.pool() if self._graphs else None
        with torch.cuda.stream(stream), _CAPTURING:
            # The first run chooses kernels and allocates their workspace. Memory of a graph is
            # taken anew, so that of the first run is returned.
            self._network(ids, bounds)
            stream.synchronize()
            torch.cuda.empty_cache()
            graph.capture_begin(pool, capture_error_mode="thread_local")
            try:
                vectors, _ = self._network(ids, bounds)
            finally:
                graph.capture_end()
        return _Graph(graph, ids, bounds, vectors)
