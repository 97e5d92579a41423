"""The guide for one machine: units, proxies and scripts are checked, and the scripts are run."""

import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from configparser import ConfigParser
from dataclasses import dataclass, field
from pathlib import Path

import pytest

import truespan
from tests.architecture.test_deployment import require_command
from tests.promises import proves

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
UNITS = sorted((DEPLOY / "systemd").iterdir())
GUIDE = (ROOT / "docs" / "deployment.md").read_text("utf-8").split("\n## Containers\n")[0]
PROGRAM = "/opt/truespan/current/bin/truespan"


def read_unit(path: Path) -> ConfigParser:
    """Read a unit; none of ours has a key twice."""
    unit = ConfigParser(interpolation=None)
    unit.optionxform = str  # type: ignore[assignment,method-assign]
    unit.read_string(path.read_text("utf-8"))
    return unit


def service(name: str) -> dict[str, str]:
    return dict(read_unit(DEPLOY / "systemd" / name)["Service"])


# Units


def test_every_command_in_units_and_guide_exists() -> None:
    lines = [service(path.name)["ExecStart"] for path in UNITS if path.suffix == ".service"]
    blocks = re.findall(r"```text\n(.*?)```", GUIDE, re.DOTALL)
    lines += [line for block in blocks for line in block.splitlines()]
    commands = [shlex.split(line) for line in lines if line.startswith(("truespan ", PROGRAM))]
    assert len(commands) >= 9
    for words in commands:
        require_command(words[1:])


def test_server_is_behind_the_proxy_and_needs_a_token() -> None:
    words = shlex.split(service("truespan.service")["ExecStart"])
    assert "--require-token" in words
    assert words[words.index("--host") + 1] == "127.0.0.1"
    for path in (DEPLOY / "proxy").iterdir():
        assert f"127.0.0.1:{words[words.index('--port') + 1]}" in path.read_text("utf-8")


def test_services_are_unprivileged_and_write_only_where_needed() -> None:
    for path in UNITS:
        if path.suffix != ".service":
            continue
        unit = service(path.name)
        assert (unit["User"], unit["NoNewPrivileges"], unit["UMask"]) == ("truespan", "yes", "0077")
        assert unit["ProtectSystem"] == "strict"
        assert unit["CapabilityBoundingSet"] == ""
        writable = unit.get("StateDirectory", "") or unit["ReadWritePaths"]
        assert "truespan" in writable
    timer = read_unit(DEPLOY / "systemd" / "truespan-backup.timer")
    assert timer["Timer"]["Persistent"] == "true"
    assert (DEPLOY / "systemd" / "truespan-backup.service").exists()


def test_systemd_accepts_the_units(tmp_path: Path) -> None:
    analyze = shutil.which("systemd-analyze")
    if analyze is None:
        pytest.skip("UNITS NOT VERIFIED: systemd-analyze is not installed")
    program = tmp_path / "truespan"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    for path in UNITS:
        # The user and the programs are not on this machine.
        text = path.read_text("utf-8").replace(PROGRAM, str(program))
        text = text.replace("/opt/truespan/deploy/", f"{DEPLOY}/")
        text = re.sub(r"(?m)^(User|Group)=.*", r"\1=root", text)
        (tmp_path / path.name).write_text(text, encoding="utf-8")
    found = subprocess.run(
        [analyze, "verify", "--man=no", *(str(tmp_path / path.name) for path in UNITS)],
        capture_output=True,
        text=True,
        check=False,
    )

    assert (found.returncode, found.stderr) == (0, "")


# The guide and its files


def test_guide_names_exactly_the_existing_files() -> None:
    named = set(re.findall(r"deploy/[\w./-]+\w", GUIDE))
    there = {
        str(path.relative_to(ROOT))
        for path in [*DEPLOY.glob("*.sh"), *DEPLOY.glob("*.py"), *UNITS, *DEPLOY.glob("proxy/*")]
        if path.name != "make-secrets.sh"
    }
    assert there <= named
    assert all((ROOT / name).exists() for name in named)


