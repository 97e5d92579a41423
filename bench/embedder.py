"""How fast the local embedder is, and how much memory it takes, against the usual way.

The usual way feeds the same model with padded batches of 32 in the order of arrival. Each side runs
in a separate process, so that its peak memory is its own. Run it with `python -m bench.embedder`.
"""

from __future__ import annotations

import json
import random
import resource
import sys
import time
from collections.abc import Callable, Sequence

from bench.measure import apart
from bench.report import Figure, Options, at_least, at_most, run, say
from truespan.providers.local import NETWORK_FILE, LocalEmbedder, LocalModel
from truespan.providers.onnx import disable_telemetry

TEXTS = 256
SHORTEST, LONGEST = 5, 450
BATCH = 32
SECONDS = 24
"""How long one side may take; what it has done by then is what counts."""
SPEED_TARGET = 2.0
MEMORY_TARGET = 400

VOCABULARY = """
the of and to in a is that for it as was with be by on not he his but at are this have from or had
an they which one you were all her she there would their we him been has when who will no more if
out so up said what its about than into them can only other time new some could these two may first
then do any like my now over such our man me even most made after also well many before must years
back through much where your way down should because long each just state those people too mister
"""
"""Each of them is one token, so a text has as many tokens as words."""

Embed = Callable[[Sequence[str]], object]


def make_texts() -> list[str]:
    """Return texts of mixed lengths, the same ones in every run."""
    source = random.Random(7)
    words = VOCABULARY.split()
    lengths = [source.randint(SHORTEST, LONGEST) for _ in range(TEXTS)]
    return [" ".join(source.choices(words, k=length)) for length in lengths]


def ours() -> Embed:
    """Return the local embedder's way: a run for each text, the cores side by side."""
    return LocalEmbedder(LocalModel()).embed_documents


def usual() -> Embed:
    """Return the usual way: one run for each batch, padded to its longest text, on all cores."""
    disable_telemetry()
    import numpy
    import onnxruntime

    model = LocalModel()
    tokenizer = model.tokenizer()
    session = onnxruntime.InferenceSession(
        model.read(NETWORK_FILE), providers=["CPUExecutionProvider"]
    )

    def embed(texts: Sequence[str]) -> object:
        inputs = [encoding.ids for encoding in tokenizer.encode_batch_fast(list(texts))]
        ids = numpy.zeros((len(inputs), max(map(len, inputs))), dtype=numpy.int64)
        mask = numpy.zeros_like(ids)
        for row, tokens in enumerate(inputs):
            ids[row, : len(tokens)] = tokens
            mask[row, : len(tokens)] = 1
        feed = {"input_ids": ids, "attention_mask": mask, "token_type_ids": ids * 0}
        hidden = numpy.asarray(session.run(["last_hidden_state"], feed)[0])[:, 0]
        return hidden / numpy.linalg.norm(hidden, axis=1, keepdims=True)

    return embed


SIDES = {"ours": ours, "usual": usual}
LABELS = {"ours": "local embedder", "usual": f"padded batches of {BATCH}"}


def run_side(name: str) -> dict[str, float]:
    """Embed all texts in batches, or as many as time allows, and return what it cost."""
    began = time.perf_counter()
    embed = SIDES[name]()
    embed(["warm up"])
    loaded, cpu = time.perf_counter(), time.process_time()
    texts, done = make_texts(), 0
    while done < len(texts) and time.perf_counter() - loaded < SECONDS:
        batch = texts[done : done + BATCH]
        embed(batch)
        done += len(batch)
    seconds = time.perf_counter() - loaded
    return {
        "speed": done / seconds,
        "cpu": (time.process_time() - cpu) / done * 1000,
        "memory": peak_megabytes(),
        "load": loaded - began,
    }


def peak_megabytes() -> float:
    """Return the most memory this process has held so far."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (1 << 20 if sys.platform == "darwin" else 1 << 10)


def measure(options: Options) -> list[Figure]:  # noqa: ARG001
    """Print what both sides cost and return speed and memory with their targets."""
    title = f"{TEXTS} texts of {SHORTEST} to {LONGEST} tokens"
    say(f"{title:<32} texts/s  CPU ms/text  peak MB  load s")
    results = {name: apart("bench.embedder", "--side", name) for name in SIDES}
    for name, cost in results.items():
        figures = f"{cost['speed']:8.1f} {cost['cpu']:12.0f} {cost['memory']:8.0f}"
        say(f"{LABELS[name]:<32}{figures} {cost['load']:7.2f}")
    ours, theirs = results["ours"], results["usual"]
    speeds = ours["speed"], theirs["speed"]
    return [
        Figure(
            "local embedder, mixed lengths",
            speeds[0],
            "texts/s",
            LABELS["usual"],
            speeds[1],
            speeds[0] / speeds[1],
            at_least(SPEED_TARGET),
        ),
        Figure("local embedder, peak memory", ours["memory"], "MB", target=at_most(MEMORY_TARGET)),
    ]


def main() -> None:
    """Compare both sides, or run one of them and print its cost as JSON."""
    match sys.argv[1:]:
        case ["--side", name]:
            print(json.dumps(run_side(name)))
        case _:
            run("bench.embedder", __doc__, measure)


if __name__ == "__main__":
    main()
