"""The local embedder: meaningful vectors that depend on their own text alone."""

import json
import math
import random
import shutil
import struct
import subprocess
import sys
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import numpy
import onnxruntime
import pytest

from tests.promises import proves
from truespan.core.cancel import CancelToken, use_cancel_token
from truespan.errors import Interrupted, ModelUnavailable, ProviderRefused
from truespan.protocols import Embedder
from truespan.providers.local import INSTRUCTION, NETWORK_FILE, LocalEmbedder, LocalModel
from truespan.providers.model_files import TOKENIZER_FILE
from truespan.providers.onnx import Workers, gather
from truespan.types.profile import Distance
from truespan.types.vectors import Vector

MODEL = LocalModel()
PASSAGES = [
    "Penicillin was found by Alexander Fleming in 1928, when mould killed bacteria in a dish.",
    "The tide comes in twice a day because the moon and the sun pull on the oceans.",
    "To make a roux, melt butter in a pan and stir in the same weight of flour.",
    "The cathedral's western towers were finished two centuries after its choir.",
]
QUESTIONS = [
    "Who found the first antibiotic?", "Why does the sea rise and fall?",
    "How do I thicken a sauce?", "When was the church completed?",
]  # fmt: skip
TEXTS = [
    *PASSAGES,
    "",
    "a",
    "naïve café, ﬁancée",
    "漢字とかな",
    "😀" * 30,
    "\ud800 half a pair",
    "The same sentence again. " * 40,
    " ".join(PASSAGES * 5),
]


@pytest.fixture(scope="module")
def embedder() -> LocalEmbedder:
    return LocalEmbedder(MODEL)


@pytest.fixture(scope="module")
def alone(embedder: LocalEmbedder) -> list[Vector]:
    """Return the vector of each text, embedded separately."""
    return [embedder.embed_documents([text])[0] for text in TEXTS]


def numbers(vector: Vector) -> tuple[float, ...]:
    return struct.unpack(f"<{len(vector) // 4}f", vector)


def cosine(one: Vector, other: Vector) -> float:
    return sum(a * b for a, b in zip(numbers(one), numbers(other), strict=True))


def words(count: int) -> str:
    return "word " * count


def test_vectors_are_normalised_with_the_stated_dimensions(
    embedder: LocalEmbedder, alone: list[Vector]
) -> None:
    port: Embedder = embedder

    profile = port.profile

    assert (profile.provider, profile.model) == ("local", "BAAI/bge-small-en-v1.5")
    assert (profile.dimensions, profile.distance) == (384, Distance.COSINE)
    assert (profile.revision, profile.input_limit) == (MODEL.revision, 510)
    assert not port.limits.joint

    assert {len(numbers(vector)) for vector in alone} == {384}
    assert [math.hypot(*numbers(vector)) for vector in alone] == [
        pytest.approx(1, abs=1e-6) for _ in alone
    ]

    assert embedder.embed_documents([]) == []


@pytest.mark.parametrize("answer", range(len(PASSAGES)))
def test_question_is_nearest_to_its_answer(embedder: LocalEmbedder, answer: int) -> None:
    query = embedder.embed_query(QUESTIONS[answer])

    scores = [cosine(query, passage) for passage in embedder.embed_documents(PASSAGES)]

    others = [score for index, score in enumerate(scores) if index != answer]
    assert 0.52 < scores[answer] < 0.75
    assert all(0.25 < score < scores[answer] - 0.05 for score in others)


def test_vector_is_the_normalised_state_of_the_first_token(embedder: LocalEmbedder) -> None:
    session = onnxruntime.InferenceSession(MODEL.read(NETWORK_FILE))
    ids = numpy.array([MODEL.tokenizer().encode(PASSAGES[0]).ids])
    feed = {"input_ids": ids, "attention_mask": ids * 0 + 1, "token_type_ids": ids * 0}

    states = numpy.asarray(session.run(None, feed)[0])[0]

    [vector] = embedder.embed_documents(PASSAGES[:1])
    expected = states[0] / numpy.linalg.norm(states[0])
    assert numbers(vector) == pytest.approx(expected.tolist(), abs=1e-6)


def test_embedders_of_one_file_share_its_session(embedder: LocalEmbedder) -> None:
    session = embedder._load().session

    assert LocalEmbedder(LocalModel())._load().session is session


# What a vector depends on


@proves("embedding.vector-per-input")
@pytest.mark.parametrize("threads", [1, 2, 5])
@pytest.mark.parametrize("seed", range(3))
def test_batch_order_and_threads_do_not_change_vectors(
    alone: list[Vector], threads: int, seed: int
) -> None:
    order = random.Random(seed).choices(range(len(TEXTS)), k=len(TEXTS))

    together = LocalEmbedder(MODEL, threads=threads).embed_documents([TEXTS[i] for i in order])

    assert together == [alone[i] for i in order]


