"""Models of sentence-transformers: their vectors, what locks them, and what is refused."""

from __future__ import annotations

import json
import logging
from array import array
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy
import pytest

from tests.promises import proves
from tests.pytorch.models import SIZE, save_cross_encoder, save_encoder
from truespan.core.clock import SystemClock
from truespan.errors import (
    InvalidConfiguration,
    ModelUnavailable,
    ProviderBadReply,
    ProviderUnavailable,
    TextTooLong,
)
from truespan.extensions.models import sentence_transformers, torch_devices
from truespan.extensions.models.sentence_transformers import (
    SentenceEmbedder,
    TorchFolder,
    TorchReranker,
)
from truespan.extensions.models.torch_devices import (
    RunOptions,
    TorchNetwork,
    TorchRunner,
    copy_states,
    find_devices,
    import_torch,
)
from truespan.protocols import Embedder, find_state_embedder
from truespan.providers.model_files import ModelDescription
from truespan.types.vectors import cosine

pytestmark = pytest.mark.torch

TEXTS = [
    "the tide comes in", "at night the moon pulls on the sea", "sea", "", "an unknown word",
    "the sea and the moon and the tide at night " * 2, "漢字 😀 \ud800",
]  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_encoder(tmp_path_factory.mktemp("model"))


def embed(folder: Path, **options: Any) -> SentenceEmbedder:
    device, description = options.pop("device", "cpu"), ModelDescription(**options)
    return SentenceEmbedder(TorchFolder(folder.parent, folder.name, description), device)


# Vectors


@proves("embedding.torch")
@pytest.mark.parametrize("pooling", ["mean", "cls"])
def test_vectors_are_those_of_the_package(tmp_path: Path, pooling: str) -> None:
    from sentence_transformers import SentenceTransformer  # pyright: ignore[reportMissingImports]

    prompts = {"query": "query: ", "document": "passage: "}
    made = save_encoder(tmp_path / "model", pooling=pooling, prompts=prompts)
    own: Embedder = embed(made, precision="float32")
    package = SentenceTransformer(str(made), device="cpu", local_files_only=True)
    texts = TEXTS[:3]

    expected = package.encode([f"passage: {text}" for text in texts], normalize_embeddings=True)
    for vector, other in zip(own.embed_documents(texts), expected, strict=True):
        assert list(array("f", vector)) == pytest.approx(other.tolist(), abs=1e-6)
    [query] = package.encode(["query: sea"], normalize_embeddings=True)
    assert list(array("f", own.embed_query("sea"))) == pytest.approx(query.tolist(), abs=1e-6)
    assert own.count_query("sea") == 3
    profile = own.profile
    assert (profile.dimensions, profile.input_limit) == (SIZE, SIZE - 4)
    assert profile.query_mode == "instruction: query: "


@proves("embedding.vector-per-input")
@pytest.mark.parametrize("family", ["Bert", "Roberta"])
@pytest.mark.parametrize("pooling", ["mean", "cls"])
def test_gpu_agrees_with_the_package(tmp_path: Path, pooling: str, family: str) -> None:
    torch = import_torch()
    if not torch.cuda.is_available():
        pytest.skip("there is no GPU; its vectors were not compared")
    save_encoder(tmp_path / "model", pooling=pooling, family=family)
    expected = embed(tmp_path / "model").embed_documents(TEXTS)
    own = embed(tmp_path / "model", device="cuda")
    assert min(map(cosine, own.embed_documents(TEXTS), expected)) > 0.9999


def test_vector_depends_on_its_text_alone_in_any_order(folder: Path) -> None:
    own = embed(folder)
    together = own.embed_documents(TEXTS)
    assert [own.embed_documents([text])[0] for text in TEXTS] == together
    assert own.embed_documents(TEXTS[::-1]) == together[::-1]