def test_both_proxies_pass_host_and_streams_and_hide_metrics() -> None:
    nginx = (DEPLOY / "proxy" / "nginx.conf").read_text("utf-8")
    caddy = (DEPLOY / "proxy" / "Caddyfile").read_text("utf-8")
    plain = re.sub(r"#.*", "", nginx)

    assert plain.count("{") == plain.count("}")
    for line in filter(None, map(str.strip, plain.splitlines())):
        assert line.endswith((";", "{", "}")), line
    for wanted in (
        *("proxy_set_header Host $host;", "proxy_buffering off;", "proxy_request_buffering off;"),
        *("location = /metrics {", "listen 443 ssl;", "X-Request-Id $request_id;"),
        *("ssl_certificate ", "ssl_certificate_key ", "client_max_body_size 512m;"),
    ):
        assert wanted in nginx, wanted
    for wanted in ("reverse_proxy", "flush_interval -1", "respond /metrics 404", "512MB"):
        assert wanted in caddy, wanted
    assert caddy.count("{\n") == len(re.findall(r"(?m)^\s*}$", caddy))


def test_nginx_accepts_its_configuration(tmp_path: Path) -> None:
    program = shutil.which("nginx")
    if program is None:
        pytest.skip("THE SITE OF NGINX IS NOT CHECKED: nginx is not installed")
    site = (DEPLOY / "proxy" / "nginx.conf").read_text("utf-8")
    # No certificate is here, and its lines need one.
    site = re.sub(r"(?m)^\s*ssl_certificate.*$", "", site).replace(" ssl;", ";")
    whole = f"events {{}}\npid {tmp_path}/pid;\nerror_log stderr;\nhttp {{\n{site}\n}}\n"
    (tmp_path / "nginx.conf").write_text(whole, encoding="utf-8")
    checked = subprocess.run(
        [program, "-t", "-p", str(tmp_path), "-c", str(tmp_path / "nginx.conf")],
        capture_output=True,
        check=False,
    )
    assert checked.returncode == 0, checked.stderr


def test_caddy_accepts_its_configuration() -> None:
    program = shutil.which("caddy")
    if program is None:
        pytest.skip("THE CADDYFILE IS NOT CHECKED: caddy is not installed")
    file = str(DEPLOY / "proxy" / "Caddyfile")
    command = [program, "validate", "--adapter", "caddyfile", "--config", file]
    checked = subprocess.run(command, capture_output=True, check=False)
    assert checked.returncode == 0, checked.stderr


# The scripts, run


SYSTEMCTL = """#!/bin/sh
# Starts and stops the one server, as systemd would.
echo "$@" >>"$HOST/calls"
case $1 in
start)
	"$PROGRAMS/current/bin/truespan" serve --library "$LIBRARY" --port "$PORT" \\
		--require-token >"$HOST/served" 2>&1 &
	echo $! >"$HOST/pid"
	;;
stop)
	[ -f "$HOST/pid" ] || exit 0
	kill "$(cat "$HOST/pid")"
	tail --pid="$(cat "$HOST/pid")" -f /dev/null
	rm "$HOST/pid"
	;;
esac
"""


@dataclass
class Host:
    """A machine in a folder: installed versions, a library, and its own systemctl."""

    folder: Path
    variables: dict[str, str] = field(default_factory=dict)

    @property
    def library(self) -> Path:
        return self.folder / "lib" / "library"

    def install(self, version: str, script: str = "") -> None:
        """Install a version: this program, or a script in its place."""
        programs = self.folder / "opt" / version / "bin"
        programs.mkdir(parents=True)
        text = script or f'#!/bin/sh\nexec "{sys.executable}" -m truespan "$@"\n'
        (programs / "truespan").write_text(text)
        (programs / "truespan").chmod(0o755)
        (programs / "python").symlink_to(sys.executable)

    @property
    def current(self) -> str:
        return (self.folder / "opt" / "current").readlink().name

    def run(self, script: str, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [DEPLOY / script, *words], env={**os.environ, **self.variables}, capture_output=True,
            text=True, check=False,
        )  # fmt: skip

    def worlds(self) -> list[str]:
        with truespan.open(self.library) as library:
            return [world.name for world in library.worlds()]

    def content(self) -> dict[str, bytes]:
        return {
            str(path.relative_to(self.library)): path.read_bytes()
            for path in sorted(self.library.rglob("*"))
            if path.is_file()
        }