@pytest.mark.parametrize("threads", [1, 3])
def test_another_process_returns_identical_vectors_silently(
    alone: list[Vector], threads: int
) -> None:
    script = f"""
import json, sys
from truespan.providers.local import LocalEmbedder
from truespan.providers.local import LocalModel
texts = json.load(sys.stdin)
vectors = LocalEmbedder(LocalModel(), threads={threads}).embed_documents(texts)
print(json.dumps([vector.hex() for vector in vectors]))
"""
    run = subprocess.run(
        [sys.executable, "-c", script],
        input=json.dumps(TEXTS),
        capture_output=True,
        text=True,
        check=True,
    )

    assert run.stdout == json.dumps([vector.hex() for vector in alone]) + "\n"
    assert run.stderr == ""


def test_concurrent_work_does_not_change_query_vectors(embedder: LocalEmbedder) -> None:
    quiet = [embedder.embed_query(text) for text in QUESTIONS]
    with ThreadPoolExecutor(4) as pool:
        noise = pool.submit(embedder.embed_documents, TEXTS)
        busy = list(pool.map(embedder.embed_query, QUESTIONS))

    assert busy == quiet
    assert len(noise.result()) == len(TEXTS)


# The two verbs


@proves("embedding.input-types")
def test_query_vector_is_that_of_instruction_and_text(embedder: LocalEmbedder) -> None:
    text = PASSAGES[0]

    query = embedder.embed_query(text)

    [document, instructed] = embedder.embed_documents([text, INSTRUCTION + text])
    assert query != document
    assert query == instructed
    assert INSTRUCTION in embedder.profile.query_mode
    assert INSTRUCTION not in embedder.profile.document_mode


# Limits


@proves("embedding.oversized-item")
def test_token_limits_are_respected(embedder: LocalEmbedder) -> None:
    texts = [words(509) + last for last in ("apple", "river")]

    [one, other] = embedder.embed_documents(texts)

    assert one != other

    with pytest.raises(ProviderRefused) as refusal:
        embedder.embed_documents([words(3), words(511)])

    assert "511" in refusal.value.message
    assert "word" not in str(refusal.value)

    room = embedder.profile.input_limit - embedder.count_query("")

    assert embedder.embed_query(words(room))
    with pytest.raises(ProviderRefused):
        embedder.embed_query(words(room + 1))

    instruction = MODEL.tokenizer().encode(INSTRUCTION, add_special_tokens=False).ids

    assert embedder.count_query(words(7)) == len(instruction) + 7


# Loading and stopping


class WatchedModel(LocalModel):
    """The real model, which records the files that were read."""

    def __init__(self, folder: Path | None = None) -> None:
        super().__init__(folder)
        self.reads: list[str] = []

    def read(self, name: str) -> bytes:
        self.reads.append(name)
        return super().read(name)


def test_concurrent_threads_load_the_model_once() -> None:
    model = WatchedModel()
    embedder = LocalEmbedder(model)
    assert model.reads == []

    with ThreadPoolExecutor(8) as pool:
        vectors = set(pool.map(embedder.embed_query, ["the same question"] * 8))

    assert len(vectors) == 1
    assert sorted(model.reads) == sorted([NETWORK_FILE, TOKENIZER_FILE])


def test_invalid_model_folder_is_an_operator_error(tmp_path: Path) -> None:
    shutil.copy(MODEL.location / TOKENIZER_FILE, tmp_path)
    (tmp_path / NETWORK_FILE).write_bytes(b"no network")

    with pytest.raises(ModelUnavailable, match="cannot be loaded"):
        LocalEmbedder(LocalModel(tmp_path)).embed_query("anything")

    (tmp_path / NETWORK_FILE).write_bytes(network_that_gives_back_its_input())

    with pytest.raises(ModelUnavailable, match="does not give vectors of 384 dimensions"):
        LocalEmbedder(LocalModel(tmp_path)).embed_query("anything")


def network_that_gives_back_its_input() -> bytes:
    """Return the smallest ONNX file that can be loaded: one node, called Identity."""

    def message(number: int, content: bytes) -> bytes:
        return bytes([number << 3 | 2, len(content)]) + content

    kind = message(2, message(1, b"\x08\x07" + message(2, message(1, b"\x08\x01"))))
    node = message(1, b"input_ids") + message(2, b"copy") + message(4, b"Identity")
    ends = message(11, message(1, b"input_ids") + kind) + message(12, message(1, b"copy") + kind)
    opset = message(8, b"\x10\x0d")
    return b"\x08\x08" + opset + message(7, message(1, node) + message(2, b"g") + ends)


def test_interruption_cancels_pending_work() -> None:
    interrupted: Future[Vector] = Future()
    interrupted.set_exception(KeyboardInterrupt())
    waiting: list[Future[Vector]] = [Future() for _ in range(3)]

    with pytest.raises(KeyboardInterrupt):
        gather({0: interrupted, **dict(enumerate(waiting, start=1))})

    assert all(future.cancelled() for future in waiting)

    workers, token, begun = Workers(1), CancelToken(), list[int]()

    def run(number: int) -> int:
        begun.append(number)
        token.cancel()
        return number

    with use_cancel_token(token), pytest.raises(Interrupted):
        workers.map(run, range(5))

    assert begun == [0]