def test_states_of_words_come_with_the_same_vectors(folder: Path) -> None:
    own = embed(folder)
    assert find_state_embedder(own) is own
    found = own.embed_documents_with_states(TEXTS)
    assert [vector for vector, _ in found] == own.embed_documents(TEXTS)
    assert len(found[1][1]) > len(found[2][1]) > 0 == len(found[3][1])
    vector, states = own.embed_query_with_states("the moon")
    assert vector == own.embed_query("the moon")
    assert states.words == ("the", "moon")


def test_text_that_is_too_long_is_refused_whole(folder: Path) -> None:
    with pytest.raises(TextTooLong, match="31 tokens; the model reads 30"):
        embed(folder).embed_documents(["sea", "sea " * 31])


# Profile


@proves("embedding.torch")
def test_profile_changes_with_everything_that_affects_a_vector(tmp_path: Path) -> None:
    original = save_encoder(tmp_path / "a")
    profile = embed(original).profile
    assert embed(save_encoder(tmp_path / "same")).profile.revision == profile.revision
    assert (profile.provider, profile.model) == ("sentence-transformers", "a")

    others = {
        "weights": embed(save_encoder(tmp_path / "weights", seed=2)),
        "pooling": embed(save_encoder(tmp_path / "pooling", pooling="cls")),
        "precision": embed(original, precision="bfloat16"),
    }
    changed = save_encoder(tmp_path / "tokenizer")
    content = json.loads((changed / "tokenizer.json").read_text())
    content["model"]["vocab"] |= {"sea": 5, "moon": 6}
    (changed / "tokenizer.json").write_text(json.dumps(content))
    others["tokenizer"] = embed(changed)

    revisions = {name: other.profile.revision for name, other in others.items()}
    assert len({profile.revision, *revisions.values()}) == 5, revisions


def test_precision_auto_follows_the_stored_weights(tmp_path: Path) -> None:
    made = save_encoder(tmp_path / "model")
    assert TorchFolder(tmp_path, "model").precision == "float16"
    config = json.loads((made / "config.json").read_text())
    (made / "config.json").write_text(json.dumps(config | {"dtype": "bfloat16"}))
    assert TorchFolder(tmp_path, "model").precision == "bfloat16"
    described = ModelDescription(precision="float32")
    assert TorchFolder(tmp_path, "model", described).precision == "float32"


def test_cpu_uses_the_rounded_weights_of_other_devices(folder: Path) -> None:
    exact, rounded = embed(folder, precision="float32"), embed(folder, precision="bfloat16")
    similarities = [
        cosine(one, other)
        for one, other in zip(
            exact.embed_documents(TEXTS), rounded.embed_documents(TEXTS), strict=True
        )
    ]
    assert all(0.999 < similarity < 1 for similarity in similarities)


def test_files_that_change_while_loading_are_refused(tmp_path: Path) -> None:
    made = save_encoder(tmp_path / "model")
    own = embed(made)
    assert own.profile
    save_encoder(tmp_path / "other", seed=2)
    (tmp_path / "other/model.safetensors").replace(made / "model.safetensors")
    with pytest.raises(ModelUnavailable, match="changed"):
        own.embed_query("sea")


# Refusals


def _without_weights(folder: Path) -> None:
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")


def _without_modules(folder: Path) -> None:
    (folder / "modules.json").unlink()


def _with_code(folder: Path) -> None:
    config = json.loads((folder / "config.json").read_text())
    config |= {"model_type": "own", "auto_map": {"AutoModel": "own.Own", "AutoConfig": "own.C"}}
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "own.py").write_text("raise SystemExit('the code of a model was run')")


def _with_link(folder: Path) -> None:
    (folder / "tokenizer.json").rename(folder.parent / "outside.json")
    (folder / "tokenizer.json").symlink_to(folder.parent / "outside.json")


@pytest.mark.parametrize("damage", [_without_weights, _without_modules, _with_code, _with_link])
def test_unusable_model_is_refused(tmp_path: Path, damage: Callable[[Path], None]) -> None:
    made = save_encoder(tmp_path / "model")
    damage(made)
    with pytest.raises((ModelUnavailable, InvalidConfiguration)):
        embed(made).embed_query("sea")


