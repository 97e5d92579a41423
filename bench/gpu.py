"""Embedding and reranking on a GPU: rates, spread of vectors, and agreement of rankings.

Run it with `python -m bench.gpu`, in an environment with the extra `torch` on a machine with a GPU.
Texts are cut from novels to about 247 tokens. The models are the bundled weights and random ones,
so nothing is downloaded. With `--small`, it runs a few texts on the CPU, to try the program itself.
"""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread
from typing import Any

import numpy

from bench.material import books, shared_data
from bench.scifact import read_corpus, read_judgements, read_queries
from truespan.core.clock import SystemClock
from truespan.extensions.models.onnx_format import read_weights
from truespan.extensions.models.sentence_transformers import (
    SentenceEmbedder,
    TorchFolder,
    TorchReranker,
)
from truespan.extensions.models.torch_local import LocalTorchEmbedder, dequantise
from truespan.extensions.quality.evaluate import ndcg
from truespan.protocols import Embedder
from truespan.providers.local import NETWORK_FILE, LocalEmbedder, LocalModel
from truespan.providers.model_files import ModelDescription

CHARACTERS = 1000
"""Length of a text, about 247 tokens."""
CALL, IN_FLIGHT = 512, 4
"""Texts of one call, unless the embedder has its own number, and calls in flight."""
TARGET, BUSY_TARGET = 10_000, 80


def main(arguments: Sequence[str]) -> int:
    import torch  # pyright: ignore[reportMissingImports]

    small = "--small" in arguments
    if not torch.cuda.is_available() and not small:
        print("This benchmark needs a GPU that PyTorch can use.")
        return 2
    device, count = ("cpu", 24) if small else ("cuda", 40_000)
    texts = cut_texts(count)
    model = LocalModel()
    local = LocalTorchEmbedder(model, device)
    print(f"{local.device}; PyTorch {torch.__version__}; {len(texts)} texts\n")
    with tempfile.TemporaryDirectory() as folder:
        saved = save_model(Path(folder), model)
        measure_rates(texts, local, saved, device)
        measure_reranker(texts, Path(folder), saved, device, 64 if small else 4096)
        measure_spread(texts[: 8 if small else 2000], local, saved, device)
    measure_agreement(local, LocalEmbedder(model, threads=16), 40 if small else None)
    return 0


def cut_texts(count: int) -> list[str]:
    """Return texts of novels; the same part of a novel is cut at other places again."""
    whole = [" ".join(book.split()) for book in books()[0]]
    texts: list[str] = []
    for shift in range(0, CHARACTERS, 37):
        for book in whole:
            texts += [book[i : i + CHARACTERS] for i in range(shift, len(book), CHARACTERS)]
        if len(texts) >= count:
            break
    return texts[:count]


def save_model(folder: Path, model: LocalModel) -> Path:
    """Save the bundled weights as a model of sentence-transformers."""
    import torch  # pyright: ignore[reportMissingImports]
    from transformers import BertConfig, BertModel  # pyright: ignore[reportMissingImports]

    saved = folder / "bge-small"
    network = BertModel(
        BertConfig(
            hidden_size=384, num_hidden_layers=12, num_attention_heads=12, intermediate_size=1536
        ),
        add_pooling_layer=False,
    )
    weights = dequantise(read_weights(model.read(NETWORK_FILE)))
    network.load_state_dict({name: torch.from_numpy(each) for name, each in weights.items()})
    network.save_pretrained(saved)
    shutil.copy(model.location / "tokenizer.json", saved)
    pooling = {"word_embedding_dimension": 384, "pooling_mode_cls_token": True}
    modules = [
        {"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"},
        {"idx": 1, "name": "1", "path": "p", "type": "sentence_transformers.models.Pooling"},
    ]
    (saved / "p").mkdir()
    for name, content in {
        "modules.json": modules,
        "p/config.json": pooling | {"pooling_mode_mean_tokens": False},
        "sentence_bert_config.json": {"max_seq_length": 512},
        "tokenizer_config.json": {"tokenizer_class": "BertTokenizer", "model_max_length": 512},
    }.items():
        (saved / name).write_text(json.dumps(content))
    return saved


def sentence_model(saved: Path, device: str, **options: Any) -> SentenceEmbedder:
    description = ModelDescription(precision=options.pop("precision", ""))
    folder = TorchFolder(saved.parent, saved.name, description)
    return SentenceEmbedder(folder, device, **options)


