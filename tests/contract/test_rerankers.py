"""Rerankers on this machine: a tiny network in ONNX format that onnxruntime really runs."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.contract.keyed_parts import PASSAGES
from tests.promises import proves
from tests.support.onnx_maker import reranker_folder
from tests.support.providers.clock import PassingClock
from truespan.core.cancel import CancelToken, use_cancel_token
from truespan.errors import Interrupted, ModelUnavailable, ProviderUnavailable
from truespan.protocols import Reranker
from truespan.providers.rerank import OnnxReranker

QUERY = "Which mould killed bacteria in a dish in 1928?"
SECONDS = 30.0


class TickingClock(PassingClock):
    """A clock that advances by a second at every call, once `ticking` is set."""

    ticking = False

    def monotonic(self) -> float:
        self.time += 1.0 if self.ticking else 0.0
        return self.time


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return reranker_folder(tmp_path_factory.mktemp("models") / "tiny")


def onnx_reranker(folder: Path, **changes: Any) -> OnnxReranker:
    given: dict[str, Any] = {"clock": PassingClock(), "seconds": SECONDS, "threads": 2}
    return OnnxReranker(folder, **given | changes)


@proves("rerank.order")
def test_a_cross_encoder_scores_each_text_independently_of_the_others(folder: Path) -> None:
    reranker: Reranker = onnx_reranker(folder)

    together = reranker.scores(QUERY, PASSAGES)

    assert reranker.name == "onnx/tiny"
    assert together == [reranker.scores(QUERY, [text])[0] for text in PASSAGES]
    assert max(together) == together[0]
    assert reranker.scores(QUERY, PASSAGES[::-1]) == together[::-1]


def test_long_texts_are_cut_and_special_tokens_are_plain_text(folder: Path) -> None:
    reranker = onnx_reranker(folder)

    long, longer = reranker.scores("dish", ["dish " * 600, "dish " * 700])
    spelled, plain = reranker.scores("[SEP] dish", ["[SEP]", "nothing"])

    assert long == longer
    # The only separator that a query and a text share is the one after each of them.
    assert plain == 1
    assert spelled > plain + 1


def test_input_limit_is_read_from_the_tokenizer_settings(tmp_path: Path) -> None:
    folder = reranker_folder(tmp_path / "short")
    text = "dish " * 100
    [usual] = onnx_reranker(folder).scores("dish", [text])
    (folder / "tokenizer_config.json").write_text(json.dumps({"model_max_length": 24}))
    [short] = onnx_reranker(folder).scores("dish", [text])
    (folder / "tokenizer_config.json").write_text(json.dumps({"model_max_length": 1e30}))
    [again] = onnx_reranker(folder).scores("dish", [text])

    assert short < usual == again


def test_folder_without_a_usable_model_is_refused_by_name(tmp_path: Path) -> None:
    missing, empty = tmp_path / "missing", tmp_path / "empty"
    empty.mkdir()
    broken = reranker_folder(tmp_path / "broken")
    (broken / "model.onnx").write_bytes(b"no network")
    wordless = reranker_folder(tmp_path / "wordless")
    (wordless / "tokenizer.json").write_text("{}")
    several = reranker_folder(tmp_path / "several", numbers=3)
    for folder, said in (
        (missing, "There is no model folder"),
        (empty, "does not hold model.onnx"),
        (broken, "is not an ONNX network"),
        (wordless, "is not a valid tokenizer"),
        (several, "does not give one score"),
    ):
        with pytest.raises(ModelUnavailable, match=said):
            onnx_reranker(folder).scores(QUERY, PASSAGES)


@proves("rerank.failure")
def test_slow_model_ends_at_the_deadline(folder: Path) -> None:
    clock = TickingClock()
    reranker = onnx_reranker(folder, clock=clock, seconds=2.5)
    assert len(reranker.scores(QUERY, PASSAGES)) == 3
    clock.ticking = True

    with pytest.raises(ProviderUnavailable, match="did not finish in time"):
        reranker.scores(QUERY, PASSAGES)


@proves("rerank.failure")
def test_a_cancelled_request_ends_the_runs_of_a_model(folder: Path) -> None:
    token = CancelToken()
    token.cancel()

    with use_cancel_token(token), pytest.raises(Interrupted):
        onnx_reranker(folder).scores(QUERY, PASSAGES)
