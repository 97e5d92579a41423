"""`truespan config`: every setting, its value and where it comes from, without secrets."""

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest

from tests.promises import proves
from truespan.cli import run
from truespan.settings import explain_settings, read_settings
from truespan.settings.catalogue import SHARED_NAMES, all_types, descriptions
from truespan.settings.tables import USUAL_VARIABLES, mask_password


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "books"
    made.mkdir()
    return made


def shown(
    folder: Path, capsys: pytest.CaptureFixture[str], *arguments: str
) -> tuple[dict[str, Any], list[Any]]:
    capsys.readouterr()
    assert run(["config", "-L", str(folder), "--json", *arguments]) == 0
    result = json.loads(capsys.readouterr().out)
    return {entry["name"]: entry for entry in result["settings"]}, result["keys"]


@proves("settings.sources-shown")
def test_every_setting_is_shown_with_its_source(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "truespan.toml").write_text(
        "# ours\nusage_days = 30\npictures_max_mib = 3\n\n[rerank]\n"
        'kind = "onnx"\nmodel = "models/tiny"\n\n[embedding]\nprovider = "ollama"\n'
        'model = "bge"\n'
    )
    monkeypatch.delenv("TRUESPAN_WORLD_DEFAULTS", raising=False)
    for name, value in {
        "TRUESPAN_PICTURES_MAX_MIB": "5",
        "OLLAMA_BASE_URL": "http://a",
        "TRUESPAN_OLLAMA_BASE_URL": "http://b",
        "TRUESPAN_STORE_OWNER_URL": "postgresql://ann:unseen@db/x",
        "OPENAI_API_KEY": "sk-unseen",
    }.items():
        monkeypatch.setenv(name, value)

    settings, keys = shown(folder, capsys)

    assert set(settings) == set(all_types())
    places = {
        name: (entry["value"], entry["source"], entry["place"], entry["overridden"])
        for name, entry in shown(folder, capsys, "--changed")[0].items()
    }
    own = "TRUESPAN_OLLAMA_BASE_URL"
    owner = "postgresql://ann:***@db/x"
    assert places == {
        "usage_days": (30, "file", "truespan.toml, line 2", []),
        "pictures_max_mib": (
            5, "variable", "TRUESPAN_PICTURES_MAX_MIB", ["truespan.toml, line 3"],
        ),
        "rerank_kind": ("onnx", "file", "truespan.toml, line 6", []),
        "rerank_model": ("models/tiny", "file", "truespan.toml, line 7", []),
        "embedding_provider": ("ollama", "file", "truespan.toml, line 10", []),
        "ollama_model": ("bge", "file", "truespan.toml, line 11", []),
        "ollama_base_url": ("http://b", "variable", own, ["OLLAMA_BASE_URL"]),
        "store_owner_url": (owner, "variable", "TRUESPAN_STORE_OWNER_URL", []),
    }  # fmt: skip
    assert {"provider": "openai", "name": "OPENAI_API_KEY"} in keys

    assert run(["config", "-L", str(folder)]) == 0
    out = capsys.readouterr().out
    assert "OLLAMA_BASE_URL is given too; TRUESPAN_OLLAMA_BASE_URL wins" in out
    assert "unseen" not in out
    assert run(["config", "log_level", "-L", str(folder)]) == 0
    assert "One of: debug, info, warning, error." in capsys.readouterr().out


def test_password_is_masked_in_every_form() -> None:
    for url, masked in {
        "": "",
        "postgresql://db/x": "postgresql://db/x",
        "postgresql://ann@db:5/x": "postgresql://ann@db:5/x",
        "postgresql://ann:se@cret@db:5/x": "postgresql://ann:***@db:5/x",
        "postgresql://db/x?password=secret": "***",
        "host=db password=secret": "***",
        "postgresql://[db:secret": "***",
    }.items():
        assert mask_password(url) == masked


def test_configuration_errors_name_file_line_and_closest_setting(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for text, said in {
        "usage_days = 3\n\nusage_dasy = 5": (
            "There is no setting 'usage_dasy' (in truespan.toml, line 3). "
            "Did you mean 'usage_days'?"
        ),
        "\nusage_days = -1": "The setting usage_days (in truespan.toml, line 2) must be",
        '[rerank]\nkidn = "http"': "There is no setting 'rerank_kidn' (in truespan.toml, line 2). "
        "Did you mean 'rerank_kind'?",
        "[chunking.mine]\nsize = 5\noverlp = 2": "'overlp' (in truespan.toml, line 3). "
        "Did you mean 'overlap'?",
        '[embedding.home]\nprovider = "ollama"\nmodle = "x"': "line 3). Did you mean 'model'?",
        "usage_days = = 3": "line 1",
    }.items():
        (folder / "truespan.toml").write_text(text)

        assert run(["config", "-L", str(folder)]) == 3, text

        err = capsys.readouterr().err
        assert said in err, err
    (folder / "truespan.toml").unlink()
    assert run(["config", "usage_day", "-L", str(folder)]) == 3
    assert "Did you mean 'usage_days'?" in capsys.readouterr().err


def test_written_settings_file_changes_no_setting(folder: Path, capsys: pytest.CaptureFixture[str]):
    assert set(descriptions()) >= set(all_types())

    assert run(["config", "--write", "-L", str(folder)]) == 0

    text = (folder / "truespan.toml").read_text()
    assert tomllib.loads(text) == {}
    assert all(entry.source == "default" for entry in explain_settings(folder, {})[1])
    prefixes = ("query_prefix", "document_prefix")
    kinds = ("onnx", "sentence_transformers")
    unset = ("answer_raw_", *(f"{kind}_{name}" for kind in kinds for name in prefixes))
    every = "\n".join(line.removeprefix("# ") for line in text.splitlines() if " = " in line)
    (folder / "truespan.toml").write_text(every)
    for entry in explain_settings(folder, {})[1]:
        assert entry.source == "file"
        assert entry.value == entry.default or entry.name.startswith(unset), entry
    assert run(["config", "--write", "-L", str(folder)]) == 2
    assert "already exists" in capsys.readouterr().err


def test_own_variables_win_over_the_other_names(folder: Path) -> None:
    for alias, name in SHARED_NAMES.items():
        value = read_settings(folder, {}).value_of(name)
        other, own = {bool: ("0", "1"), int: ("5", "6")}.get(type(value), ("", ""))
        if other:
            found = read_settings(folder, {f"TRUESPAN_{alias}": own, alias: other})
            assert found.value_of(name) == type(value)(int(own)), alias
    for provider, names in USUAL_VARIABLES.items():
        for name in names:
            keys = read_settings(folder, {name: "other", f"TRUESPAN_{name}": "own"}).keys
            assert [(key.provider, key.secret.reveal()) for key in keys] == [(provider, "own")]
