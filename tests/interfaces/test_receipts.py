"""Signed receipts over HTTP and on the command line: the reply has them, and they are valid."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.interfaces.http_client import serve_library
from tests.promises import proves
from tests.support.receipts import GUIDE, signing_world
from tests.support.worlds import make_library
from truespan.cli import run
from truespan.proof.verify import EXIT_CODES, verify

QUERY = "Where did the brass key hang?"


@proves("proof.receipts")
def test_http_replies_have_receipts_if_they_are_requested(tmp_path: Path) -> None:
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
    lib.library.close()


@proves("proof.receipts")
def test_header_accept_signature_asks_for_a_receipt(tmp_path: Path) -> None:
    lib, world = signing_world(tmp_path)
    world.reader("ann").set_position("guide.md", sentence=3)
    accept = [("accept-signature", "truespan=()")]

    with serve_library(lib.library) as client:
        keys = client.json("GET", "/v1/keys").content
        for path in ("search", "retrieve", "answer", "readers/ann/retrieve", "readers/ann/answer"):
            where = f"/v1/worlds/world/{path}"
            reply = client.json("POST", where, {"query": QUERY}, headers=accept).content
            verify(json.dumps(reply["signed_receipt"]), keys)
        worlds = client.json("GET", "/v1/worlds", headers=accept)
        assert worlds.status == 200
    lib.library.close()


@proves("proof.receipts")
def test_http_signs_exports_deletions_and_evaluations(tmp_path: Path) -> None:
    lib, _ = signing_world(tmp_path)
    golden = f"- query: {QUERY}\n  phrases: [seventh hook]\n"
    at = "/v1/worlds/world"

    with serve_library(lib.library) as client:
        keys = client.json("GET", "/v1/keys").content

        def check(reply: Any, operation: str) -> dict[str, Any]:
            verified = verify(json.dumps(reply.pop("signed_receipt")), keys)
            assert verified.claims["operation"] == operation
            return json.loads(verified.texts[0])

        body = {"golden": golden, "signed": True}
        report = client.json("POST", f"{at}/evaluate", body).content
        assert check(report, "evaluation")["title"] == report["title"]
        begun = client.json("POST", f"{at}/conversations", {"query": QUERY}).content
        one = f"{at}/conversations/{begun['conversation']['id']}/export"
        plain = client.json("GET", one).content
        assert "signed_receipt" not in plain
        assert check(client.json("GET", f"{one}?signed=true").content, "conversation") == plain
        for path in (f"{at}/documents/other.md", at):
            key = [("idempotency-key", path)]
            deleted = client.json("DELETE", f"{path}?signed=true", headers=key).content
            assert check(deleted, "deletion") == deleted
            again = client.json(
                "DELETE", f"{path}?signed=true", headers=[*key, ("accept-signature", "a=()")]
            )
            assert again.status == 422
    lib.library.close()


@proves("proof.keys")
def test_http_refuses_to_sign_without_a_key_and_deletes_nothing(tmp_path: Path) -> None:
    lib = make_library(tmp_path)
    lib.world(guide__md=GUIDE)
    golden = f"- query: {QUERY}\n  phrases: [seventh hook]\n"
    at = "/v1/worlds/world"
    asked: list[tuple[str, str, Any]] = [
        ("POST", f"{at}/evaluate", {"golden": golden, "signed": True}),
        ("DELETE", f"{at}/documents/guide.md?signed=true", None),
        ("DELETE", f"{at}?signed=true", None),
    ]

    with serve_library(lib.library) as client:
        for method, path, body in asked:
            assert client.json(method, path, body).content["code"] == "signing_key_missing"
        assert len(client.json("GET", f"{at}/documents").content["documents"]) == 1
    lib.library.close()


@proves("proof.verified")
def test_commands_sign_and_verify(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TRUESPAN_WORLD", raising=False)
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
