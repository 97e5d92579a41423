"""The base of embedders whose network runs with PyTorch.

States of words are computed for many texts at once, on the device that runs the network. Their rows
are those of `word_states`, but for the rounding of the device: the states of tokens stay where they
are, and only the packed rows are copied.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from threading import Lock
from typing import TYPE_CHECKING

from msgspec import Struct

from truespan.errors import ProviderBadReply
from truespan.extensions.models.torch_devices import (
    BatchStates,
    Rows,
    RunOptions,
    TorchNetwork,
    TorchRunner,
    copy_states,
    import_torch,
)
from truespan.providers.model_files import ModelFiles
from truespan.providers.tokenized import Input, Output, Result, TokenizedEmbedder
from truespan.providers.word_states import Projection, WordTokens, content_tokens
from truespan.types.profile import EmbeddingLimits
from truespan.types.vectors import ROW_MAX, ROW_SCALE, ROW_ZERO, Vector, WordStates, are_sound

if TYPE_CHECKING:
    import numpy
    from tokenizers import Encoding
    from torch import Tensor, device, dtype  # pyright: ignore[reportMissingImports]

_ON_GPU = EmbeddingLimits(items=2048, tokens=1 << 20, in_flight=4, joint=False, varies=True)
"""Limits of a GPU: its batches have texts of the same length, and more texts fill them better."""
_ON_CPU = EmbeddingLimits(items=32, tokens=100_000, in_flight=1, joint=False, varies=True)


class TorchEmbedder(TokenizedEmbedder):
    """An embedder with a network of PyTorch on one or several devices."""

    def __init__(self, files: ModelFiles, devices: str) -> None:
        super().__init__(files)
        self.runner = TorchRunner(self._make_network, devices, self._run_options)
        self._tokenizing = Lock()

    @property
    def limits(self) -> EmbeddingLimits:
        return _ON_CPU if self.runner.on_cpu else _ON_GPU

    @property
    def device(self) -> str:
        """Return the devices, the precision and the driver."""
        return self.runner.describe()

    def check_files(self) -> str:
        return f"{super().check_files()}, on {self.device}"

    def gives_word_states(self) -> bool:
        return True

    @abstractmethod
    def _run_options(self) -> RunOptions:
        """Return the options of runs; called with the first texts."""

    @abstractmethod
    def _make_network(self, device: device, precision: dtype) -> TorchNetwork:
        """Return a copy of the network on a device; its vectors have the length 1."""

    def _tokenize(self, texts: Sequence[str], *, offsets: bool) -> list[Encoding]:
        if len(texts) == 1:
            return super()._tokenize(texts, offsets=offsets)
        # The tokenizer uses all cores. Two calls at once would first share them and then the GPU,
        # each of which would be idle half of the time.
        with self._tokenizing:
            return super()._tokenize(texts, offsets=offsets)

    def _embed(
        self,
        inputs: Sequence[Input],
        read: Callable[[Input, Output], Result],
        *,
        states: bool = False,
    ) -> list[Result]:
        if not inputs:
            return []
        encodings = [text.encoding for text in inputs]
        rows = self.runner.run(encodings, copy_states if states else None)
        outputs = map(Output, self._vectors(rows), rows.states)
        return [read(text, output) for text, output in zip(inputs, outputs, strict=True)]

    def embed_documents_with_states(self, texts: Sequence[str]) -> list[tuple[Vector, WordStates]]:
        if self.runner.on_cpu or not texts:
            return super().embed_documents_with_states(texts)
        model = self._model
        inputs = self._encode(model.prefixes.document, texts, limit=model.limit, offsets=True)
        words = [content_tokens(each.text, each.encoding.offsets, each.first) for each in inputs]
        pooling = WordPooling(words, self._projection)
        rows = self.runner.run([each.encoding for each in inputs], pooling.read)
        return [*zip(self._vectors(rows), rows.states, strict=True)]

    def _vectors(self, rows: Rows) -> list[Vector]:
        vectors = [Vector(row.tobytes()) for row in rows.vectors.astype("<f4")]
        if not all(are_sound(vectors, self.profile.dimensions)):
            raise ProviderBadReply(
                f"The model {self.profile.model} gave a vector that is zero, not a number or not "
                f"of {self.profile.dimensions} dimensions.",
                advice="Set the precision to 'bfloat16' or 'float32'.",
            )
        return vectors

    def _embed_one(self, text: Input, *, states: bool = False) -> Output:
        [output] = self._embed([text], lambda _, found: found, states=states)
        return output


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
    rows = (sums / sums.norm(dim=1, keepdim=True) - send(projection.mean)) @ send(projection.matrix)
    rows /= rows.norm(dim=1, keepdim=True)
    numbers = (rows * ROW_SCALE).round().clamp(-ROW_MAX, ROW_MAX).to(torch.int8) + ROW_ZERO
    packed = (numbers[:, ::2] | numbers[:, 1::2] << 4).to(torch.uint8).cpu().numpy()
    usable = rows.sum(dim=1).isfinite().cpu().numpy()
    ends = numpy.cumsum(counts).tolist()
    return [
        WordStates(packed[end - count : end][usable[end - count : end]].tobytes())
        for end, count in zip(ends, counts, strict=True)
    ]