@pytest.fixture
def host(tmp_path: Path) -> Iterator[Host]:
    made = Host(tmp_path)
    made.install("1.0")
    (tmp_path / "opt" / "current").symlink_to(tmp_path / "opt" / "1.0")
    (tmp_path / "lib").mkdir()
    with truespan.open(made.library, create=True) as library:
        library.create_world("before")
        library.tokens.create("app", worlds=["before"])
    systemctl = tmp_path / "systemctl"
    systemctl.write_text(SYSTEMCTL)
    systemctl.chmod(0o755)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
    made.variables = {
        "HOST": str(tmp_path), "PORT": port, "SYSTEMCTL": str(systemctl),
        "PROGRAM": str(tmp_path / "opt" / "current" / "bin" / "truespan"),
        "PROGRAMS": str(tmp_path / "opt"), "LIBRARY": str(made.library),
        "READY": f"http://127.0.0.1:{port}/ready", "AS_OWNER": "",
    }  # fmt: skip
    yield made
    subprocess.run(
        [systemctl, "stop"], env={**os.environ, **made.variables}, check=True, capture_output=True
    )


@proves("operations.single-host")
def test_backups_are_verified_and_the_oldest_are_removed(host: Host) -> None:
    folder = host.folder / "backups"
    folder.mkdir()
    for day in range(1, 4):
        (folder / f"truespan-2026010{day}T031500Z.backup").write_bytes(b"old")
    (folder / "notes.backup").write_bytes(b"not ours")

    ran = host.run("backup.sh", str(host.library), str(folder), "2")

    assert (ran.returncode, ran.stderr) == (0, "")
    kept = sorted(path.name for path in folder.iterdir())
    assert kept[0] == "notes.backup"
    assert kept[1] == "truespan-20260103T031500Z.backup"
    assert len(kept) == 3
    newest = folder / kept[2]
    assert truespan.verify_backup(newest).worlds == 1
    assert newest.stat().st_mode & 0o077 == 0
    for keep in ("0", "-1", "all"):
        assert host.run("backup.sh", str(host.library), str(folder), keep).returncode == 2
    assert host.run("backup.sh", str(host.folder / "absent"), str(folder), "1").returncode != 0
    assert sorted(path.name for path in folder.iterdir()) == kept


@proves("operations.single-host")
def test_upgrade_runs_new_version_and_rollback_restores(host: Host) -> None:
    host.install("2.0")

    upgraded = host.run("upgrade.sh", "2.0")

    assert (upgraded.returncode, host.current) == (0, "2.0"), upgraded.stderr
    with truespan.open(host.library) as library:
        library.create_world("after")
    again = host.run("upgrade.sh", "2.0")
    assert (again.returncode, "Remove it first" in again.stderr) == (2, True)

    back = host.run("rollback.sh", "2.0")

    assert (back.returncode, host.current) == (0, "1.0"), back.stderr
    assert host.worlds() == ["before"]
    with truespan.open(host.library) as library:
        assert [token.name for token in library.tokens.list()] == ["app"]
    with truespan.open(f"{host.library}.after-2.0") as library:
        assert [world.name for world in library.worlds()] == ["after", "before"]
    assert host.run("rollback.sh", "2.0").returncode == 2
    services = "truespan.service"
    calls = (host.folder / "calls").read_text().splitlines()
    assert calls == [f"{word} {services}" for word in ("stop", "start", "stop", "start")]


@proves("operations.single-host")
def test_failed_upgrade_leaves_program_and_library_unchanged(host: Host) -> None:
    before = host.content()
    host.variables["READY"] = ""
    broken = '#!/bin/sh\n[ "$1" = --version ] && exit 0\necho damaged >"$3/store.db"\nexit 3\n'
    host.install("2.0", broken)
    host.install("3.0", "#!/bin/sh\nexit 1\n")

    failed = host.run("upgrade.sh", "2.0")

    assert (failed.returncode, host.current) == (1, "1.0")
    assert "going back" in failed.stderr
    assert (Path(f"{host.library}.after-2.0") / "store.db").read_text() == "damaged\n"
    assert {**host.content(), **before} == host.content()
    for version in ("3.0", "absent"):
        refused = host.run("upgrade.sh", version)
        assert (refused.returncode, "Nothing was changed" in refused.stderr) == (2, True)
