"""The package: built offline, complete, and enough to follow the README after installing it."""

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tomllib
import venv
import zipfile
from email.message import Message
from email.parser import Parser
from importlib.metadata import distribution
from pathlib import Path

import pytest

import truespan
from tests.support.docs_reader import PAGES, README, ROOT, blocks_of, commands_in, first_missing

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
VERSION = PROJECT["project"]["version"]
SOURCE = ROOT / "src" / "truespan"
EXTRA = re.compile(r"(?:with the extra '|'\.\[)(\w+)")


def build(kind: str, folder: Path) -> Path:
    """Run the build backend of the lock file, as `python -m build --no-isolation` does."""
    backend = PROJECT["build-system"]["build-backend"]
    [program] = [
        Path(str(file.locate())).resolve()
        for file in distribution(backend).files or ()
        if file.name == "uv-build"
    ]
    code = f"import {backend}, sys; {backend}.build_{kind}(sys.argv[1])"
    path = f"{program.parent}{os.pathsep}{os.environ['PATH']}"
    command = [sys.executable, "-c", code, str(folder)]
    subprocess.run(command, cwd=ROOT, env={**os.environ, "PATH": path}, check=True)
    [built] = folder.glob("*.whl" if kind == "wheel" else "*.tar.gz")
    return built


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build("wheel", tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def metadata(wheel: Path) -> Message:
    with zipfile.ZipFile(wheel) as files:
        text = files.read(f"truespan-{VERSION}.dist-info/METADATA").decode()
    return Parser().parsestr(text)


@pytest.fixture(scope="module")
def environment(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A new environment with the wheel, which sees the locked packages but not this source."""
    folder = tmp_path_factory.mktemp("environment")
    venv.create(folder, symlinks=True)
    site = Path(sysconfig.get_path("purelib", vars={"base": str(folder)}))
    # Paths that a .pth file adds do not have their own .pth files read: those name this source.
    (site / "locked.pth").write_text(str(Path(pytest.__file__).parents[1]) + "\n")
    install = ["install", "--quiet", "--no-deps", "--no-index", "--no-compile", str(wheel)]
    pip = [sys.executable, "-m", "pip", "--python", str(folder / "bin" / "python")]
    subprocess.run([*pip, *install], check=True, env=clean_environment(folder))
    return folder


def clean_environment(folder: Path, **more: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name in ("TMPDIR", "LANG")}
    path = f"{folder / 'bin'}{os.pathsep}{os.environ['PATH']}"
    return {**kept, "PATH": path, "HOME": str(folder), "PIP_CONFIG_FILE": os.devnull, **more}


def test_wheel_contains_every_file_of_the_package(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as files:
        names = {name for name in files.namelist() if not name.endswith("/")}
        notices = files.read(f"truespan-{VERSION}.dist-info/licenses/LICENSE")
    package = {name for name in names if name.startswith("truespan/")}

    assert package == {
        f"truespan/{file.relative_to(SOURCE).as_posix()}"
        for file in SOURCE.rglob("*")
        if file.is_file() and "__pycache__" not in file.parts
    }
    assert "truespan/py.typed" in package
    assert notices == (ROOT / "LICENSE").read_bytes()


def test_source_distribution_contains_every_file_of_the_project(tmp_path: Path) -> None:
    if not (ROOT / ".git").exists():
        pytest.skip("this is no clone, so nothing says which files belong to the project")
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True, text=True
    ).stdout.split("\0")
    with tarfile.open(build("sdist", tmp_path)) as archive:
        names = {member.name.partition("/")[2] for member in archive if member.isfile()}
    assert {name for name in listed if name and (ROOT / name).exists()} - names == set()
    assert {name for name in names if "__pycache__" in name or name.startswith(".venv")} == set()


def test_metadata_names_license_and_python_versions(metadata: Message) -> None:
    assert metadata["Version"] == truespan.__version__ == VERSION
    assert metadata["License-Expression"] == "Apache-2.0 AND MIT"
    assert metadata.get_all("License-File") == [
        "LICENSE",
        "src/truespan/providers/bge-small-en-v1.5/NOTICE",
    ]
    assert metadata["Requires-Python"] == ">=3.11, <3.14"
    assert str(metadata.get_payload()).strip() == README.read_text("utf-8").strip()


def test_version_is_written_in_one_place() -> None:
    assert f'"{VERSION}"' not in (SOURCE / "__init__.py").read_text("utf-8")


def test_extras_that_pages_and_errors_name_are_in_the_wheel(metadata: Message) -> None:
    texts = [*PAGES, *SOURCE.rglob("*.py")]
    named = {extra for file in texts for extra in EXTRA.findall(file.read_text("utf-8"))}
    assert named == set(metadata.get_all("Provides-Extra") or ())


def test_extras_are_those_that_the_lock_files_resolve(metadata: Message) -> None:
    pinned = {
        match[1]
        for lock in (ROOT / "lock").glob("*.txt")
        for match in re.finditer(r"^([a-z0-9-]+)==", lock.read_text("utf-8"), re.MULTILINE)
    }
    wanted = [re.match(r"[\w-]+", line) for line in requires(metadata)]
    assert {found[0] for found in wanted if found} <= pinned


def requires(metadata: Message) -> list[str]:
    return metadata.get_all("Requires-Dist") or []


def test_readme_can_be_followed_after_installing_the_wheel(environment: Path, tmp_path: Path):
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    variables = clean_environment(environment)
    wrong: list[str | None] = []

    def run(*command: str) -> str:
        done = subprocess.run(
            command, cwd=tmp_path, env=variables, capture_output=True, text=True, check=True
        )
        return done.stdout + done.stderr

    place = run("python", "-c", "import truespan; print(truespan.__file__)")
    assert Path(place.strip()).is_relative_to(environment)
    assert run("truespan", "--version") == f"{VERSION}\n"

    blocks = blocks_of(README)
    example = next(number for number, block in enumerate(blocks) if block.language == "python")
    wrong.append(first_missing(blocks[example + 1].body, run("python", "-c", blocks[example].body)))
    for block in blocks[example + 1 :]:
        for command, shown in commands_in(block.body) if block.language == "console" else ():
            first, *rest = command.split(maxsplit=1)
            if first == "export":
                variables |= dict(one.split("=", 1) for one in rest[0].split())
            elif first == "truespan":
                wrong.append(first_missing(shown, run("sh", "-c", command)))

    assert len(wrong) >= 4
    assert set(wrong) == {None}
