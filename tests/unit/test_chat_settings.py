"""Chat models come from settings, and are loaded only on use."""

import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from tests.support.failures import raises_code
from tests.support.providers.chat import KEY, REPLY, OllamaChatServer, OpenAiChatServer
from truespan.errors import InvalidConfiguration
from truespan.protocols import ChatModel, ChatModels
from truespan.types.answer import Message, Role
from truespan.wiring import open_library

QUESTION = [Message(Role.USER, "Is water wet?")]
OLLAMA = {"chat_provider": "ollama", "chat_model": "tide-teller"}
OPENAI = {"chat_provider": "openai", "chat_model": "tide-teller"}


class Parrot:
    """A custom chat model."""

    name = "own/parrot"

    def stream(self, messages: Sequence[Message]) -> Iterator[str]:
        yield messages[-1].text


def chat_of(folder: Path, **settings: object) -> ChatModels:
    """Return the chat models of a library with these settings in its file."""
    folder.mkdir(exist_ok=True)
    lines = [
        f"{name} = {str(value).lower() if isinstance(value, bool) else repr(value)}"
        for name, value in settings.items()
    ]
    (folder / "truespan.toml").write_text("\n".join(lines), encoding="utf-8")
    with open_library(folder, create=True) as library:
        return library._components.chat


def replied(model: ChatModel | None) -> list[str]:
    assert model is not None
    return list(model.stream(QUESTION))


def test_no_chat_model_is_configured_by_default(tmp_path: Path) -> None:
    assert chat_of(tmp_path) == ChatModels(None, None)


@pytest.mark.parametrize("settings", [
    {"chat_provider": "openai"}, {"chat_provider": "ollama", "chat_model": " "},
    {"chat_model": "llama3"}, {**OLLAMA, "chat_fallback_provider": "openai"},
    {**OLLAMA, "chat_fallback_model": "llama3"},
    {**OLLAMA, "chat_ollama_base_url": "ftp://127.0.0.1"},
    {**OLLAMA, "chat_ollama_base_url": f"http://user:{KEY}@127.0.0.1"},
    {**OPENAI, "chat_openai_base_url": ""},
    {**OPENAI, "chat_openai_base_url": f"http://127.0.0.1/v1?key={KEY}"},
    {**OPENAI, "chat_max_tokens": 0}, {**OPENAI, "chat_timeout_seconds": 0},
    {"chat_provider": "google", "chat_model": "gemini"},
], ids=str)  # fmt: skip
def test_contradictory_chat_settings_fail_when_the_library_opens(
    tmp_path: Path, settings: dict[str, object]
) -> None:
    with pytest.raises(InvalidConfiguration) as refusal:
        chat_of(tmp_path, **settings)
    assert KEY not in str(refusal.value)


def test_chat_model_and_fallback_get_their_configured_requests(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    with OpenAiChatServer() as openai, OllamaChatServer() as ollama:
        chat = chat_of(
            tmp_path, **OPENAI, chat_openai_base_url=openai.base, chat_fallback_provider="ollama",
            chat_fallback_model="tide-teller", ollama_base_url=ollama.base, chat_max_tokens=99,
            chat_ollama_context=1024,
        )  # fmt: skip
        assert openai.connections == ollama.connections == 0

        assert replied(chat.primary) == replied(chat.fallback) == REPLY

        assert openai.asked[0].headers["authorization"] == f"Bearer {KEY}"
        assert openai.questions[0]["max_tokens"] == 99
        assert openai.questions[0]["temperature"] == 0.0
        assert ollama.questions[0]["options"] == {
            "num_predict": 99, "temperature": 0.0, "num_ctx": 1024,
        }  # fmt: skip
    assert chat.primary is not None
    assert chat.primary.name == "openai/tide-teller"


def test_server_that_needs_a_key_gets_no_request_without_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with OpenAiChatServer() as server:
        chat = chat_of(tmp_path, **OPENAI, chat_openai_base_url=server.base)
        with raises_code("credentials_missing"):
            replied(chat.primary)
        assert server.connections == 0


def test_chat_models_of_the_caller_replace_the_configured_ones(tmp_path: Path) -> None:
    own = ChatModels(primary=Parrot())
    with open_library(tmp_path / "library", create=True, chat=own) as library:
        assert replied(library._components.chat.primary) == ["Is water wet?"]


def test_opening_a_library_imports_no_chat_client(tmp_path: Path) -> None:
    """A library without answers loads no chat client, even if a model is configured."""
    chat_of(tmp_path, **OLLAMA)
    look = (
        "import sys, truespan\n"
        f"with truespan.open({str(tmp_path)!r}): pass\n"
        "print([name for name in sys.modules if 'chat' in name and 'providers' in name])\n"
    )

    done = subprocess.run([sys.executable, "-c", look], capture_output=True, text=True, check=True)

    assert done.stdout.strip() == "[]"
