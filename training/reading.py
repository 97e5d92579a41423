"""Reading a question with passages: the best span, its margin over "no answer", the relevance.

A network is a function from texts to scores, so that the one in training and the exported one are
measured alike. A passage that is too long is read in windows that overlap by half.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from training.packing import MAX_QUESTION_TOKENS, MAX_TOKENS, SPECIAL_TOKENS

if TYPE_CHECKING:
    from onnxruntime import InferenceSession

    from training.model import Reader

CLASSIFIER, SEPARATOR = 101, 102
MAX_SPAN_TOKENS = 30
_BATCH_TOKENS = 131_072


class Text(NamedTuple):
    """Pieces of a question and of a window of a passage, with their special pieces."""

    pieces: list[int]
    shown_from: int
    """Place of the first piece of the passage."""


class Scores(NamedTuple):
    """Scores of one text: of each piece as start and as end, and of the passage."""

    start: NDArray[np.float32]
    end: NDArray[np.float32]
    relevance: float


class Finding(NamedTuple):
    """The best span of a passage by its first and last piece, and how sure it is."""

    margin: float
    first: int
    last: int
    relevance: float


class Network(Protocol):
    def __call__(self, texts: Sequence[Text], /) -> list[Scores]: ...


def read_all(
    network: Network, pairs: Sequence[tuple[Sequence[int], Sequence[int]]]
) -> list[Finding]:
    """Read pairs of pieces of a question and of a passage."""
    windows = [(number, *window) for number, pair in enumerate(pairs) for window in _windows(*pair)]
    found: dict[int, list[Finding]] = defaultdict(list)
    scores = network([text for _, _, text in windows])
    for (number, skipped, text), scored in zip(windows, scores, strict=True):
        margin, first, last = best_span(scored, text)
        finding = Finding(margin, skipped + first, skipped + last, scored.relevance)
        found[number].append(finding)
    return [max(found[number]) for number in range(len(pairs))]


def _windows(question: Sequence[int], passage: Sequence[int]) -> Iterator[tuple[int, Text]]:
    asked = [CLASSIFIER, *question[:MAX_QUESTION_TOKENS], SEPARATOR]
    room = MAX_TOKENS - SPECIAL_TOKENS - len(asked) + 2
    last = max(0, len(passage) - room)
    for skipped in [*range(0, last, room // 2), last]:
        shown = passage[skipped : skipped + room]
        yield skipped, Text([*asked, *shown, SEPARATOR], len(asked))


def best_span(scores: Scores, text: Text) -> tuple[float, int, int]:
    """Return the margin of the best span over "no answer", and its pieces within the window."""
    shown = slice(text.shown_from, len(text.pieces) - 1)
    start, end = scores.start[shown], scores.end[shown]
    later = np.pad(end, (0, MAX_SPAN_TOKENS - 1), constant_values=-np.inf)
    reachable = np.lib.stride_tricks.sliding_window_view(later, MAX_SPAN_TOKENS)
    sums = start + reachable.max(1)
    first = int(sums.argmax())
    last = first + int(reachable[first].argmax())
    return float(sums[first] - scores.start[0] - scores.end[0]), first, last


def torch_network(reader: Reader) -> Network:
    """Return the network in training; texts of the same length are read together."""
    import torch  # pyright: ignore[reportMissingImports]

    device = next(reader.parameters()).device

    def score(texts: Sequence[Text]) -> list[Scores]:
        found: dict[int, Scores] = {}
        reader.eval()
        for numbers in _same_length(texts):
            pieces = torch.tensor([texts[n].pieces for n in numbers], device=device)
            places = torch.arange(pieces.shape[1], device=device)
            from_ = torch.tensor([texts[n].shown_from for n in numbers], device=device)
            with torch.no_grad(), torch.autocast(device.type, torch.bfloat16):
                reading = reader(pieces, (places >= from_[:, None]).long())
            parts = [part.float().cpu().numpy() for part in reading]
            for row, number in enumerate(numbers):
                found[number] = Scores(parts[0][row], parts[1][row], float(parts[2][row]))
        return [found[number] for number in range(len(texts))]

    return score


def _same_length(texts: Sequence[Text]) -> Iterator[list[int]]:
    groups: dict[int, list[int]] = defaultdict(list)
    for number, text in enumerate(texts):
        groups[len(text.pieces)].append(number)
    for length, numbers in sorted(groups.items()):
        size = max(1, _BATCH_TOKENS // length)
        yield from (numbers[i : i + size] for i in range(0, len(numbers), size))


def onnx_network(session: InferenceSession, report: Callable[[str], None] = print) -> Network:
    """Return the exported network; it reads one text at a time, as the engine does."""

    def score(texts: Sequence[Text]) -> list[Scores]:
        found = []
        for number, text in enumerate(texts, 1):
            size = len(text.pieces)
            kinds = [int(place >= text.shown_from) for place in range(size)]
            feed = {
                "input_ids": np.array([text.pieces], np.int64),
                "attention_mask": np.ones((1, size), np.int64),
                "token_type_ids": np.array([kinds], np.int64),
            }
            logits, spans = session.run(["logits", "spans"], feed)
            start, end = np.asarray(spans)[0].T
            found.append(Scores(start, end, float(np.asarray(logits).ravel()[0])))
            if number % 1000 == 0:
                report(f"{number} of {len(texts)} texts read")
        return found

    return score
