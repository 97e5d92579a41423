"""A chat model that a user finds, tests and connects: in code, on the command line, over HTTP."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import truespan
from tests.interfaces.http_client import serve_library
from tests.promises import proves
from tests.support.providers.chat import KEY, OllamaChatServer, OpenAiChatServer
from truespan.cli import run
from truespan.errors import InvalidConfiguration, NotAllowed, ProviderRefused, ServiceError
from truespan.extensions.server import chat_servers
from truespan.extensions.server.chat_servers import ChatConnection
from truespan.extensions.server.http.auth import AuthPolicy
from truespan.extensions.server.http.server import ServerOptions
from truespan.types.token import Secret

MODEL = "tide-teller"
OWN_LINES = "# My settings\n[usage]\ndays = 7\n\n[chat]\nmax_tokens = 500\n"


@pytest.fixture(autouse=True)
def library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("TRUESPAN_LIBRARY", "TRUESPAN_WORLD", "OPENAI_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    folder = tmp_path / "library"
    truespan.open(folder, create=True).close()
    return folder


@pytest.fixture
def ollama(monkeypatch: pytest.MonkeyPatch) -> Iterator[OllamaChatServer]:
    """Run Ollama at its usual address, and nothing at that of LM Studio."""
    with OpenAiChatServer() as ended:
        unused = ended.base
    with OllamaChatServer() as server:
        found = ("Ollama", "ollama", server.base), ("LM Studio", "openai", unused)
        monkeypatch.setattr(chat_servers, "USUAL_SERVERS", found)
        yield server


@pytest.fixture
def openai() -> Iterator[OpenAiChatServer]:
    """Run a server with the protocol of OpenAI that demands a key."""
    with OpenAiChatServer() as server:
        allowed = f"Bearer {KEY}"
        server.fault = lambda asked: (
            None
            if asked.headers.get("authorization") == allowed
            else server.complaint(401, "no key")
        )
        yield server


def connection(server: OllamaChatServer | OpenAiChatServer, **changes: Any) -> ChatConnection:
    provider = "ollama" if isinstance(server, OllamaChatServer) else "openai"
    given = {"provider": provider, "base_url": server.base, "model": MODEL, **changes}
    return ChatConnection(**given)


@proves("models.connect")
def test_found_model_is_connected_and_kept(library: Path, ollama: OllamaChatServer) -> None:
    (library / "truespan.toml").write_text(OWN_LINES)
    with truespan.open(library) as opened:
        world = opened.world(create=True)
        world.add_text("The tide comes in twice a day.", id="tide")
        assert ollama.asked == []
        [server] = opened.models.servers.find()
        assert (server.name, server.base_url, server.models) == ("Ollama", ollama.base, [MODEL])

        tested = opened.models.servers.connect(connection(ollama))

        assert tested.model == opened.models.chat == f"ollama/{MODEL}"
        assert tested.reply.startswith("The tide comes in")
        answer = world.answer("How often does the tide come in?")
        assert answer.answer.startswith("The tide comes in twice a day.")
        assert answer.decision_explain["used_llm"] == "primary"
    assert (library / "truespan.toml").read_text() == OWN_LINES
    assert MODEL in (library / "chat.toml").read_text()
    with truespan.open(library) as opened:
        assert opened.models.chat == f"ollama/{MODEL}"
        opened.models.servers.disconnect()
        assert opened.models.chat is None
    assert not (library / "chat.toml").exists()


@proves("models.connect")
def test_key_is_kept_in_a_file_of_its_owner(library: Path, openai: OpenAiChatServer) -> None:
    with truespan.open(library) as opened:
        servers = opened.models.servers
        with pytest.raises(ProviderRefused):
            servers.describe(openai.base)
        assert servers.describe(f"{openai.base}/", key=KEY).models == [MODEL]
        servers.connect(connection(openai, key=Secret(KEY)))
    file = library / "chat.key"
    assert file.stat().st_mode & 0o777 == 0o600
    assert file.read_text() == KEY
    assert KEY not in (library / "chat.toml").read_text()
    with truespan.open(library) as opened:
        # The key is sent for this model only, and only the kept file has it.
        assert opened.models.servers.connect(connection(openai, key=Secret(KEY))).reply
        opened.models.servers.disconnect()
    assert not file.exists()


def test_model_that_does_not_reply_changes_nothing(library: Path, openai: OpenAiChatServer) -> None:
    with truespan.open(library) as opened:
        with pytest.raises(ServiceError):
            opened.models.servers.connect(connection(openai, key=Secret("wrong")))
        assert opened.models.chat is None
    assert not (library / "chat.toml").exists()
    assert not (library / "chat.key").exists()


@pytest.mark.parametrize("variable", [True, False], ids=["variable", "file"])
def test_other_chat_settings_are_never_overwritten(
    library: Path, ollama: OllamaChatServer, monkeypatch: pytest.MonkeyPatch, variable: bool
) -> None:
    lines = 'chat_provider = "ollama"\nchat_model = "mine"\n'
    if variable:
        monkeypatch.setenv("TRUESPAN_CHAT_PROVIDER", "ollama")
        monkeypatch.setenv("TRUESPAN_CHAT_MODEL", "mine")
    else:
        (library / "truespan.toml").write_text(lines)
    with (
        truespan.open(library) as opened,
        pytest.raises(InvalidConfiguration, match="chat_provider") as refusal,
    ):
        opened.models.servers.connect(connection(ollama))
    place = "TRUESPAN_CHAT_PROVIDER" if variable else "line 1"
    assert place in str(refusal.value)
    assert variable or (library / "truespan.toml").read_text() == lines


def test_commands_find_connect_and_disconnect(
    library: Path, ollama: OllamaChatServer, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["models", "find", "-L", str(library)]) == 0
    assert f"Ollama at {ollama.base}\n  {MODEL}\n" in capsys.readouterr().out
    assert run(["models", "connect", "other", "-L", str(library)]) == 2
    assert f"Models found: {MODEL}." in capsys.readouterr().err
    assert run(["models", "connect", MODEL, "-L", str(library)]) == 0
    assert "now writes the answers" in capsys.readouterr().out
    assert run(["models", "find", "-L", str(library), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["current"] == f"ollama/{MODEL}"
    assert run(["models", "disconnect", "-L", str(library), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"current": None}


def test_command_reads_the_key_from_a_file(
    library: Path, openai: OpenAiChatServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "key.txt"
    file.write_text(f"{KEY}\n")
    command = ["models", "connect", MODEL, "-L", str(library), "--url", openai.base]
    assert run([*command, "--key-file", str(tmp_path / "absent")]) == 2
    assert run([*command, "--key-file", str(file)]) == 0
    shown = capsys.readouterr()
    assert KEY not in shown.out + shown.err


@proves("models.connect")
def test_http_connects_for_the_owner_only(library: Path, openai: OpenAiChatServer) -> None:
    body = {"provider": "openai", "base_url": openai.base, "model": MODEL, "key": KEY}
    with truespan.open(library) as opened:
        with serve_library(opened) as client:
            current = client.json("GET", "/v1/chat-model").content
            assert current == {"model": None, "may_connect": True}
            tested = client.json("PUT", "/v1/chat-model", body | {"keep": False})
            assert tested.content["kept"] is False
            assert client.json("GET", "/v1/chat-model").content["model"] is None
            kept = client.json("PUT", "/v1/chat-model", body)
            assert kept.content["kept"] is True
            assert KEY.encode() not in kept.everything()
            assert client.json("GET", "/v1/chat-model").content["model"] == f"openai/{MODEL}"
            wrong = client.json("PUT", "/v1/chat-model", body | {"key": "wrong"})
            assert wrong.code == "provider_refused"
            assert client.json("DELETE", "/v1/chat-model").content["model"] is None
        opened.world(create=True)
        verbs = ["read", "follow", "write", "administer"]
        secret = opened.tokens.create("all", worlds="main", verbs=verbs)[1].reveal()
        policy = ServerOptions(auth=AuthPolicy(needs_token=True))
        openai.asked.clear()
        with serve_library(opened, policy) as client:
            assert client.json("PUT", "/v1/chat-model", body, token=secret).code == "not_allowed"
            found = client.json("POST", "/v1/chat-servers", {}, token=secret)
            assert found.code == "not_allowed"
            current = client.json("GET", "/v1/chat-model", token=secret).content
            assert current == {"model": None, "may_connect": False}
    assert openai.asked == []


def test_passed_chat_models_cannot_be_replaced(library: Path, ollama: OllamaChatServer) -> None:
    from truespan.protocols import ChatModels
    from truespan.wiring import open_library

    with open_library(library, chat=ChatModels()) as opened, pytest.raises(NotAllowed):
        opened.models.servers.connect(connection(ollama))
