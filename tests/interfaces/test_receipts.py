"""Signed receipts over HTTP and on the command line: present and valid."""

import json
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from tests.interfaces.http_client import serve_library
from tests.interfaces.test_http_answers import events
from tests.promises import proves
from tests.support.answer_worlds import Scripted
from tests.support.receipts import GUIDE, signing_world
from tests.support.worlds import LibraryFixture
from truespan.cli import run
from truespan.engine.library import Library
from truespan.extensions.proof.verify import EXIT_CODES, verify
from truespan.protocols import ChatModels

QUERY = "Where did the brass key hang?"


@proves("proof.receipts")
def test_http_signs_replies_on_request(tmp_path: Path) -> None:
    lib, world = signing_world(tmp_path)
    world.reader("ann").set_position("guide.md", sentence=3)
    paths = ("search", "retrieve", "answer", "readers/ann/retrieve", "readers/ann/answer")

    with serve_library(lib.library) as client:
        keys = client.json("GET", "/v1/keys").content
        for path in paths:
            body: dict[str, Any] = {"query": QUERY}
            plain = client.json("POST", f"/v1/worlds/world/{path}", body).content
            reply = client.json("POST", f"/v1/worlds/world/{path}", body | {"signed": True}).content
            assert "signed_receipt" not in plain
            verified = verify(json.dumps(reply["signed_receipt"]), keys)
            assert verified.claims["operation"] == path.rpartition("/")[2]
            assert bool(verified.claims["documents"]) is ("readers" not in path)
        body = {"query": QUERY, "stream": True, "signed": True}
        *_, (name, finished) = events(client.json("POST", "/v1/worlds/world/answer", body))
        assert name == "finished"
        assert verify(json.dumps(finished["signed_receipt"]), keys).claims["operation"] == "answer"


@proves("proof.keys")
def test_http_refuses_to_sign_without_a_key_and_asks_no_model(lib: LibraryFixture) -> None:
    lib.world(guide__md=GUIDE)
    model = Scripted(["No."])
    library = Library(replace(lib.library._components, chat=ChatModels(model)))
    body = {"query": QUERY, "signed": True}

    with serve_library(library) as client:
        for path in ("search", "retrieve", "answer", "conversations"):
            reply = client.json("POST", f"/v1/worlds/world/{path}", body)
            assert reply.content["code"] == "signing_key_missing", path
    assert model.asked == []


@proves("proof.verified")
def test_commands_sign_and_verify(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    receipt, where = tmp_path / "receipt.json", ["--library", str(tmp_path / "library")]
    (tmp_path / "guide.md").write_text(GUIDE)
    assert run(["init", "--sign", *where]) == 0
    assert run(["ingest", str(tmp_path / "guide.md"), *where]) == 0
    assert run(["search", QUERY, "--sign", str(receipt), *where]) == 0
    capsys.readouterr()

    assert run(["verify", str(receipt), *where]) == 0
    assert capsys.readouterr().out.startswith("Valid. Signed: search of ")
    nowhere = ["--library", str(tmp_path / "elsewhere")]
    assert run(["verify", str(receipt), *nowhere]) == 3
    assert "name the public keys of the library with --keys" in capsys.readouterr().err
    changed = json.loads(receipt.read_text())
    changed["texts"][0] += " "
    receipt.write_text(json.dumps(changed))
    assert run(["verify", str(receipt), "--json", *where]) == EXIT_CODES["text_differs"]
    assert json.loads(capsys.readouterr().out)["failure"] == "text_differs"
