"""Deployment files, checked without running their services."""

import json
import re
import shlex
import subprocess
import tomllib
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any, cast

import pytest
import yaml

from tests.promises import proves
from tests.support.docs_reader import sections_of, table_rows
from tests.support.postgres import another_server
from truespan.cli import run
from truespan.cli.app import make_commands
from truespan.extensions.cluster.postgres_server import prepare_store, require_usable, role_of
from truespan.extensions.cluster.qdrant import NEWEST, OLDEST, SUPPORTED
from truespan.extensions.cluster.queue import prepare_queue
from truespan.providers.ollama import to_pull
from truespan.settings import FILE_NAME, read_settings
from truespan.settings.catalogue import Settings
from truespan.types.token import Secret

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "compose.yaml").read_text("utf-8"))
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
OURS = {name: one for name, one in SERVICES.items() if one["image"].startswith("truespan:")}
VARIABLE = re.compile(r"\$\{(\w+)(?:(:[-?])(.*?))?\}")
VERSION = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["version"]


def each(services: dict[str, dict[str, Any]]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("name", services)


def waits_for(name: str) -> dict[str, str]:
    needed = SERVICES[name].get("depends_on", {})
    return {other: entry["condition"] for other, entry in needed.items()}


ONCE = {
    other
    for name in SERVICES
    for other, condition in waits_for(name).items()
    if condition == "service_completed_successfully"
}
"""Services that do one thing and end: whoever needs them waits until they have."""


def resolved(value: Any, **given: str) -> str:
    """Return a value as compose reads it, with the given variables, and defaults for all others."""

    def read(found: re.Match[str]) -> str:
        return given.get(found[1]) or (found[3] if found[2] == ":-" else f"<{found[1]}>")

    return VARIABLE.sub(read, str(value)).replace("$$", "$")


def as_run(name: str, folder: Path) -> Settings:
    """Read the settings of a container, with secrets where this machine can have them."""
    secrets = folder / "secrets"
    secrets.mkdir()
    for secret in SERVICES[name]["secrets"]:
        (secrets / secret).write_text("something", encoding="utf-8")

    def moved(text: str) -> str:
        return text.replace("/run/secrets", str(secrets))

    (folder / FILE_NAME).write_text(moved((DEPLOY / FILE_NAME).read_text("utf-8")), "utf-8")
    variables = {key: moved(resolved(value)) for key, value in environment(name).items()}
    return read_settings(folder, variables)


def environment(name: str) -> dict[str, str]:
    return SERVICES[name].get("environment", {})


# Every service


@each(SERVICES)
def test_every_service_has_one_version(name: str) -> None:
    image, _, tag = SERVICES[name]["image"].rpartition(":")
    assert image
    assert re.fullmatch(r"v?\d+\.\d+(\.\d+)?(-[a-z]+)?", tag)


@each(SERVICES)
def test_every_long_running_service_is_checked_and_restarted(name: str) -> None:
    service = SERVICES[name]
    if name in ONCE:
        assert service["restart"] == "no"
        return
    assert service["restart"] == "unless-stopped"
    assert service["healthcheck"]["test"][0] == "CMD"
    assert {"interval", "timeout", "retries", "start_period"} <= service["healthcheck"].keys()


@each(SERVICES)
def test_every_service_has_limits_and_writes_only_to_its_volumes(name: str) -> None:
    service = SERVICES[name]
    assert {"cpus", "memory", "pids"} <= service["deploy"]["resources"]["limits"].keys()
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert any(place.startswith("/tmp:") for place in service["tmpfs"])
    assert "privileged" not in service


@each(SERVICES)
def test_dependencies_of_every_service_can_be_met(name: str) -> None:
    for other, condition in waits_for(name).items():
        if condition == "service_healthy":
            assert "healthcheck" in SERVICES[other]
        else:
            assert other in ONCE
        assert name != other
        assert name not in waits_for(other)


def test_only_the_api_is_published_and_only_to_this_machine() -> None:
    published = {name: one["ports"] for name, one in SERVICES.items() if "ports" in one}
    assert published.keys() == {"api"}
    assert [resolved(port) for port in published["api"]] == ["127.0.0.1:8700:8700"]
    assert COMPOSE["networks"]["back"] == {"internal": True}
    for name, service in SERVICES.items():
        further = set(service["networks"]) - {"back"}
        assert further == {"api": {"front"}, "ollama": {"outside"}}.get(name, set())
        assert "network_mode" not in service


@proves("ollama.compose-service")
def test_ollama_keeps_models_in_a_volume_before_first_use() -> None:
    ollama, pull = SERVICES["ollama"], SERVICES["ollama-model"]
    volume, folder = ollama["volumes"][0].split(":")

    assert ollama["image"] == pull["image"]
    assert folder == "/root/.ollama"
    assert COMPOSE["volumes"][volume] == {}
    assert pull["entrypoint"] == ["ollama", "pull"]
    assert waits_for("ollama-model") == {"ollama": "service_healthy"}
    for name in ("api", "worker"):
        assert waits_for(name)["ollama-model"] == "service_completed_successfully"
    # The name that is pulled and the one that is asked for are one model, chosen or not.
    asked = environment("api")["TRUESPAN_OLLAMA_MODEL"]
    for given in ({}, {"OLLAMA_MODEL": "embeddinggemma"}):
        assert resolved(pull["command"][0], **given) == to_pull(resolved(asked, **given))
    assert resolved(asked) == Settings().ollama.model
    port = Settings().ollama.base_url.rpartition(":")[2]
    assert environment("ollama-model")["OLLAMA_HOST"] == f"http://ollama:{port}"


def test_persistent_data_is_in_named_volumes() -> None:
    kept = {
        "postgres": "/var/lib/postgresql", "qdrant": "/qdrant/storage", "ollama": "/root/.ollama",
        "api": "/library", "worker": "/library",
    }  # fmt: skip
    for name, folder in kept.items():
        mounted = dict(one.split(":")[:2][::-1] for one in SERVICES[name]["volumes"])
        assert mounted[folder] in COMPOSE["volumes"]
        assert not any(place.startswith(folder + ":") for place in SERVICES[name]["tmpfs"])
    used = {one.split(":")[0] for entry in SERVICES.values() for one in entry.get("volumes", [])}
    assert {one for one in used if one[0] != "."} == COMPOSE["volumes"].keys()
    assert not any(COMPOSE["volumes"].values()), "no driver of memory, none from elsewhere"


# Secrets


def test_no_file_contains_a_password() -> None:
    secret = re.compile(r"PASSWORD|SECRET|TOKEN|_KEY$|API_KEY|_URL$", re.ASCII)
    for name in SERVICES:
        for variable, value in environment(name).items():
            plain = str(value).startswith("http://") and "@" not in str(value)
            assert plain or variable.endswith("_FILE") or not secret.search(variable)
    whole = (ROOT / "compose.yaml").read_text("utf-8") + (ROOT / "Dockerfile").read_text("utf-8")
    assert "postgresql://" not in whole
    assert not re.search(r"[0-9a-f]{32}", whole)


def test_secrets_are_mounted_only_where_they_are_needed() -> None:
    for secret, entry in COMPOSE["secrets"].items():
        found = VARIABLE.match(entry["file"])
        assert found is not None
        assert (found[1], found[2]) == ("SECRETS_FOLDER", ":?")
        assert "make-secrets.sh" in found[3]
        assert entry["file"].endswith("/" + secret.replace("_", "-"))
    holders = {
        secret: {name for name, one in SERVICES.items() if secret in one.get("secrets", [])}
        for secret in COMPOSE["secrets"]
    }
    assert holders == {
        "postgres_password": {"postgres"},
        "store_url": {"api", "worker", "prepare", "postgres"},
        "store_owner_url": {"prepare", "postgres"},
        "qdrant_key": {"api", "worker", "prepare", "qdrant"},
    }


def test_every_variable_of_the_compose_file_is_explained_and_has_no_value() -> None:
    lines = (ROOT / ".env.example").read_text("utf-8").splitlines()
    named = {line.partition("=")[0] for line in lines if line and line[0] != "#"}
    text = (ROOT / "compose.yaml").read_text("utf-8")
    assert all(line.endswith("=") for line in lines if line and line[0] != "#")
    assert named == {found[1] for found in VARIABLE.finditer(text)}
    assert ".env" in (ROOT / ".gitignore").read_text("utf-8").splitlines()


def test_created_secrets_are_private_and_never_replaced(tmp_path: Path) -> None:
    folder = tmp_path / "secrets"
    made = subprocess.run(
        [DEPLOY / "make-secrets.sh", folder], check=True, capture_output=True, text=True
    )
    files = {path.name: path.read_text() for path in folder.iterdir()}

    assert files.keys() == {entry["file"].rpartition("/")[2] for entry in secrets_of_compose()}
    assert folder.stat().st_mode & 0o777 == 0o700
    assert all(found not in made.stdout for found in files.values())
    assert len({re.findall(r"[0-9a-f]{64}", text)[0] for text in files.values()}) == 4
    again = subprocess.run([DEPLOY / "make-secrets.sh", folder], capture_output=True, check=False)
    assert again.returncode != 0
    assert {path.name: path.read_text() for path in folder.iterdir()} == files


def secrets_of_compose() -> Iterator[dict[str, str]]:
    yield from COMPOSE["secrets"].values()


def test_created_roles_can_prepare_and_use_a_store(tmp_path: Path) -> None:
    running = another_server()
    subprocess.run([DEPLOY / "make-secrets.sh", tmp_path / "made"], check=True, capture_output=True)
    mounted = tmp_path / "mounted"
    mounted.mkdir()
    for name in ("store_url", "store_owner_url"):
        kept = tmp_path / "made" / name.replace("_", "-")
        (mounted / name).write_text(kept.read_text())

    statements = said_to_psql(tmp_path, mounted)
    urls = [Secret((mounted / name).read_text()) for name in ("store_url", "store_owner_url")]
    application, owner = (role_of(url) for url in urls)
    with running.admin() as admin:
        for statement in statements:
            admin.execute(cast("Any", statement))
    prepared = prepare_store(running.url("truespan", owner), application, also=prepare_queue)
    assert prepared.now > 0
    require_usable(running.url("truespan", application))


def said_to_psql(folder: Path, mounted: Path) -> list[str]:
    """Run the script of the roles with a psql that records its input."""
    (folder / "psql").write_text(f'#!/bin/sh\necho "$@" >{folder}/given\ncat >{folder}/said\n')
    (folder / "psql").chmod(0o755)
    subprocess.run(
        [DEPLOY / "postgres" / "10-roles.sh"],
        env={"PATH": f"{folder}:/usr/bin:/bin", "SECRETS_MOUNT": str(mounted)},
        check=True,
        capture_output=True,
    )
    said = (folder / "said").read_text()
    passwords = re.findall(r"PASSWORD '(\w+)'", said)
    assert len(set(passwords)) == 2
    # What stands in arguments can be seen by everybody on the machine.
    assert all(password not in (folder / "given").read_text() for password in passwords)
    return [one.strip() for one in said.split(";") if one.strip()]


# Truespan's own services


@each(OURS)
def test_every_variable_is_a_valid_setting(name: str, tmp_path: Path) -> None:
    settings = as_run(name, tmp_path)
    assert settings.store.url_file.endswith("/store_url")
    assert settings.index.url == "http://qdrant:6333"
    assert [key.provider for key in settings.keys] == ["qdrant"]
    assert settings.embedding.provider == "ollama"
    assert bool(settings.store.owner_url_file) == (name == "prepare")


@each(OURS)
def test_every_command_exists_with_its_options(name: str) -> None:
    require_command([resolved(one) for one in OURS[name]["command"]])
    check = OURS[name].get("healthcheck", {}).get("test", ["CMD"])
    if check[1:2] == ["truespan"]:
        require_command(check[2:])


def test_every_command_of_the_guides_exists_with_its_options() -> None:
    found: list[str] = []
    for page in ("deployment.md", "maintenance.md"):
        text = (ROOT / "docs" / page).read_text("utf-8")
        found += re.findall(r"(?m)^docker compose run .*", text)
        found += re.findall(r"`(docker compose run [^`]*)`", text)
    commands = 0
    for line in found:
        words = shlex.split(line)[3:]
        while words[0].startswith("--"):
            words = words[1 + (words[0] == "--volume") :]
        assert words[0] in OURS, line
        if given := words[1:]:
            require_command(given)
            commands += 1
    assert commands >= 6


def require_command(words: list[str]) -> None:
    """Parse the arguments without running the command."""
    # Its commands are known once it has run.
    assert run(["--version"]) == 0
    command, rest = cast("Any", make_commands()), [*words]
    while hasattr(command, "commands"):
        command = command.commands[rest.pop(0)]
    context = command.make_context(words[0], rest, resilient_parsing=False)
    assert not context.args


def test_api_requires_a_token_on_every_published_address() -> None:
    assert "--require-token" in SERVICES["api"]["command"]
    assert "--require-token" in json.loads(dockerfile()[-1].rpartition("CMD ")[2])
    assert SERVICES["api"]["healthcheck"]["test"][-1].count("/ready") == 1


# The image


def dockerfile() -> list[str]:
    """Return the instructions, each on one line."""
    text = (ROOT / "Dockerfile").read_text("utf-8")
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    return [one for one in "\n".join(lines).replace("\\\n", " ").splitlines() if one.strip()]


def stages() -> list[list[str]]:
    found: list[list[str]] = []
    for line in dockerfile():
        if line.startswith("FROM "):
            found.append([])
        found[-1].append(line)
    return found


def test_dockerfile_uses_only_known_instructions() -> None:
    known = {
        "FROM", "RUN", "CMD", "LABEL", "EXPOSE", "ENV", "COPY", "ENTRYPOINT", "VOLUME", "USER",
        "WORKDIR", "ARG", "STOPSIGNAL", "HEALTHCHECK",
    }  # fmt: skip
    assert {line.split()[0] for line in dockerfile()} <= known
    for line in dockerfile():
        if line.split()[0] in ("CMD", "ENTRYPOINT"):
            assert all(isinstance(one, str) for one in json.loads(line.partition(" ")[2]))


def test_image_is_built_from_the_lock_on_a_pinned_slim_base() -> None:
    build, last = stages()
    base = build[0].split()[1]
    version = re.fullmatch(r"python:(3\.\d+)\.\d+-slim-[a-z]+", base)
    assert last[0].split()[1] == base
    assert version is not None
    assert version[1] in ("3.11", "3.12", "3.13")
    installs = [line for line in dockerfile() if "pip install" in line]
    assert "--require-hashes" in installs[0]
    assert "lock/server.txt" in installs[0]
    assert all("--no-deps" in line and "--no-index" in line for line in installs[1:])


def test_the_last_stage_has_no_tools_and_a_user_without_rights() -> None:
    last = stages()[-1]
    assert not any(word in line for line in last for word in ("pip install", "apt-get", "curl"))
    assert any("pip uninstall" in line for line in last)
    users = [line.split()[1] for line in last if line.startswith("USER ")]
    assert users == ["10001:10001"] == [one["user"] for one in OURS.values()][:1]
    after = last[last.index(f"USER {users[0]}") :]
    assert not any(line.startswith(("RUN", "COPY")) for line in after)
    assert any(line.startswith("HEALTHCHECK ") for line in last)


def test_copied_and_mounted_files_exist_in_the_build() -> None:
    allowed = [line[1:] for line in ignored() if line.startswith("!")]
    assert ignored()[0] == "*"
    for line in dockerfile():
        if line.startswith("COPY ") and "--from" not in line:
            for source in shlex.split(line)[1:-1]:
                path = source.removeprefix("./")
                assert (ROOT / path).exists()
                assert path in allowed
    binds = [
        one for entry in SERVICES.values() for one in entry.get("volumes", []) if one[0] == "."
    ]
    configs = [entry["file"] for entry in COMPOSE["configs"].values()]
    for path in [*(bind.split(":")[0] for bind in binds), *configs]:
        assert (ROOT / path).exists()
    assert all(bind.endswith(":ro") for bind in binds)


def ignored() -> list[str]:
    lines = (ROOT / ".dockerignore").read_text("utf-8").splitlines()
    return [line for line in lines if line and line[0] != "#"]


def test_image_has_the_version_of_the_package() -> None:
    labels = " ".join(line for line in dockerfile() if line.startswith("LABEL "))
    assert f"ARG VERSION={VERSION}" in dockerfile()
    assert {one["image"] for one in OURS.values()} == {f"truespan:{VERSION}"}
    for name in ("title", "description", "version", "licenses"):
        assert f"org.opencontainers.image.{name}=" in labels


def test_compose_file_follows_the_published_schema() -> None:
    found = find_spec("check_jsonschema")
    if found is None or not found.submodule_search_locations:
        pytest.skip(
            "NO COMPOSE SCHEMA: the package check-jsonschema, which has it, is not installed"
        )
    from jsonschema.validators import validator_for

    folder = Path(found.submodule_search_locations[0]) / "builtin_schemas" / "vendor"
    schema = json.loads((folder / "compose-spec.json").read_text("utf-8"))
    validator = validator_for(schema)(schema)

    assert [error.message for error in validator.iter_errors(COMPOSE)] == []
    wrong = {**COMPOSE, "services": {"api": {"image": "truespan", "healtcheck": {}}}}
    assert [*validator.iter_errors(wrong)], "a misspelt member has to be noticed"


def test_sizing_page_matches_its_formulas() -> None:
    rows = table_rows(sections_of(ROOT / "docs" / "deployment.md")["Sizing"])
    assert len(rows) == 7
    for _, formula, *gigabytes in rows:
        numbers = [float(number) for number in re.findall(r"[\d.]+", formula)]
        fixed, each_number = [*numbers, float("d" in formula)][:2]
        for dimensions, told in zip((384, 768), gigabytes, strict=True):
            digits = len(told.partition(".")[2])
            assert float(told) == round((fixed + each_number * dimensions) / 1000, digits)


def test_settings_package_and_docs_name_the_same_versions_of_the_server() -> None:
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())
    [package] = [
        entry
        for entry in declared["project"]["optional-dependencies"]["server"]
        if entry.startswith("qdrant-client")
    ]
    after = f"{NEWEST[0]}.{NEWEST[1] + 1}"
    assert package == f"qdrant-client>={OLDEST[0]}.{OLDEST[1]},<{after}"
    assert f"Qdrant {SUPPORTED}" in (ROOT / "docs/deployment.md").read_text()
