"""The bundled model with PyTorch: the same weights, another profile, any device."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy
import pytest

import truespan
from tests.promises import proves
from truespan.errors import InvalidConfiguration
from truespan.extensions.models.onnx_format import read_weights
from truespan.extensions.models.torch_devices import BatchStates, TorchRunner
from truespan.extensions.models.torch_embedder import WordPooling
from truespan.extensions.models.torch_local import LocalTorchEmbedder, dequantise
from truespan.providers.local import NETWORK_FILE, LocalEmbedder, LocalModel
from truespan.providers.word_states import Projection, WordTokens
from truespan.types.profile import support_floor
from truespan.types.vectors import ROW_BYTES, STATE_SIZE, compare_rows, cosine

pytestmark = pytest.mark.torch

MODEL = LocalModel()
PASSAGES = [
    "Penicillin was found by Alexander Fleming in 1928, when mould killed bacteria in a dish.",
    "The tide comes in twice a day because the moon and the sun pull on the oceans.",
    "To make a roux, melt butter in a pan and stir in the same weight of flour.",
    "",
    "naïve café, 漢字 😀",
]
QUESTIONS = ["Who found the first antibiotic?", "Why does the sea rise?", "How to thicken a sauce?"]


def has_gpu() -> bool:
    import torch  # pyright: ignore[reportMissingImports]

    return torch.cuda.is_available()


@pytest.fixture(scope="module")
def embedder() -> LocalTorchEmbedder:
    return LocalTorchEmbedder(MODEL, "cpu")


@pytest.fixture
def on_gpu() -> LocalTorchEmbedder:
    if not has_gpu():
        pytest.skip("there is no GPU; its vectors were not compared")
    return LocalTorchEmbedder(MODEL, "cuda")


@proves("embedding.torch")
def test_vectors_are_close_to_those_of_the_quantised_network(embedder: LocalTorchEmbedder) -> None:
    quantised = LocalEmbedder(MODEL)

    for one, other in zip(
        embedder.embed_documents(PASSAGES), quantised.embed_documents(PASSAGES), strict=True
    ):
        assert cosine(one, other) > 0.99
    assert embedder.count_query("sea") == quantised.count_query("sea")
    assert embedder.profile.model == quantised.profile.model
    assert embedder.profile.id != quantised.profile.id
    own, other = embedder.profile.calibration, quantised.profile.calibration
    assert own is not None
    assert other is not None
    assert own.thresholds() == pytest.approx(other.thresholds(), abs=0.01)
    assert support_floor(embedder.profile) == support_floor(quantised.profile) is not None
    assert not embedder.limits.joint
    assert embedder.limits.probed


def test_question_is_nearest_to_its_answer(embedder: LocalTorchEmbedder) -> None:
    passages = embedder.embed_documents(PASSAGES[:3])
    for answer, question in enumerate(QUESTIONS):
        query = embedder.embed_query(question)
        scores = [cosine(query, passage) for passage in passages]
        assert scores.index(max(scores)) == answer


@proves("embedding.vector-per-input")
def test_vector_depends_on_its_text_alone(embedder: LocalTorchEmbedder) -> None:
    together = embedder.embed_documents(PASSAGES)
    assert [embedder.embed_documents([text])[0] for text in PASSAGES] == together
    with_states = embedder.embed_documents_with_states(PASSAGES)
    assert [vector for vector, _ in with_states] == together
    assert all(states for _, states in with_states[:3])


def test_states_pooled_on_a_device_match_those_of_single_texts(
    embedder: LocalTorchEmbedder, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = embedder.embed_documents_with_states(PASSAGES)
    monkeypatch.setattr(TorchRunner, "on_cpu", False)
    pooled = LocalTorchEmbedder(MODEL, "cpu").embed_documents_with_states(PASSAGES)
    assert [len(states) for _, states in pooled] == [len(states) for _, states in expected]
    for (_, states), (_, others) in zip(pooled, expected, strict=True):
        cosines = compare_rows(states, others).diagonal() if states else numpy.ones(1)
        assert cosines.min() > 0.999


def test_word_whose_states_cancel_out_has_no_row() -> None:
    """A network that gives the same states to every token, whose mean is subtracted."""
    import torch  # pyright: ignore[reportMissingImports]

    states = torch.ones((3, 4))
    tokens = WordTokens(numpy.array([0, 1]), numpy.ones(2, numpy.float32), numpy.array([1, 1]))
    states[1, 0] = 2
    projection = Projection(
        numpy.full(4, 0.5, numpy.float32), numpy.ones((4, STATE_SIZE), numpy.float32)
    )

    [row] = WordPooling([tokens], projection).read(BatchStates(states, [0], [3], [0]))

    assert len(row) == ROW_BYTES


def test_padded_batch_gives_the_vectors_of_single_texts(
    embedder: LocalTorchEmbedder, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = embedder.embed_documents(PASSAGES)
    monkeypatch.setattr(TorchRunner, "on_cpu", False)
    found = LocalTorchEmbedder(MODEL, "cpu").embed_documents(PASSAGES)
    assert min(map(cosine, found, expected)) > 0.99999


def test_weights_equal_those_of_the_network() -> None:
    weights = read_weights(MODEL.read(NETWORK_FILE))
    found = dequantise(weights)
    assert len(found) == 3 + 2 + 12 * 16
    assert found["embeddings.word_embeddings.weight"].shape == (30522, 384)
    assert found["encoder.layer.0.intermediate.dense.weight"].shape == (1536, 384)
    assert all(numpy.isfinite(each).all() for each in found.values())
    scale = weights["embeddings.word_embeddings.weight_scale"]
    assert abs(found["embeddings.word_embeddings.weight"]).max() <= 255 * scale


def test_other_models_than_the_bundled_one_are_refused(tmp_path: Path) -> None:
    for path in MODEL.location.iterdir():
        if path.suffix in (".onnx", ".json"):
            (tmp_path / path.name).write_bytes(path.read_bytes() + b" ")
    with pytest.raises(InvalidConfiguration, match="Only the bundled model"):
        _ = LocalTorchEmbedder(LocalModel(tmp_path), "cpu").profile


def test_world_moves_to_pytorch_and_is_searched(tmp_path: Path) -> None:
    """A generation of the same weights with PyTorch, built next to the quantised one."""
    (tmp_path / "sea.txt").write_text("\n\n".join(PASSAGES[:3]))
    with truespan.open(tmp_path / "library", create=True) as library:
        world = library.world("main", create=True)
        world.ingest([tmp_path / "sea.txt"])
        before = world.search("Why does the sea rise?")
        report = world.generations.reindex(model="local-gpu")
        world.generations.promote(report.generation)
        after = world.search("Why does the sea rise?")
    assert [each.text for each in after.passages] == [each.text for each in before.passages]


@proves("embedding.vector-per-input")
def test_gpu_gives_the_same_vector_in_any_batch(on_gpu: LocalTorchEmbedder) -> None:
    choose = random.Random(7)
    words = [word for text in PASSAGES for word in text.split()]
    texts = [" ".join(choose.choices(words, k=choose.randrange(1, 300))) for _ in range(900)]
    together = on_gpu.embed_documents(texts)
    for size in (1, 7, 100, 333, 801):
        assert min(map(cosine, on_gpu.embed_documents(texts[:size]), together)) > 0.99999


def test_gpu_and_cpu_agree(on_gpu: LocalTorchEmbedder, embedder: Any) -> None:
    for text in [*PASSAGES, *QUESTIONS]:
        assert cosine(on_gpu.embed_query(text), embedder.embed_query(text)) > 0.99999