@contextmanager
def watching_gpu(device: str) -> Iterator[list[int]]:
    """Yield a list that gets the utilisation of the GPU in percent, several times a second."""
    import torch  # pyright: ignore[reportMissingImports]

    found: list[int] = []
    done = Event()

    def watch() -> None:
        while not done.wait(0.1):
            found.append(torch.cuda.utilization())

    thread = Thread(target=watch, daemon=True)
    if device == "cuda":
        thread.start()
    try:
        yield found
    finally:
        done.set()


def rate(embed: Callable[[Sequence[str]], object], texts: Sequence[str], device: str) -> str:
    """Return texts a second and the utilisation of the GPU, with several calls in flight."""
    with ThreadPoolExecutor(IN_FLIGHT) as pool:
        # Kernels are chosen and memory is taken for every shape once.
        list(pool.map(embed, [texts[i : i + CALL] for i in range(0, 8 * CALL, CALL)]))
        limits = getattr(getattr(embed, "__self__", None), "limits", None)
        size = limits.items if limits else CALL
        calls = [texts[i : i + size] for i in range(0, len(texts), size)]
        with watching_gpu(device) as busy:
            began = time.perf_counter()
            list(pool.map(embed, calls))
            seconds = time.perf_counter() - began
    used = f"{sum(busy) / len(busy):.0f} %" if busy else "-"
    return f"{len(texts) / seconds:,.0f} | {used}"


