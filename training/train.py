"""Training on one device, for a given time: batches, loss and schedule.

All pieces lie on the device, and a batch has texts of one length only. So a step waits for nothing,
no text is filled up, and attention needs no mask.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import torch  # pyright: ignore[reportMissingImports]
from numpy.typing import NDArray
from torch import Tensor  # pyright: ignore[reportMissingImports]
from torch.nn import functional  # pyright: ignore[reportMissingImports]

from training.model import Reader, Reading, Shape
from training.packing import Packed
from training.weights import Weights

_CLASSIFIER, _SEPARATOR = 101, 102
_STEPS_BETWEEN_LOOKS = 16
"""Steps until the host waits for the device, so that it knows the time."""
_STEPS_BETWEEN_LINES = 200


@dataclass(frozen=True)
class Schedule:
    """Time and rates of one training."""

    seconds: float
    seed: int = 1
    rate: float = 1e-4
    tokens: int = 32_768
    """Number of tokens of a batch."""
    warmup: float = 0.05
    decay: float = 0.01
    relevance: float = 0.5
    """Weight of the relevance in the loss, beside the span."""
    rounded: float = 0.15
    """Share of the time, at the end, in which products are rounded as in the exported network."""
    compiled: bool = False


class Batches:
    """The rows of a training set on a device, as batches of one length."""

    def __init__(self, packed: Packed, device: torch.device) -> None:
        def put(numbers: NDArray[np.generic]) -> Tensor:
            return torch.from_numpy(numbers.astype(np.int32)).to(device)

        self.lengths = packed.lengths()
        self._device = device
        self._questions = put(packed.question_pieces), put(packed.question_ends)
        self._passages = put(packed.passage_pieces), put(packed.passage_ends)
        self._columns = put(
            np.stack([packed.question, packed.passage, packed.window, packed.start, packed.end])
        )

    def order(self, tokens: int, generator: np.random.Generator) -> list[NDArray[np.intp]]:
        """Return the rows of each batch of one pass, without those that fill no batch."""
        found = []
        for length in np.unique(self.lengths):
            rows = generator.permutation(np.flatnonzero(self.lengths == length))
            size = min(len(rows), max(8, tokens // int(length) // 8 * 8))
            found += [rows[i : i + size] for i in range(0, len(rows) - size + 1, size)]
        return [found[index] for index in generator.permutation(len(found))]

    def collect(self, rows: NDArray[np.intp]) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Return pieces, kinds of pieces, and first and last piece of the answer; 0 for none."""
        length = int(self.lengths[rows[0]])
        chosen = torch.from_numpy(rows).to(self._device, non_blocking=True)
        question, passage, window, start, end = self._columns[:, chosen].unsqueeze(-1)
        pieces, first, size = self._find(self._questions, question)
        places = torch.arange(length, device=self._device, dtype=torch.int32).expand(len(rows), -1)
        shown_from = size + 2
        asked = pieces[(first + places - 1).clamp(0, len(pieces) - 1).long()]
        pieces, first, _ = self._find(self._passages, passage)
        shown = pieces[(first + window + places - shown_from).clamp(0, len(pieces) - 1).long()]
        batch = torch.where(places < shown_from, asked, shown)
        batch = torch.where(places == 0, _CLASSIFIER, batch)
        ends = (places == shown_from - 1) | (places == length - 1)
        batch = torch.where(ends, _SEPARATOR, batch)
        told = start >= 0
        labels = [torch.where(told, place + shown_from, 0)[:, 0].long() for place in (start, end)]
        return batch.long(), (places >= shown_from).long(), labels[0], labels[1]

    @staticmethod
    def _find(texts: tuple[Tensor, Tensor], number: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return all pieces, and the first piece and the size of the chosen texts."""
        pieces, ends = texts
        end = ends[number.long()]
        first = torch.where(number > 0, ends[(number.long() - 1).clamp_min(0)], 0)
        return pieces, first, end - first


def measure_loss(reading: Reading, start: Tensor, end: Tensor, relevance: float) -> Tensor:
    """Return the loss of a batch; a passage without the answer has start and end at 0."""
    span = functional.cross_entropy(reading.start, start)
    span = (span + functional.cross_entropy(reading.end, end)) / 2
    told = (start > 0).float()
    return span + relevance * functional.binary_cross_entropy_with_logits(reading.relevance, told)


def train(
    packed: Packed,
    weights: Weights,
    schedule: Schedule,
    report: Callable[[str], None] = print,
    shape: Shape | None = None,
) -> Weights:
    """Train for the given time and return the weights."""
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    torch.manual_seed(schedule.seed)
    torch.set_float32_matmul_precision("high")
    reader = Reader(shape)
    reader.load(weights)
    reader.to(device).train()
    run = torch.compile(reader, dynamic=True) if schedule.compiled else reader
    batches = Batches(packed, device)
    optimizer = _optimizer(reader, schedule, fused=device.type == "cuda")
    clock = _Clock(schedule, device)
    step = 0
    for step, rows in enumerate(_endless(batches, schedule), 1):
        if (done := clock.progress(step)) >= 1:
            break
        if done >= 1 - schedule.rounded and not reader.classifier.rounds:
            reader.round_products()
            report(f"{clock.seconds:4.0f} s: step {step}: rounded from here on")
        for group in optimizer.param_groups:
            group["lr"] = schedule.rate * _rate(done, schedule.warmup)
        pieces, kinds, start, end = batches.collect(rows)
        with torch.autocast(device.type, torch.bfloat16):
            reading = run(pieces, kinds)
        loss = measure_loss(reading, start, end, schedule.relevance)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(reader.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        if step % _STEPS_BETWEEN_LINES == 0:
            report(f"{clock.seconds:4.0f} s: step {step}, {done:.0%}: loss {loss.item():.3f}")
    passes = step * schedule.tokens / float(batches.lengths.sum())
    report(f"{clock.seconds:4.0f} s: {step} steps, about {passes:.2f} passes")
    return reader.to_weights()


def _rate(done: float, warmup: float) -> float:
    """Return the share of the rate: a rise to 1, then a straight fall to 0."""
    return done / warmup if done < warmup else (1 - done) / (1 - warmup)


def _endless(batches: Batches, schedule: Schedule) -> Iterator[NDArray[np.intp]]:
    generator = np.random.default_rng(schedule.seed)
    while True:
        yield from batches.order(schedule.tokens, generator)


class _Clock:
    """The time since the first step, as a share of the given time."""

    def __init__(self, schedule: Schedule, device: torch.device) -> None:
        self._schedule, self._device = schedule, device
        self._begin = time.monotonic()
        self._progress = 0.0

    @property
    def seconds(self) -> float:
        return time.monotonic() - self._begin

    def progress(self, step: int) -> float:
        if self._device.type == "cpu":
            self._progress = self.seconds / self._schedule.seconds
        elif step % _STEPS_BETWEEN_LOOKS == 1:
            torch.cuda.synchronize()
            self._progress = self.seconds / self._schedule.seconds
        return self._progress


def _optimizer(reader: Reader, schedule: Schedule, fused: bool) -> torch.optim.Optimizer:
    """Return AdamW, which shrinks matrices but no biases or scales."""
    parameters = list(reader.parameters())
    groups = [
        {"params": [p for p in parameters if p.ndim > 1], "weight_decay": schedule.decay},
        {"params": [p for p in parameters if p.ndim <= 1], "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(groups, lr=schedule.rate, fused=fused)
