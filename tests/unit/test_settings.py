"""Settings are read in one place and checked when a library is opened."""

from pathlib import Path

import pytest

from tests.promises import proves
from tests.support.rows import each_row
from truespan.errors import InvalidConfiguration, LibraryNotFound
from truespan.settings import default_library, read_settings
from truespan.settings.catalogue import Settings, all_types, base_type
from truespan.settings.tables import convert_setting
from truespan.wiring import open_library


@proves("settings.bad-environment")
@pytest.mark.parametrize("environment", [
    {"EMBEDDING_API_CONCURRENCY": "0"}, {"EMBEDDING_API_CONCURRENCY": "-2"},
    {"EMBEDDING_API_CONCURRENCY": "two"}, {"EMBEDDING_API_CONCURRENCY": ""},
    {"EMBEDDING_API_CONCURRENCY": "1.5"}, {"EMBEDDING_MAX_TOKENS_PER_BATCH": "0"},
    {"EMBEDDING_MAX_TOKENS_PER_BATCH": "-1"}, {"EMBEDDING_MAX_TOKENS_PER_BATCH": "many"},
    {"TRUESPAN_SOURCE_MAX_MIB": "-1"}, {"TRUESPAN_ANSWER_THRESHOLD_LOW": "nan"},
    {"TRUESPAN_ANSWER_THRESHOLD_LOW": "inf"}, {"TRUESPAN_INDEX_IDLE_SECONDS": "0"},
    {"TRUESPAN_NO_SUCH_THING": "1"}, {"TRUESPAN_EMBEDDING_PROVIDER": "oracle"},
    {"TRUESPAN_EMBEDDING_PROVIDER": ""}, {"TRUESPAN_EMBEDDING_PROVIDER": "Ollama"},
    {"OLLAMA_BASE_URL": "ftp://127.0.0.1"}, {"OLLAMA_BASE_URL": "file:///etc/passwd"},
    {"OLLAMA_BASE_URL": "http://"}, {"OLLAMA_BASE_URL": "http://[::1"}, {"OLLAMA_BASE_URL": ""},
    {"TRUESPAN_OLLAMA_BASE_URL": "ws://127.0.0.1"},
    {"TRUESPAN_EMBEDDING_PROVIDER": "ollama", "OLLAMA_BASE_URL": "http://a:b@127.0.0.1"},
    {"TRUESPAN_EMBEDDING_PROVIDER": "ollama", "OLLAMA_BASE_URL": "http://127.0.0.1?a=b"},
    {"TRUESPAN_OLLAMA_MODEL": " "}, {"TRUESPAN_OLLAMA_DIMENSIONS": "-1"},
    {"TRUESPAN_OLLAMA_DIMENSIONS": "all"}, {"TRUESPAN_OLLAMA_DIMENSIONS": "1_000"},
    {"TRUESPAN_OLLAMA_DIMENSIONS": "+768"}, {"TRUESPAN_OLLAMA_DIMENSIONS": "7e2"},
    {"TRUESPAN_OLLAMA_DIMENSIONS": "\u0667"},
], ids=str)  # fmt: skip
def test_invalid_variable_fails_when_the_library_opens(
    tmp_path: Path, environment: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    open_library(tmp_path / "library", create=True).close()
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(InvalidConfiguration) as refusal:
        open_library(tmp_path / "library")
    assert refusal.value.code == "invalid_configuration"


@proves("settings.bad-environment", "embedding.concurrency", "embedding.batch-tokens")
def test_limits_of_the_environment_reach_the_engine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EMBEDDING_API_CONCURRENCY", "5")
    monkeypatch.setenv("EMBEDDING_MAX_TOKENS_PER_BATCH", "1234")
    with open_library(tmp_path / "library", create=True) as library:
        limits = library._components.limits
    assert (limits.in_flight, limits.tokens) == (5, 1234)


def test_environment_wins_over_file_and_file_over_default(tmp_path: Path) -> None:
    (tmp_path / "truespan.toml").write_text("source_max_mib = 7\nusage_days = 9\n")
    settings = read_settings(tmp_path, {"TRUESPAN_SOURCE_MAX_MIB": "8"})
    assert (settings.source_max_mib, settings.usage.days) == (8, 9)
    assert settings.embedding.api_concurrency == Settings().embedding.api_concurrency == 2
    assert settings.embedding.max_tokens_per_batch == 100_000


@proves("ollama.configurable")
def test_embedding_provider_is_local_by_default(tmp_path: Path) -> None:
    settings = read_settings(tmp_path, {})
    assert settings.embedding.provider == "local"
    assert settings.ollama.base_url == "http://127.0.0.1:11434"
    assert settings.ollama.model == "BAAI/bge-base-en-v1.5"
    assert settings.ollama.dimensions == 0


@proves("ollama.configurable")
def test_ollama_is_configured_by_file_or_environment(tmp_path: Path) -> None:
    lines = ["embedding_provider = 'ollama'", "ollama_model = 'bge-m3'", "ollama_dimensions = 256"]
    (tmp_path / "truespan.toml").write_text("\n".join(lines))
    settings = read_settings(tmp_path, {"OLLAMA_BASE_URL": "https://models.example/ollama"})
    assert (settings.embedding.provider, settings.ollama.model) == ("ollama", "bge-m3")
    assert settings.ollama.base_url == "https://models.example/ollama"
    assert settings.ollama.dimensions == 256


def test_tables_give_the_settings_of_a_section(tmp_path: Path) -> None:
    (tmp_path / "truespan.toml").write_text(
        "[http]\nrequests_per_minute = 32\n[chat]\nmodel = 'a'\n[chat.fallback]\nmodel = 'b'\n"
        "[embedding]\nthreads = 3\n"
    )
    settings = read_settings(tmp_path, {"TRUESPAN_CHAT_FALLBACK_MODEL": "c"})
    assert settings.http.requests_per_minute == 32
    assert settings.value_of("http_requests_per_minute") == 32
    assert (settings.chat.model, settings.chat.fallback.model) == ("a", "c")
    assert (settings.embedding.provider, settings.embedding.threads) == ("local", 3)
    assert "http_requests_per_minute" in settings.written


def test_password_in_a_table_is_refused(tmp_path: Path) -> None:
    (tmp_path / "truespan.toml").write_text("[store]\nurl = 'postgresql://ann:unseen@db/x'\n")
    with pytest.raises(InvalidConfiguration, match="contains a password") as refusal:
        read_settings(tmp_path, {})
    assert "unseen" not in str(refusal.value)


@pytest.mark.parametrize("order", [1, -1])
def test_prefixed_variable_wins_over_the_shared_one(tmp_path: Path, order: int) -> None:
    both = [("OLLAMA_BASE_URL", "http://shared"), ("TRUESPAN_OLLAMA_BASE_URL", "http://own")]
    assert read_settings(tmp_path, dict(both[::order])).ollama.base_url == "http://own"


def test_url_of_ollama_needs_no_scheme(tmp_path: Path) -> None:
    read = read_settings(tmp_path, {"OLLAMA_BASE_URL": "127.0.0.1:11434"})
    assert read.ollama.base_url == "http://127.0.0.1:11434"
    (tmp_path / "truespan.toml").write_text("[chat.ollama]\nbase_url = 'models:11434'\n")
    assert read_settings(tmp_path, {}).chat.ollama.base_url == "http://models:11434"
    with pytest.raises(InvalidConfiguration):
        read_settings(tmp_path, {"TRUESPAN_OPENAI_BASE_URL": "127.0.0.1:8000"})


def test_invalid_url_is_not_repeated_in_the_error(tmp_path: Path) -> None:
    with pytest.raises(InvalidConfiguration) as refusal:
        read_settings(tmp_path, {"OLLAMA_BASE_URL": "ftp://user:password@host"})
    assert "password" not in str(refusal.value)


@pytest.mark.parametrize("text", ["source_max_mib = 'x'", "unknown = 1", "not toml", "= 1"])
def test_invalid_settings_file_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "truespan.toml").write_text(text)
    with pytest.raises(InvalidConfiguration):
        read_settings(tmp_path, {})


def test_library_is_created_only_on_request(tmp_path: Path) -> None:
    with pytest.raises(LibraryNotFound):
        open_library(tmp_path / "nowhere")
    assert not (tmp_path / "nowhere").exists()


def test_default_library_is_in_the_data_folder_unless_named() -> None:
    assert default_library({"TRUESPAN_LIBRARY": "/x"}) == Path("/x")
    assert default_library({"XDG_DATA_HOME": "/data"}) == Path("/data/truespan")


NUMBERS = [name for name in all_types() if base_type(name) in (int, float)]


@each_row("value", ["abc", "nan", "inf", "0,5", "1_0", " ", "true", "1e400", "--1"])
def test_number_setting_refuses_other_text(value: str) -> None:
    accepted = []
    for name in NUMBERS:
        try:
            convert_setting(name, value, "a test")
        except InvalidConfiguration:
            continue
        accepted.append(name)
    assert accepted == []


def test_file_in_place_of_a_library_is_named(tmp_path: Path) -> None:
    file = tmp_path / "book.txt"
    file.touch()
    with pytest.raises(InvalidConfiguration) as refused:
        read_settings(file, {})
    assert refused.value.message == f"{file} is a file; a library is a folder."