def measure_rates(
    texts: Sequence[str], local: LocalTorchEmbedder, saved: Path, device: str
) -> None:
    tokenizer = LocalModel().tokenizer()
    tokens = sum(map(len, tokenizer.encode_batch_fast(texts[:2000]))) / len(texts[:2000])
    print(f"## Rates, {tokens:.0f} tokens a text\n\n| | texts/s | GPU busy |\n|---|---|---|")
    print(f"| tokenizer alone | {rate(tokenizer.encode_batch_fast, texts, 'cpu')} |")
    print(f"| local-gpu | {rate(local.embed_documents, texts, device)} |")
    some = texts[: max(len(texts) // 10, 24)]
    print(
        f"| local-gpu, states of words | {rate(local.embed_documents_with_states, some, device)} |"
    )
    for batch in (16_384, 65_536, 262_144):
        own = sentence_model(saved, device, batch_tokens=batch)
        label = f"sentence-transformers, float16, {batch:,} tokens a batch"
        print(f"| {label} | {rate(own.embed_documents, texts, device)} |", flush=True)
    for precision in ("bfloat16", "float32"):
        own = sentence_model(saved, device, precision=precision)
        label = f"sentence-transformers, {precision}"
        print(f"| {label} | {rate(own.embed_documents, some, device)} |", flush=True)
    print(f"\nTarget: {TARGET:,} texts/s, GPU busy {BUSY_TARGET} %.")


def measure_reranker(
    texts: Sequence[str], folder: Path, saved: Path, device: str, count: int
) -> None:
    from transformers import (  # pyright: ignore[reportMissingImports]
        BertConfig,
        BertForSequenceClassification,
    )

    made = folder / "cross"
    config = BertConfig(
        hidden_size=384,
        num_hidden_layers=6,
        num_attention_heads=12,
        intermediate_size=1536,
        num_labels=1,
    )
    BertForSequenceClassification(config).save_pretrained(made)
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(saved / name, made)
    own = TorchReranker(TorchFolder(folder, "cross"), device, clock=SystemClock(), seconds=600)
    own.scores("Who held the key?", texts[:64])
    began = time.perf_counter()
    own.scores("Who held the key?", texts[:count])
    many = count / (time.perf_counter() - began)
    own.scores("Who held the key?", texts[:30])
    began = time.perf_counter()
    for _ in range(5):
        own.scores("Who held the key?", texts[:30])
    few = (time.perf_counter() - began) / 5
    print(f"\n## Reranker of 6 layers\n\n{many:,.0f} pairs/s; 30 pairs in {1000 * few:.1f} ms")


def measure_spread(
    texts: Sequence[str], local: LocalTorchEmbedder, saved: Path, device: str
) -> None:
    """Print how far a vector is from itself in other batches, and on the CPU."""
    print("\n## Spread of a vector\n\n| | lowest similarity | equal bits |\n|---|---|---|")
    package = sentence_model(saved, device)
    for name, own in {"local-gpu": local, "sentence-transformers": package}.items():
        whole = matrix(own, texts)
        for size in (1, 13, 500):
            some = texts[:40] if size == 1 else texts
            parts = [matrix(own, some[i : i + size]) for i in range(0, len(some), size)]
            print(f"| {name}, {size} texts a call | {compare(numpy.concatenate(parts), whole)} |")
        query = [own.embed_query(text[:80]) for text in texts[:40]]
        on_cpu = (
            LocalTorchEmbedder(LocalModel(), "cpu")
            if name == "local-gpu"
            else sentence_model(saved, "cpu")
        )
        other = [on_cpu.embed_query(text[:80]) for text in texts[:40]]
        print(f"| {name}, queries on the CPU | {compare(rows(other), rows(query))} |")
        print(f"| {name}, texts on the CPU | {compare(matrix(on_cpu, texts[:40]), whole)} |")
    exact = matrix(sentence_model(saved, device, precision="float32"), texts)
    for precision in ("float16", "bfloat16"):
        own = sentence_model(saved, device, precision=precision)
        print(f"| {precision} and float32 | {compare(matrix(own, texts), exact)} |")
    print(f"| local-gpu and float32 | {compare(matrix(local, texts), exact)} |")


def rows(vectors: Sequence[bytes]) -> numpy.ndarray:
    return numpy.frombuffer(b"".join(vectors), "<f4").reshape(len(vectors), -1)


def matrix(embedder: Embedder, texts: Sequence[str]) -> numpy.ndarray:
    """Return the vectors of texts as rows, embedded in large calls."""
    calls = [texts[i : i + CALL] for i in range(0, len(texts), CALL)]
    return rows([vector for call in calls for vector in embedder.embed_documents(call)])


def compare(found: numpy.ndarray, expected: numpy.ndarray) -> str:
    expected = expected[: len(found)]
    lowest = (found.astype(float) * expected).sum(axis=1).min()
    return f"{lowest:.7f} | {(found == expected).all(axis=1).mean():.1%}"


def measure_agreement(local: Embedder, quantised: Embedder, limit: int | None) -> None:
    """Print the quality of both models on SciFact, and of one's queries on the other's texts."""
    data = shared_data("scifact")
    if data is None:
        print("\nSciFact is not here: rankings were not compared.")
        return
    judged = dict(list(read_judgements(data).items())[:limit])
    corpus = dict(list(read_corpus(data, None).items())[:limit])
    queries, names = read_queries(data), list(corpus)
    texts = [str(text)[:1200] for text in corpus.values()]
    documents = {"float16": matrix(local, texts), "int8": matrix(quantised, texts)}
    asked = {
        "float16": rows([local.embed_query(queries[id]) for id in judged]),
        "int8": rows([quantised.embed_query(queries[id]) for id in judged]),
    }
    print(
        "\n## SciFact by similarity alone\n\n| queries | texts | nDCG@10 | same of the first ten |"
    )
    print("|---|---|---|---|")
    best: dict[tuple[str, str], numpy.ndarray] = {}
    for query, text in (("int8",) * 2, ("float16",) * 2, ("int8", "float16"), ("float16", "int8")):
        scores = asked[query] @ documents[text].T
        best[query, text] = order = numpy.argsort(-scores, axis=1)[:, :10]
        gained = [
            ndcg([names[i] for i in found], wanted, 10)
            for found, wanted in zip(order, judged.values(), strict=True)
        ]
        first = best["int8", "int8"]
        same = numpy.mean([len({*a} & {*b}) / 10 for a, b in zip(order, first, strict=True)])
        print(f"| {query} | {text} | {numpy.mean(gained):.4f} | {same:.1%} |")
    print_shift(asked, documents, best["int8", "int8"])


def print_shift(
    asked: dict[str, numpy.ndarray], documents: dict[str, numpy.ndarray], first: numpy.ndarray
) -> None:
    """Print how much similarities differ between the two models."""
    found = {
        name: numpy.take_along_axis(asked[name] @ documents[name].T, first, axis=1)
        for name in asked
    }
    change = found["float16"] - found["int8"]
    print(
        f"\nSimilarity of the first ten, float16 - int8: {change.mean():+.4f} ± {change.std():.4f}"
    )
    own = [
        numpy.percentile(asked[name] @ documents[name].T, (5, 50, 95, 99)).round(4).tolist()
        for name in ("int8", "float16")
    ]
    print(f"Percentiles 5, 50, 95, 99 of all similarities: int8 {own[0]}, float16 {own[1]}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
