"""Models from a folder: everything that affects a vector is locked."""

import shutil
from array import array
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy
import pytest

from tests.promises import proves
from tests.support.onnx_maker import WIDTH, attention_network, lookup_network, model_folder, table
from truespan.errors import (
    InvalidConfiguration,
    ModelUnavailable,
    ProviderBadReply,
    ProviderRefused,
    TextTooLong,
    TruespanError,
)
from truespan.protocols import Embedder
from truespan.providers import onnx
from truespan.providers.local import INSTRUCTION, LocalEmbedder, LocalModel
from truespan.providers.model_files import DESCRIPTION_FILE, ModelDescription
from truespan.providers.onnx import FolderFiles
from truespan.providers.onnx_embedder import FolderEmbedder

TEXTS = [
    "the tide comes in",
    "at night the moon pulls on the sea",
    "sea",
    "",
    "an unknown word",
    "the sea and the moon and the tide at night " * 2,
    "漢字 😀 \ud800",
]


def embed(folder: Path, **options: Any) -> FolderEmbedder:
    description = ModelDescription(**options) if options else None
    return FolderEmbedder(folder, description)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return model_folder(tmp_path_factory.mktemp("model"), attention_network(table()))


@pytest.fixture
def make(tmp_path: Path) -> Callable[..., Path]:
    def new(content: bytes | None = None, **files: Any) -> Path:
        made = tmp_path / f"model-{len(list(tmp_path.iterdir()))}"
        return model_folder(
            made, attention_network(table()) if content is None else content, **files
        )

    return new


# Vectors


@proves("embedding.own-model")
def test_bundled_model_as_a_folder_returns_identical_vectors() -> None:
    bundled = LocalEmbedder(LocalModel())
    own: Embedder = embed(LocalModel().location, pooling="cls", max_length=512)
    texts = [*TEXTS, "The same sentence again. " * 90]

    assert own.embed_documents(texts) == bundled.embed_documents(texts)
    for text in TEXTS:
        assert own.embed_query(text) == bundled.embed_query(text)
        assert own.count_query(text) == bundled.count_query(text)
    assert own.profile.query_mode == f"instruction: {INSTRUCTION}"
    assert (own.profile.dimensions, own.profile.input_limit) == (384, 510)
    assert own.limits == bundled.limits


@proves("embedding.vector-per-input")
def test_vector_depends_only_on_its_text_in_any_batch(folder: Path) -> None:
    single = embed(folder)
    alone = [single.embed_documents([text])[0] for text in TEXTS]
    assert single.embed_documents(TEXTS) == alone
    assert single.embed_documents(TEXTS[::-1]) == alone[::-1]


def test_each_pooling_returns_its_vector(make: Callable[..., Path]) -> None:
    weights = table(2)
    made = make(lookup_network(weights))
    tokens = FolderFiles(made).tokenizer().encode("the tide comes").ids
    states = weights[tokens].astype(numpy.float64)
    expected = {
        "cls": states[0],
        "mean": states.mean(axis=0),
        "max": states.max(axis=0),
        "last": states[-1],
    }
    assert len(tokens) == 5  # With the two special tokens; neither cut nor padded.
    for pooling, vector in expected.items():
        [found] = embed(made, pooling=pooling).embed_documents(["the tide comes"])
        unit = (vector / numpy.linalg.norm(vector)).tolist()
        assert list(array("f", found)) == pytest.approx(unit, abs=1e-6), pooling


def test_network_inputs_and_outputs_are_used_unchanged(make: Callable[..., Path]) -> None:
    weights = table(3)
    plain = embed(make(lookup_network(weights))).embed_documents(TEXTS)
    whole = make(
        lookup_network(weights, output="sentence_embedding", mean=True), **{"1_Pooling__config": {}}
    )
    other = make(lookup_network(weights, output="vectors", mean=True))

    for found in (
        embed(whole).embed_documents(TEXTS),
        embed(other, pooling="none").embed_documents(TEXTS),
        embed(other, pooling="none", output="vectors").embed_documents(TEXTS),
    ):
        for one, expected in zip(found, plain, strict=True):
            assert list(array("f", one)) == pytest.approx(list(array("f", expected)), abs=1e-6)

    with_types = make(attention_network(table(), types=True))

    assert embed(make()).embed_documents(TEXTS) == embed(with_types).embed_documents(TEXTS)