@proves("embedding.torch")
def test_missing_model_is_named_with_its_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "cache"))
    own = SentenceEmbedder(TorchFolder(tmp_path, "someone/some-model"))
    with pytest.raises(ModelUnavailable) as refused:
        own.embed_query("sea")
    assert "truespan models download someone/some-model" in (refused.value.advice or "")


def test_model_is_found_in_the_cache_by_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import huggingface_hub  # pyright: ignore[reportMissingImports]

    # As in the cache: files of a snapshot are links to files beside it.
    blobs, snapshot = tmp_path / "repo/blobs", tmp_path / "repo/snapshots/1"
    save_encoder(blobs)
    snapshot.mkdir(parents=True)
    for path in blobs.rglob("*.*"):
        link = snapshot / path.relative_to(blobs)
        link.parent.mkdir(exist_ok=True)
        link.symlink_to(path)
    asked: list[tuple[str, dict[str, Any]]] = []

    def find(name: str, **options: Any) -> str:
        asked.append((name, options))
        return str(snapshot)

    monkeypatch.setattr(huggingface_hub, "snapshot_download", find)
    own = SentenceEmbedder(TorchFolder(tmp_path, "a/b"), "cpu")

    assert own.embed_query("sea") == embed(blobs).embed_query("sea")
    assert own.profile.model == "a/b"
    assert asked == [("a/b", {"local_files_only": True})]
    sentence_transformers.download_model("a/b")
    assert asked[1][1].get("local_files_only") is None
    assert not any("bin" in pattern or "py" in pattern for pattern in asked[1][1]["allow_patterns"])


@proves("embedding.torch")
def test_devices_that_are_absent_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    assert [str(device) for device in find_devices("cpu")] == ["cpu"]
    for wanted in ("cuda:99", "tpu", "cpu,cuda:99", ""):
        with pytest.raises(InvalidConfiguration, match="no device"):
            find_devices(wanted)
    monkeypatch.setattr(torch_devices, "_usable", lambda: ["cpu"])
    monkeypatch.setattr(torch_devices, "_DRIVER_NODE", Path(__file__))
    with pytest.raises(InvalidConfiguration, match="cannot use"):
        find_devices("auto")


# Runs


class CountingNetwork(TorchNetwork):
    """Returns the ids of texts, and runs out of memory above a number of tokens."""

    def __init__(self, room: int, shapes: list[tuple[int, int]]) -> None:
        self._room = room
        self._shapes = shapes

    def run(self, ids: Any, mask: Any, kinds: Any) -> tuple[Any, Any]:
        if ids.numel() > self._room:
            raise RuntimeError("CUDA out of memory. Tried to allocate 2 GiB.")
        self._shapes.append(tuple(ids.shape))
        sums = (ids * mask).sum(1, keepdim=True)
        return sums, ids[..., None] * mask[..., None]


