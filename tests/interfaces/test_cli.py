"""The command line with the real store, index and model: output for people and scripts."""

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import truespan
from tests.promises import proves
from truespan.cli import run
from truespan.errors import NotFound, TruespanError, error_codes
from truespan.wire.serialize import STATUS, status_of
from truespan.wiring import open_library

NIGHT = "The lamp in the saloon went out at a quarter past one. The constable rang the bell."
KEYS = "The spare key to the hut hangs on hook seven at the inn. Nobody is to touch it."


class Terminal:
    """Runs commands against one library and returns what they print."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.folder = folder
        self.files = folder / "files"
        self.files.mkdir(exist_ok=True)
        self._capsys = capsys

    def write(self, name: str, text: str) -> str:
        path = self.files / name
        path.write_text(text, encoding="utf-8")
        return str(path)

    def __call__(self, *arguments: str) -> tuple[int, str, str]:
        self._capsys.readouterr()
        code = run([*arguments, "--library", str(self.folder / "library")])
        out, err = self._capsys.readouterr()
        return code, out, err

    def json(self, *arguments: str) -> Any:
        code, out, _ = self(*arguments, "--json")
        return code, json.loads(out)


@pytest.fixture
def terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Iterator[Terminal]:
    yield Terminal(tmp_path, capsys)
    monkeypatch.undo()
    if (tmp_path / "library" / "store.db").exists():
        open_library(tmp_path / "library")._components.index.retire()  # type: ignore[attr-defined]


def test_command_line_completes_the_whole_workflow(terminal: Terminal) -> None:
    terminal.write("night.txt", NIGHT)
    terminal.write("keys.md", f"# Keys\n\n{KEYS}\n")

    assert terminal("init", "--world", "w")[0] == 0
    code, report = terminal.json("ingest", str(terminal.files), "-w", "w")
    assert (code, report["failures"]) == (0, [])
    assert sorted(report["ingested"]) == ["keys.md", "night.txt"]

    code, found = terminal.json("search", "Where is the spare key?", "-w", "w", "-k", "1")
    assert code == 0
    assert found["passages"][0]["source"] == "keys.md"
    assert found["context"] == found["passages"][0]["text"]
    chunk = found["passages"][0]["chunk_id"]

    code, out, err = terminal("search", "Where is the spare key?", "-w", "w", "-k", "1")
    assert (code, err) == (0, "")
    assert "hook seven" in out
    assert "verified" in out
    code, out, _ = terminal("search", "spare key", "-w", "w", "-k", "1", "--context")
    assert out == found["context"] + "\n"

    assert "bytes match" in terminal("show", chunk, "-w", "w")[1]
    assert "1 chunk by" in terminal("show", "keys.md", "-w", "w")[1]
    assert KEYS in terminal("show", "keys.md", "-w", "w", "--text")[1]
    assert "2 documents" in terminal("status")[1]
    assert "keys.md" in terminal("status", "-w", "w")[1]
    assert "nothing to do" in terminal("doctor")[1]
    assert terminal("repair")[0] == 0

    code, out, _ = terminal("delete", "keys.md", "-w", "w")
    assert (code, "Deleted" in out) == (0, True)
    code, found = terminal.json("search", "Where is the spare key?", "-w", "w")
    assert [entry["source"] for entry in found["passages"]] == ["night.txt"]
    code, report = terminal.json("ingest", str(terminal.files / "night.txt"), "-w", "w")
    assert (report["unchanged"], report["embedded"]) == (1, 0)


def test_search_prints_each_row_of_a_table_on_a_line(terminal: Terminal) -> None:
    terminal("init", "-w", "w")
    rows = ("Harbour", "Town"), ("Mill pier", ""), ("Slip", ""), ("Old quay", "Rome"), ("", "Oslo")
    cells = "<tr>".join(f"<td>{harbour}<td>{town}" for harbour, town in rows)
    terminal("ingest", terminal.write("quays.html", f"<table><tr>{cells}</table>"), "-w", "w")

    out = terminal("search", "town of the old quay", "-w", "w", "--full")[1]

    lines = [line.strip() for line in out.splitlines()]
    start = lines.index("Harbour | Town")
    assert lines[start + 1 : start + 5] == ["Mill pier |", "Slip |", "Old quay | Rome", "| Oslo"]


@pytest.mark.contract
def test_search_modes_and_floor_advice_on_the_command_line(terminal: Terminal) -> None:
    terminal("init", "-w", "w")
    terminal(
        "ingest", terminal.write("night.txt", NIGHT), terminal.write("keys.md", KEYS), "-w", "w"
    )

    _, found = terminal.json("search", "hook seven", "-w", "w", "--mode", "hybrid")
    _, bundle = terminal.json(
        "retrieve", "hook seven", "-w", "w", "--mode", "hybrid", "--near-misses"
    )
    _, plain = terminal.json("search", "hook seven", "-w", "w")

    assert found["passages"][0]["source"] == "keys.md"
    assert found["passages"][0]["fused"]["bm25"] > 0
    blend = found["passages"][0]["fused"]["blend"]
    assert bundle["metadata"]["sources"][0]["fused"]["blend"] == blend > 0
    assert plain["passages"][0]["fused"] is None
    assert found["floor_discriminates"] is plain["floor_discriminates"] is False
    assert bundle["metadata"]["floor_discriminates"] is False
    codes = [notice["code"] for notice in bundle["metadata"]["warnings"]]
    assert codes == ["floor_does_not_discriminate"]
    assert found["warnings"] == []
    out = terminal("search", "hook seven", "-w", "w", "--mode", "hybrid")[1]
    assert f"blend {blend:.3f}" in out
    # The doctor reports once what a floor means for the model.
    assert "unrelated" not in out
    out = terminal("retrieve", "hook seven", "-w", "w", "--mode", "hybrid")[1]
    assert f"blend {blend:.3f}" in out
    assert "unrelated" not in out
    assert "unrelated texts stay below" in terminal("doctor", "--no-self-test")[1]
    assert terminal("retrieve", "x", "-r", "ann", "-w", "w", "--mode", "hybrid")[0] == 0


@pytest.mark.parametrize(
    ("arguments", "code", "error"),
    [
        (["search", "x", "-w", "w"], 3, "library_not_found"),
        (["status"], 3, "library_not_found"),
        (["ingest", ".", "-w", "w"], 3, "library_not_found"),
    ],
    ids=str,
)
def test_commands_without_a_library_report_it_and_create_none(
    terminal: Terminal, arguments: list[str], code: int, error: str
) -> None:
    found, problem = terminal.json(*arguments)
    assert (found, problem["error"]["code"]) == (code, error)
    assert not (terminal.folder / "library").exists()


def test_binary_file_fails_alone_and_changes_nothing(terminal: Terminal) -> None:
    terminal("init", "--world", "w")
    terminal("ingest", terminal.write("night.txt", NIGHT), "-w", "w")
    before = terminal.json("status", "-w", "w")
    binary = terminal.files / "binary.txt"
    binary.write_bytes(bytes(range(256)) * 20)

    for source, expected in ((binary, 2), (terminal.files, 6)):
        code, out, _ = terminal("ingest", str(source), "-w", "w")
        assert (code, "not text" in out) == (expected, True)
    assert terminal.json("status", "-w", "w") == before


def test_a_misspelt_setting_is_refused_at_start(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    terminal("init", "--world", "w")
    monkeypatch.setenv("TRUESPAN_DISK_RESERV_MIB", "5")

    code, problem = terminal.json("status")

    assert (code, problem["error"]["code"]) == (3, "invalid_configuration")


@proves("errors.stable-codes")
def test_unexpected_error_is_one_line_and_one_code(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    import truespan

    def broken(*_: object, **__: object) -> None:
        raise ZeroDivisionError("secret detail")

    monkeypatch.setattr(truespan, "open", broken)

    code, problem = terminal.json("status")
    _, out, err = terminal("status")

    assert (code, problem["error"]["code"]) == (1, "internal_error")
    assert "secret" not in out + err
    assert "Traceback" not in err


@proves("errors.stable-codes")
def test_every_error_has_code_status_and_retry_flag() -> None:
    codes = error_codes()
    assert len(codes) > 80

    for code, kind in codes.items():
        error = kind.of(code)
        assert error.code == code
        assert isinstance(error.retryable, bool)
        status = status_of(error)
        assert 400 <= status.http < 600
        assert status.exit_code in (1, 2, 3, 4, 5, 130)
        assert status.mcp < 0
    assert {*STATUS} - {NotFound, TruespanError} <= {*codes, *codes.values()}


def test_a_repeated_search_imports_only_what_it_uses(terminal: Terminal) -> None:
    terminal("init", "-w", "w", "--defaults", "contract")
    terminal("ingest", terminal.write("keys.md", KEYS), "-w", "w")
    search = ["search", "spare key", "-w", "w", "--library", str(terminal.folder / "library")]
    assert run([*search, "--json"]) == 0
    # Modules that a search does not need, by purpose.
    unused = (
        *("numpy", "onnxruntime", "tokenizers", "pydantic", "rich", "ssl", "logging", "tomllib"),
        *(
            "truespan.parsing", "truespan.ingest", "truespan.extensions.checks.sanitize",
            "truespan.maintenance",
        ),
        *(
            "truespan.retrieval.fused",
            "truespan.retrieval.reading.pages",
            "truespan.extensions.cluster.copy",
        ),
        *("truespan.extensions.cluster.qdrant", "truespan.files.backup", "truespan.cli.documents"),
        *("truespan.retrieval.rerank", "truespan.engine.reader", "truespan.answers"),
        *("asyncio", "email", "http", "concurrent", "secrets", "base64", "urllib.request"),
    )  # fmt: skip
    # Measured with Python 3.11; later versions need fewer. The environment may add one or two.
    # Choosing the sentences that are printed takes more.
    for options, most_own, most in ((["--json"], 127, 310), ([], 136, 327)):
        script = (
            f"import sys; from truespan.cli import run; code = run({[*search, *options]!r}); "
            "own = sum(name.partition('.')[0] == 'truespan' for name in sys.modules); "
            "print(code, len(sys.modules), own, "
            f"*({{*{unused!r}}} & {{*sys.modules}}), file=sys.stderr)"
        )

        done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)

        code, count, own, *found = done.stderr.split()
        assert (code, found) == ("0", [])
        assert int(own) <= most_own, options
        assert int(count) <= most, options


def test_unchanged_folder_needs_no_model_and_no_process(terminal: Terminal) -> None:
    terminal("init", "-w", "w")
    folder = str(Path(terminal.write("keys.md", KEYS)).parent)
    ingest = ["ingest", folder, "-w", "w", "--library", str(terminal.folder / "library")]
    assert run(ingest) == 0
    unused = (
        *("numpy", "onnxruntime", "tokenizers", "py3langid", "sentencex", "qdrant_edge"),
        *(
            "rich", "ssl", "asyncio", "truespan.extensions.quality.generations",
            "truespan.engine.doctor", "truespan.engine.reader",
        ),
        *("truespan.evaluation", "truespan.retrieval.fused", "truespan.extensions.cluster.qdrant"),
    )  # fmt: skip
    script = (
        "import sys; from truespan.cli import run; starts = []; "
        "sys.addaudithook(lambda event, _: starts.append(event) "
        "if event in ('subprocess.Popen', 'os.posix_spawn', 'os.fork') else None); "
        f"code = run({ingest!r}); "
        f"print(code, *starts, *({{*{unused!r}}} & {{*sys.modules}}), file=sys.stderr)"
    )

    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)

    assert "1 unchanged" in done.stdout
    assert done.stderr.split() == ["0"]


def test_help_and_version_do_not_load_the_engine() -> None:
    script = (
        "import sys; from truespan.cli import run; code = run(['--help']); "
        "heavy = {'numpy', 'onnxruntime', 'apsw', 'tokenizers', 'qdrant_edge', 'rich', 'msgspec', "
        "'email'}; "
        "sys.exit(code or len(heavy & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert "ingest" in done.stdout
    version = subprocess.run(
        [sys.executable, "-m", "truespan", "--version"], capture_output=True, text=True
    )
    assert version.stdout == f"{truespan.__version__}\n"


def test_table_rows_are_printed_as_lines(terminal: Terminal, monkeypatch: pytest.MonkeyPatch):
    table = (
        "What a meal\nmay cost.\n\n| meal | limit |\n|---|---|\n| lunch | 25 |\n| dinner | 60 |\n"
    )
    terminal("init", "-w", "w")
    terminal("ingest", terminal.write("limits.md", table), "-w", "w")
    for is_terminal in (False, True):
        monkeypatch.setattr(sys.stdout, "isatty", lambda found=is_terminal: found)
        _, shown, _ = terminal("search", "limit for lunch", "-w", "w")
        lines = [re.sub(r"\x1b\[\d*m", "", line).strip() for line in shown.splitlines()]
        at = lines.index("What a meal may cost.")
        assert ("\x1b[1mlunch\x1b[0m" in shown) == is_terminal
        assert lines[at + 1 : at + 4] == ["meal | limit", "lunch | 25", "dinner | 60"]


def test_terminal_marks_the_words_that_were_searched_for(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    terminal("init", "-w", "w")
    text = (
        "Die Haustür ist zu. Der Regen fällt. Ein Haustürschlüssel hängt bei der Lampe. "
        "Niemand ist da. Es ist Nacht."
    )
    terminal("ingest", terminal.write("keys.txt", text), "-w", "w", "--language", "de")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)

    for query, word in (("Lampe", "Lampe"), ("Lamqe", "Lampe"), ("Schlüssel", "Haustürschlüssel")):
        _, shown, _ = terminal("search", query, "-w", "w")
        assert f"\x1b[1m{word}\x1b[0m" in shown, query
        assert "… " in shown


def test_local_path_names_its_document(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    path = terminal.write("keys.txt", KEYS)
    terminal("init", "--world", "w")
    terminal("ingest", str(terminal.files), "-w", "w")
    monkeypatch.chdir(terminal.files)

    for name in ("keys.txt", "./keys.txt", "../files/keys.txt", path, "./files/./keys.txt"):
        code, out, err = terminal("show", name, "-w", "w")
        assert (code, err) == (0, ""), name
        assert "keys.txt" in out
    assert terminal("show", "/keys.txt", "-w", "w")[0] == 2
    assert terminal("delete", path, "-w", "w")[0] == 0


def test_new_labels_of_unchanged_text_are_reported(terminal: Terminal) -> None:
    path = terminal.write("keys.txt", KEYS)
    terminal("init", "--world", "w")
    terminal("ingest", path, "-w", "w")

    code, out, _ = terminal("ingest", path, "-w", "w", "--version", "2.0")
    assert (code, "1 unchanged (1 with new labels)" in out) == (0, True)
    code, report = terminal.json("ingest", path, "-w", "w", "--version", "2.0")
    assert (report["unchanged"], report["relabelled"]) == (1, [])