def test_weights_beside_the_network_are_used_from_any_folder(
    make: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    weights = table()
    made = make(attention_network(weights, file="model.onnx_data"))
    (made / "model.onnx_data").write_bytes(weights.tobytes())
    away = tmp_path / "away"
    away.mkdir()
    (away / "model.onnx_data").write_bytes(table(9).tobytes())
    monkeypatch.chdir(away)

    assert embed(made).embed_documents(TEXTS) == embed(make()).embed_documents(TEXTS)
    nested = made.parent / "nested"
    shutil.copytree(made, nested)
    (nested / "onnx").mkdir()
    for name in ("model.onnx", "model.onnx_data"):
        (nested / name).rename(nested / "onnx" / name)
    found = embed(nested, name=made.name)
    assert found.embed_documents(TEXTS) == embed(made).embed_documents(TEXTS)
    assert found.profile == embed(made).profile


# Configuration


def test_options_win_over_the_folder_s_configuration(make: Callable[..., Path]) -> None:
    prompts = {"prompts": {"query": "query : ", "passage": "passage : "}}
    made = make(
        config={"_name_or_path": "org/tide", "hidden_size": WIDTH, "max_position_embeddings": 64},
        config_sentence_transformers=prompts,
    )
    profile = embed(made).profile

    assert (profile.provider, profile.model, profile.dimensions) == ("onnx", "org/tide", WIDTH)
    assert profile.query_mode == "instruction: query : "
    assert profile.document_mode == "instruction: passage : "
    assert profile.input_limit == 32 - 2 - 2
    assert embed(made).count_query("the tide") == 4
    plain = embed(make(), query_prefix="query : ", document_prefix="passage : ")
    assert plain.embed_documents(TEXTS) == embed(made).embed_documents(TEXTS)
    assert plain.embed_query("sea") == embed(made).embed_query("sea")
    declared = embed(
        made, name="mine", query_prefix="", document_prefix="", max_length=40, dimensions=WIDTH
    )
    assert declared.embed_documents(TEXTS) == embed(make()).embed_documents(TEXTS)
    assert (declared.profile.model, declared.profile.input_limit) == ("mine", 38)
    assert (declared.profile.query_mode, declared.profile.document_mode) == ("plain", "passage")


@proves("embedding.own-model")
def test_model_toml_describes_a_model(make: Callable[..., Path]) -> None:
    made = make()
    description = """
        name = "mine"
        pooling = "cls"
        query_prefix = "query : "
        max_length = 20
    """
    (made / DESCRIPTION_FILE).write_text(description)

    own = embed(made)

    given = embed(make(), name="mine", pooling="cls", query_prefix="query : ", max_length=20)
    assert own.profile == given.profile
    assert own.embed_query("sea") == given.embed_query("sea")


def test_invalid_model_toml_is_refused(make: Callable[..., Path]) -> None:
    made = make()
    for text in (
        "pooling = 'sum'",
        "max_length = -1",
        "poolling = 'cls'",
        "max_length = 'all'",
        "= 1",
    ):
        (made / DESCRIPTION_FILE).write_text(text)
        with pytest.raises(InvalidConfiguration, match=DESCRIPTION_FILE):
            assert embed(made).profile


def test_lengths_and_poolings_are_read_from_exports(make: Callable[..., Path]) -> None:
    longest = {"max_position_embeddings": 64, "hidden_size": WIDTH}
    roberta = longest | {"model_type": "xlm-roberta", "pad_token_id": 1}
    lengths = [
        ({}, 30),
        ({"sentence_bert_config": {}}, 62),
        ({"sentence_bert_config": {}, "config": roberta}, 60),
        ({"sentence_bert_config": {}, "tokenizer_config": {"model_max_length": 50}}, 48),
        ({"sentence_bert_config": {"max_seq_length": None}}, 62),
    ]
    for files, limit in lengths:
        assert embed(make(**files)).profile.input_limit == limit, files
    poolings = [
        ({"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": False}, "cls"),
        ({"pooling_mode_max_tokens": True}, "max"),
        ({"pooling_mode_lasttoken": True}, "last"),
        ({"pooling_mode_mean_sqrt_len_tokens": True}, "mean"),
        ({"pooling_mode": "mean"}, "mean"),
        ({"pooling_mode": "lasttoken"}, "last"),
    ]
    for stated, pooling in poolings:
        found = embed(make(**{"1_Pooling__config": stated})).embed_documents(TEXTS)
        assert found == embed(make(), pooling=pooling).embed_documents(TEXTS), stated


def test_text_one_token_too_long_is_refused(folder: Path) -> None:
    own = embed(folder)

    assert len(own.embed_documents(["sea " * 30])) == 1
    assert own.count_query("sea " * 31) == 31
    with pytest.raises(TextTooLong):
        own.embed_documents(["sea", "sea " * 31])
    with pytest.raises(ProviderRefused):
        own.embed_query("sea " * 31)


# What is locked


@proves("embedding.own-model")
def test_revision_changes_with_everything_that_affects_vectors(make: Callable[..., Path]) -> None:
    external = attention_network(table(), file="model.onnx_data")

    def beside(seed: int) -> Path:
        made = make(external)
        (made / "model.onnx_data").write_bytes(table(seed).tobytes())
        return made

    tokenizer = make()
    text = (tokenizer / "tokenizer.json").read_text()
    (tokenizer / "tokenizer.json").write_text(text.replace('"Lowercase"', '"NFC"'))
    revisions = [
        embed(make()).profile.revision,
        embed(make(attention_network(table(5)))).profile.revision,
        embed(beside(1)).profile.revision,
        embed(beside(2)).profile.revision,
        embed(tokenizer).profile.revision,
        embed(make(), pooling="cls").profile.revision,
        embed(make(sentence_bert_config={"do_lower_case": True})).profile.revision,
    ]
    assert len(set(revisions)) == len(revisions)
    # The same files elsewhere are the same model.
    assert embed(make()).profile.revision == revisions[0]


@proves("embedding.own-model")
def test_file_changed_after_its_profile_was_read_is_refused(make: Callable[..., Path]) -> None:
    weights = table()
    for name, content in {
        "model.onnx": attention_network(weights, file="model.onnx_data", types=True),
        "model.onnx_data": table(6).tobytes(),
    }.items():
        made = make(attention_network(weights, file="model.onnx_data"))
        (made / "model.onnx_data").write_bytes(weights.tobytes())
        own = embed(made)
        assert own.profile.revision
        (made / name).write_bytes(content)
        with pytest.raises(ModelUnavailable, match="The SHA-256 of") as refusal:
            own.embed_query("sea")
        assert "Start again" in refusal.value.advice


# Bad folders


def test_invalid_model_folder_is_an_error_with_advice(make: Callable[..., Path], tmp_path: Path):
    outside = tmp_path / "outside.onnx"
    outside.write_bytes(attention_network(table()))

    def without(name: str, **files: Any) -> Path:
        made = make(**files)
        (made / name).unlink()
        return made

    def linked(name: str) -> Path:
        made = without(name)
        (made / name).symlink_to(outside)
        return made

    def holding(name: str, content: bytes) -> Path:
        made = make()
        (made / name).write_bytes(content)
        return made

    numbers = table()
    numbers[:] = numpy.nan
    length = numpy.zeros_like(table())
    escaping = make(attention_network(table(), file="../outside.onnx"))
    dense = [{"idx": 2, "path": "2_Dense", "type": "sentence_transformers.models.Dense"}]
    bert = {"model_type": "bert", "hidden_size": WIDTH}
    rows: list[tuple[Path, dict[str, Any], type[TruespanError], str]] = [
        (tmp_path / "none", {}, ModelUnavailable, "no model folder"),
        (without("model.onnx"), {}, ModelUnavailable, "does not hold model.onnx"),
        (without("tokenizer.json"), {}, ModelUnavailable, "does not hold tokenizer.json"),
        (make(), {"file": "other.onnx"}, ModelUnavailable, "does not hold other.onnx"),
        (make(), {"file": "../outside.onnx"}, ModelUnavailable, "leads out of the folder"),
        (make(), {"file": str(outside)}, ModelUnavailable, "leads out of the folder"),
        (linked("model.onnx"), {}, ModelUnavailable, "leads out of the folder"),
        (linked("tokenizer.json"), {}, ModelUnavailable, "leads out of the folder"),
        (escaping, {}, ModelUnavailable, "leads out of the folder"),
        (make(attention_network(table(), file="weights")), {}, ModelUnavailable, "hold weights"),
        (make(b""), {}, ModelUnavailable, "not an ONNX network"),
        (make(b"no network at all"), {}, ModelUnavailable, "not an ONNX network"),
        (make(attention_network(table())[:-40]), {}, ModelUnavailable, "not an ONNX network"),
        (holding("tokenizer.json", b"{}"), {}, ModelUnavailable, "is not a valid tokenizer"),
        (holding("config.json", b"{"), {}, ModelUnavailable, "not valid JSON"),
        (holding("config.json", b"3"), {}, ModelUnavailable, "not valid JSON"),
        (make(**{"1_Pooling__config": {}}), {}, InvalidConfiguration, "does not state the pooling"),
        (make(modules=dense), {}, InvalidConfiguration, "'Dense'"),
        (make(modules=["x"]), {}, InvalidConfiguration, "modules.json"),
        (
            make(sentence_bert_config={}, config=bert),
            {},
            InvalidConfiguration,
            "does not state the maximum length",
        ),
        (make(), {"max_length": 65}, InvalidConfiguration, "reads 64"),
        (make(), {"dimensions": 9}, ModelUnavailable, "vectors of 9 dimensions"),
        (make(), {"output": "pooler_output"}, ModelUnavailable, "does not give vectors"),
        (make(), {"pooling": "none"}, ModelUnavailable, "does not give vectors"),
        (make(lookup_network(numbers)), {}, ProviderBadReply, "not a number"),
        (make(lookup_network(length)), {}, ProviderBadReply, "zero"),
        (make(lookup_network(table()[:3])), {}, ModelUnavailable, "failed at a text of 3 tokens"),
    ]
    wrong = []
    for made, options, kind, words in rows:
        try:
            embed(made, **options).embed_query("sea")
        except TruespanError as error:
            if type(error) is kind and words in error.message and error.advice:
                continue
            wrong.append(f"{words}: {type(error).__name__}: {error.message} {error.advice}")
        else:
            wrong.append(f"{words}: accepted")
    assert wrong == []


def test_broken_network_is_never_loaded(make: Callable[..., Path]) -> None:
    content = attention_network(table())
    wrong = []
    for place in range(0, len(content), 7):
        broken = bytearray(content)
        broken[place] ^= 0x80
        try:
            embed(make(bytes(broken))).embed_query("sea")
        except (ModelUnavailable, ProviderBadReply, InvalidConfiguration):
            pass
        except Exception as error:
            wrong.append((place, repr(error)))
    assert wrong == []


def test_network_with_unknown_inputs_is_refused(make: Callable[..., Path]) -> None:
    content = attention_network(table(), types=True).replace(b"token_type_ids", b"pixel__values_")

    with pytest.raises(ModelUnavailable, match="needs the input 'pixel__values_'"):
        embed(make(content)).embed_query("sea")


def test_oversized_model_file_is_refused_unread(
    make: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(onnx, "_NETWORK_LIMIT", 100)
    with pytest.raises(ModelUnavailable, match="has more than"):
        assert embed(make()).profile


# Runs


def test_network_is_loaded_for_the_first_text(folder: Path) -> None:
    own = embed(folder)

    assert own.embed_documents([]) == []
    assert own.profile.id
    assert own._loaded is None