@pytest.fixture
def run_many(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """Return a function that runs texts as on a GPU, and returns results and shapes."""
    monkeypatch.setattr(TorchRunner, "on_cpu", False)
    tokenizer = TorchFolder(folder.parent, folder.name).tokenizer()

    def run(texts: list[str], *, room: int = 10**9, tokens: int = 64, devices: str = "cpu") -> Any:
        shapes: list[tuple[int, int]] = []
        runner = TorchRunner(
            lambda device, precision: CountingNetwork(room, shapes),
            devices,
            lambda: RunOptions(batch_tokens=tokens, max_length=4 * SIZE),
        )
        encodings = tokenizer.encode_batch(texts)
        rows = runner.run(encodings, copy_states)
        expected = [sum(encoding.ids) for encoding in encodings]
        assert rows.vectors[:, 0].tolist() == expected
        for encoding, states in zip(encodings, rows.states, strict=True):
            assert states is not None
            assert states[:, 0].tolist() == encoding.ids
        return shapes

    return run


def test_batches_stay_within_the_token_budget(run_many: Callable[..., Any]) -> None:
    # The longest texts run first, so that results must be put back in order.
    texts = ["sea " * count for count in range(1, 100)]
    shapes = run_many(texts, tokens=512)
    assert all(rows * width <= 512 for rows, width in shapes)
    assert {width for _, width in shapes} == {64, 128}
    assert len(shapes) == 18
    assert len(run_many(texts, tokens=512, devices="cpu,cpu")) == 18


@proves("embedding.torch")
def test_batch_that_does_not_fit_is_halved_with_a_warning(
    run_many: Callable[..., Any], caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        shapes = run_many(["sea moon tide"] * 16, room=256, tokens=1024)
    assert shapes == [(4, 64)] * 4
    assert "ran out of memory; batches have at most" in caplog.text


def test_text_that_does_not_fit_alone_is_an_error(run_many: Callable[..., Any]) -> None:
    with pytest.raises(ModelUnavailable, match="out of memory"):
        run_many(["sea"], room=1)


def test_vector_that_is_not_a_number_is_refused(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = embed(folder)
    assert own.embed_query("sea")
    rows = own.runner.run

    def broken(texts: Any, read: Any = None) -> Any:
        found = rows(texts, read)
        return found._replace(vectors=found.vectors * numpy.float32("nan"))

    monkeypatch.setattr(own.runner, "run", broken)
    with pytest.raises(ProviderBadReply, match="not a number"):
        own.embed_query("sea")


# Rerankers


def rerank(folder: Path, seconds: float = 30) -> TorchReranker:
    found = TorchFolder(folder.parent, folder.name)
    return TorchReranker(found, "cpu", clock=SystemClock(), seconds=seconds)


def test_reranker_scores_each_pair_independently(tmp_path: Path) -> None:
    from sentence_transformers import CrossEncoder  # pyright: ignore[reportMissingImports]
    from torch.nn import Identity  # pyright: ignore[reportMissingImports]

    made = save_cross_encoder(tmp_path / "cross")
    own = rerank(made)

    scores = own.scores("the moon", TEXTS)

    assert [own.scores("the moon", [text])[0] for text in TEXTS] == scores
    assert own.scores("the moon", []) == []
    package = CrossEncoder(str(made), device="cpu", local_files_only=True)
    pairs = [("the moon", text) for text in TEXTS[:3]]
    expected = package.predict(pairs, activation_fn=Identity())
    # The weights of our own are rounded.
    assert scores[:3] == pytest.approx(expected.tolist(), abs=1e-3)
    assert own.name == "sentence-transformers/cross"


def test_reranker_refuses_other_models_and_ends_in_time(tmp_path: Path) -> None:
    with pytest.raises(ProviderBadReply, match="2 numbers"):
        rerank(save_cross_encoder(tmp_path / "two", labels=2)).scores("moon", ["sea"])
    with pytest.raises(ProviderUnavailable, match="in time"):
        rerank(save_cross_encoder(tmp_path / "slow"), seconds=0).scores("moon", ["sea"])


# Download


@proves("embedding.torch")
def test_command_downloads_a_model_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import huggingface_hub  # pyright: ignore[reportMissingImports]

    from truespan.cli import run

    monkeypatch.setattr(huggingface_hub, "snapshot_download", lambda name, **_: str(tmp_path))
    assert run(["models", "download", "a/b"]) == 0
    said = capsys.readouterr().out
    assert "from huggingface.co" in said
    assert str(tmp_path) in said

    def refuse(name: str, **options: Any) -> str:
        raise OSError(f"no {name}")

    monkeypatch.setattr(huggingface_hub, "snapshot_download", refuse)
    assert run(["models", "download", "a/b"]) != 0
    assert "cannot be downloaded" in capsys.readouterr().err
