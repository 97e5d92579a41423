"""States of words on the device that runs the network, for many texts at once.

The rows are those of `word_states`, but for the rounding of the device: the states of tokens stay
where they are, and only the packed rows are copied.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from truespan.providers.torch_devices import PACK_STEP, BatchStates, import_torch
from truespan.providers.word_states import Projection, WordTokens
from truespan.types.vectors import ROW_MAX, ROW_SCALE, ROW_ZERO, WordStates

if TYPE_CHECKING:
    import numpy
    from torch import Tensor  # pyright: ignore[reportMissingImports]


class WordPooling(Struct, frozen=True):
    """Tokens of the words of all texts of a run, and the projection of their states."""

    words: Sequence[WordTokens]
    projection: Projection

    def read(self, batch: BatchStates) -> list[WordStates]:
        """Return the rows of the words of each text of a batch."""
        return _pool_words(batch, [self.words[text] for text in batch.texts], self.projection)


def _pool_words(
    batch: BatchStates, words: Sequence[WordTokens], projection: Projection
) -> list[WordStates]:
    import numpy

    torch, states = import_torch(), batch.states

    def send(numbers: numpy.ndarray) -> Tensor:
        return torch.from_numpy(numbers).to(states.device)

    counts = [len(text.sizes) for text in words]
    total = sum(counts)
    if not total:
        return [WordStates(b"")] * len(words)
    shifted = [text.places + start for text, start in zip(words, batch.starts, strict=True)]
    chosen = states[send(numpy.concatenate(shifted))].float()
    chosen *= send(numpy.concatenate([text.weights for text in words]))[:, None]
    sizes = send(numpy.concatenate([text.sizes for text in words]))
    sums = torch.segment_reduce(chosen, "sum", lengths=sizes, axis=0, unsafe=True)
    # Filled up as packed batches are: a smaller product may be summed in another order.
    rows = sums.new_zeros((-(-total // PACK_STEP) * PACK_STEP, sums.shape[1]))
    rows[:total] = sums / sums.norm(dim=1, keepdim=True) - send(projection.mean)
    rows = (rows @ send(projection.matrix))[:total]
    rows /= rows.norm(dim=1, keepdim=True)
    numbers = (rows * ROW_SCALE).round().clamp(-ROW_MAX, ROW_MAX).to(torch.int8) + ROW_ZERO
    packed = (numbers[:, ::2] | numbers[:, 1::2] << 4).to(torch.uint8).cpu().numpy()
    usable = rows.sum(dim=1).isfinite().cpu().numpy()
    ends = numpy.cumsum(counts).tolist()
    return [
        WordStates(packed[end - count : end][usable[end - count : end]].tobytes())
        for end, count in zip(ends, counts, strict=True)
    ]
