"""A configured reranker through library, command line, HTTP and MCP."""

import json
from pathlib import Path
from typing import Any

import pytest

import truespan
from tests.interfaces.clients import CliInterface, HttpInterface, LibraryInterface, McpInterface
from tests.interfaces.http_client import serve_library
from tests.promises import proves
from tests.support.onnx_maker import reranker_folder
from truespan.cli import run

QUESTION = "Who had the key to the tower?"
REQUESTS: list[tuple[str, dict[str, Any]]] = [
    ("search", {"query": QUESTION, "top_k": 2}),
    ("retrieve", {"query": QUESTION, "top_k": 2}),
    ("read", {"query": QUESTION, "reader": "ann", "top_k": 2}),
    ("answer", {"query": QUESTION}),
    ("read_answer", {"query": QUESTION, "reader": "ann"}),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return reranker_folder(tmp_path_factory.mktemp("models") / "tiny")


@pytest.fixture(autouse=True)
def configured(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRUESPAN_RERANK_KIND", "onnx")
    monkeypatch.setenv("TRUESPAN_RERANK_MODEL", str(folder))


@proves("rerank.order")
def test_every_interface_reranks_in_the_same_way(
    library: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with truespan.open(library) as opened, serve_library(opened) as client:
        interfaces = [
            LibraryInterface(opened),
            CliInterface(library, capsys),
            HttpInterface(client),
            McpInterface(opened),
        ]
        for operation, given in REQUESTS:
            found = {}
            for interface in interfaces:
                found[interface.name] = interface.ask(operation, given | {"rerank": True})
            first = found["library"]
            assert first is not None
            assert first.code is None
            assert {name for name, one in found.items() if one not in (None, first)} == set()
            value = first.value
            report = value.get("rerank") or value.get("metadata", {}).get("rerank")
            if "answer" in operation:
                assert value["retrieved_chunks_metadata"][0]["rerank"]["model"] == "onnx/tiny"
            else:
                assert report["model"] == "onnx/tiny"
                assert report["failure"] is None


def test_command_line_explains_the_new_order(library: Path, capsys: pytest.CaptureFixture[str]):
    words = ["search", QUESTION, "--world", "w", "-k", "2", "--library", str(library)]
    assert run([*words, "-o", "rerank=false"]) == 0
    assert "rerank" not in capsys.readouterr().out

    assert run([*words, "-o", "rerank=true"]) == 0
    told = " ".join(capsys.readouterr().out.split())
    assert "onnx/tiny reranked" in told
    assert ", was " in told


def test_the_status_of_a_world_names_the_reranker(
    library: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["status", "--world", "w", "--library", str(library)]

    assert run([*words, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["reranker"] == "onnx/tiny"
    assert run(words) == 0
    assert "by onnx/tiny" in capsys.readouterr().out


@proves("rerank.failure")
def test_doctor_names_the_reranker_and_checks_it(
    library: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def check() -> tuple[str, str]:
        with truespan.open(library) as opened:
            checks = opened._components.check_environment()
        [found] = [check for check in checks if check.name == "reranker"]
        return found.verdict.value, found.says

    assert check() == ("ok", "reranker onnx/tiny answers")
    monkeypatch.setenv("TRUESPAN_RERANK_MODEL", str(folder / "absent"))
    verdict, says = check()
    assert verdict == "problem"
    assert "There is no model folder" in says
    monkeypatch.delenv("TRUESPAN_RERANK_MODEL")
    monkeypatch.delenv("TRUESPAN_RERANK_KIND")
    assert check() == ("ok", "none: results are in the order of retrieval")
