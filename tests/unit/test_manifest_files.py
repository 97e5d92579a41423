"""Lines of a manifest and files: matches, conflicts, and confinement to the folder."""

import json
import os
import socket
from pathlib import Path
from typing import Any

import pytest

from tests.promises import proves
from tests.support.failures import raises_code
from truespan.files.sources import FileSources
from truespan.ingest.manifest import parse_manifest
from truespan.parsing import supported
from truespan.types.source import Entry, FoundSources, Root

SECRET = b"This was never meant to be read."


class Folder:
    """A folder with a manifest, beside a folder that must not be read."""

    def __init__(self, place: Path, *names: str) -> None:
        self.place = Path(os.path.realpath(place))
        self.root = self.place / "library"
        self.outside = self.place / "outside"
        self.manifest = self.root / "library.jsonl"
        self.sources = FileSources(supported)
        self.root.mkdir()
        self.outside.mkdir()
        (self.outside / "secret.txt").write_bytes(SECRET)
        self.add(*names)

    def add(self, *names: str) -> None:
        for name in names:
            path = self.root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f"This is {name}.")

    def link(self, name: str, to: str | Path) -> None:
        (self.root / name).parent.mkdir(parents=True, exist_ok=True)
        (self.root / name).symlink_to(to)

    def expand(self, *lines: str | dict[str, Any]) -> FoundSources:
        spelled = [json.dumps({"path": line} if isinstance(line, str) else line) for line in lines]
        self.manifest.write_text("\n".join(spelled))
        content = self.sources.read_manifest(str(self.manifest))
        entries = parse_manifest("library.jsonl", content, profiles=["window"])
        return self.sources.expand(str(self.manifest), entries)

    def names(self, *lines: str | dict[str, Any]) -> list[str]:
        return [os.path.relpath(source.path, self.root) for source in self.expand(*lines)]

    def faults(self, *lines: str | dict[str, Any]) -> list[tuple[int, str]]:
        with raises_code("manifest_invalid") as caught:
            self.expand(*lines)
        return caught.value.lines


# What lines find


@proves("manifest.lines")
def test_lines_name_files_and_patterns_below_the_manifest(tmp_path: Path) -> None:
    folder = Folder(tmp_path, "a.txt", "b/c.md", "b/d/e.md", "b/d/photo.png", ".f/g.md")
    found = folder.expand("a.txt", {"path": "b/**/*.md", "tags": ["b"]}, "gone/*.txt", "gone.txt")
    assert [source.name for source in found] == ["a.txt", "c.md", "e.md"]
    assert [source.declared.tags for source in found] == [None, ("b",), ("b",)]
    assert {source.origin for source in found} == {str(folder.manifest)}
    assert found.unmatched == ("line 3: gone/*.txt", "line 4: gone.txt")
    assert found.roots == (Root(str(folder.root), 3, origin=str(folder.manifest)),)
    assert folder.sources.read(found.sources[1]) == b"This is b/c.md."


def test_unsupported_files_are_skipped_by_pattern_used_by_name(tmp_path: Path) -> None:
    folder = Folder(tmp_path, "a.txt", "photo.png", "x/data.bin")
    found = folder.expand("**", "photo.png")
    assert [source.name for source in found] == ["a.txt", "photo.png"]
    assert found.unsupported == 2
    assert folder.expand("*.jsonl").unmatched == ("line 1: *.jsonl",)


def test_folder_matches_no_file(tmp_path: Path) -> None:
    folder = Folder(tmp_path, "docs/a.txt")
    assert folder.expand("docs").unmatched == ("line 1: docs",)
    assert folder.expand("docs/a.txt/b.txt").unmatched == ("line 1: docs/a.txt/b.txt",)


@pytest.mark.parametrize(
    "name", ["[ab].txt", "what?.txt", "**.txt", "a\nb.txt", "．．／x.txt", " .txt"]
)
def test_existing_file_name_wins_over_a_pattern(tmp_path: Path, name: str) -> None:
    assert Folder(tmp_path, "a.txt", "whatx.txt", name).names(name) == [name]


def test_names_that_are_not_utf8_are_found_by_pattern(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    Path(os.fsdecode(os.fsencode(folder.root) + b"/\xff.txt")).write_bytes(b"odd")
    [source] = folder.expand("*.txt")
    assert folder.sources.read(source) == b"odd"
    source.name.encode()


def test_sources_come_by_priority_then_line_then_name(tmp_path: Path) -> None:
    folder = Folder(tmp_path, "a.txt", "b.txt", "c/y.txt", "c/x.txt", "d.txt", "e.txt")
    assert folder.names(
        {"path": "e.txt", "priority": 0}, "d.txt", {"path": "b.txt", "priority": 3},
        {"path": "c/*", "priority": 3}, {"path": "a.txt", "priority": 10},
    ) == ["a.txt", "b.txt", "c/x.txt", "c/y.txt", "e.txt", "d.txt"]  # fmt: skip


def test_ten_thousand_files_are_found_by_line_and_pattern(tmp_path: Path) -> None:
    names = [f"{number // 100:02}/{number % 100:02}.txt" for number in range(10_000)]
    folder = Folder(tmp_path, *names)
    assert folder.names(*names) == names
    assert folder.names("**/*.txt") == names


# Whether lines agree


def test_file_named_twice_in_the_same_words_is_used_once(tmp_path: Path) -> None:
    folder = Folder(tmp_path, "a.txt", "b.txt")
    folder.link("c.txt", "a.txt")
    found = folder.expand("a.txt", "*.txt", "./a.txt", "c.txt")
    assert [source.name for source in found] == ["a.txt", "b.txt"]


@pytest.mark.parametrize("second", ["*.txt", "a.txt", "link.txt", "./a.txt"])
def test_contradicting_manifest_lines_are_errors_of_both(tmp_path: Path, second: str) -> None:
    folder = Folder(tmp_path, "a.txt")
    folder.link("link.txt", "a.txt")
    [(line, reason)] = folder.faults({"path": "a.txt", "title": "A"}, "gone.txt", second)
    assert line == 3
    assert "line 1" in reason


def test_names_equal_in_some_file_systems_are_one_file(tmp_path: Path) -> None:
    # Elsewhere both names lead to one file; folder two links to one file stand for that.
    folder = Folder(tmp_path, "notes.txt")
    os.link(folder.root / "notes.txt", folder.root / "NOTES.TXT")
    assert len(folder.expand("notes.txt", "NOTES.TXT")) == 1
    assert "line 1" in folder.faults("notes.txt", {"path": "NOTES.TXT", "kind": "book"})[0][1]


@proves("manifest.lines")
def test_one_id_names_one_file(tmp_path: Path) -> None:
    folder = Folder(tmp_path, "a.txt", "b.txt")
    assert folder.faults({"path": "*.txt", "doc_id": "x"}) == [(1, "one doc_id for 2 files")]
    [(line, reason)] = folder.faults(
        {"path": "a.txt", "doc_id": "x"}, {"path": "b.txt", "doc_id": "X"}
    )
    assert line == 2
    assert "line 1" in reason
    [source] = folder.expand({"path": "a*", "doc_id": "x"})
    assert source.doc_id == "x"


def test_id_must_differ_from_the_default_id_of_other_files(tmp_path: Path) -> None:
    folder = Folder(tmp_path, "a.txt", "b.txt")
    [own] = folder.expand("a.txt")
    [(line, _)] = folder.faults("a.txt", {"path": "b.txt", "doc_id": own.doc_id})
    assert line == 2


def test_pattern_with_an_id_may_match_one_file_by_several_links(tmp_path: Path) -> None:
    folder = Folder(tmp_path, "a.txt")
    folder.link("b.txt", "a.txt")
    [source] = folder.expand({"path": "*.txt", "doc_id": "x"})
    assert source.name == "a.txt"


# That no line gets out


@proves("manifest.inside-root")
def test_link_to_the_outside_is_a_bad_line(tmp_path: Path) -> None:
    folder = Folder(tmp_path, "a.txt", "sub/b.txt")
    folder.link("file.txt", folder.outside / "secret.txt")
    folder.link("relative.txt", "../outside/secret.txt")
    folder.link("folder", folder.outside)
    folder.link("sub/up", "../..")
    folder.link("chain.txt", "sub/next.txt")
    folder.link("sub/next.txt", folder.outside / "secret.txt")
    folder.link("dangling.txt", folder.outside / "gone.txt")
    lines = ["a.txt", "file.txt", "relative.txt", "folder/secret.txt", "folder/*.txt", "folder/**"]
    lines += ["sub/up/outside/secret.txt", "sub/up/**/*.txt", "chain.txt", "dangling.txt", "*.txt"]

    found = folder.faults(*lines)

    assert [line for line, _ in found] == list(range(2, len(lines) + 1))
    assert all("leads outside" in reason for _, reason in found)
    assert "matches 'chain.txt'" in found[-1][1]


def test_patterns_do_not_enter_linked_folders(tmp_path: Path) -> None:
    folder = Folder(tmp_path, "a.txt", "sub/b.txt")
    folder.link("folder", folder.outside)
    folder.link("sub/again", "..")
    found = folder.expand("**/*.txt")
    assert [source.name for source in found] == ["a.txt", "b.txt"]
    assert folder.expand("**/secret.txt", "*/secret.txt", "[f]older/secret.txt").sources == ()


def test_links_inside_the_root_lead_to_the_file(tmp_path: Path) -> None:
    folder = Folder(tmp_path, "real/a.txt")
    folder.link("link.txt", "real/a.txt")
    folder.link("folder", "real")
    folder.link("absolute.txt", folder.root / "real/a.txt")
    folder.link("roundabout.txt", "../library/real/a.txt")
    for path in ("link.txt", "folder/a.txt", "folder/*", "absolute.txt", "roundabout.txt"):
        assert folder.names(path) == ["real/a.txt"]


def test_circular_links_name_no_file(tmp_path: Path) -> None:
    folder = Folder(tmp_path, "a.txt")
    folder.link("self.txt", "self.txt")
    folder.link("ping", "pong")
    folder.link("pong", "ping")
    folder.link("within", "within/x")
    found = folder.expand("self.txt", "ping/a.txt", "pong", "within/x", "*.txt")
    assert [source.name for source in found] == ["a.txt"]
    assert (len(found.unmatched), found.unsupported) == (4, 1)


def test_folder_with_the_prefix_of_the_root_is_outside(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    (tmp_path / "library-of-others").mkdir()
    (tmp_path / "library-of-others" / "a.txt").write_bytes(SECRET)
    folder.link("a.txt", folder.place / "library-of-others" / "a.txt")
    assert len(folder.faults("a.txt")) == 1


@pytest.mark.parametrize(
    "path",
    ["/etc/hostname", "../outside/secret.txt", "a/../../outside/secret.txt", "\0", "", "C:x"],
)
@proves("manifest.inside-root")
def test_unchecked_entries_are_checked_when_files_are_opened(tmp_path: Path, path: str) -> None:
    folder = Folder(tmp_path, "a/b.txt")
    with raises_code("manifest_invalid") as caught:
        folder.sources.expand(str(folder.manifest), [Entry(7, path)])
    assert [line for line, _ in caught.value.lines] == [7]


@proves("manifest.inside-root")
def test_pipes_sockets_and_devices_are_never_opened(tmp_path: Path) -> None:
    folder = Folder(tmp_path, "a.txt")
    os.mkfifo(folder.root / "pipe.txt")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(folder.root / "s.txt"))
    folder.link("zero.txt", "/dev/zero")
    found = folder.faults("a.txt", "pipe.txt", "s.txt", "zero.txt", "p*.txt")
    assert [line for line, _ in found] == [2, 3, 4, 5]


@pytest.mark.parametrize("swap", ["file", "folder", "root"])
@proves("manifest.inside-root")
def test_link_created_after_the_check_is_not_followed(tmp_path: Path, swap: str) -> None:
    folder = Folder(tmp_path, "sub/secret.txt")
    [source] = folder.expand("sub/secret.txt")
    assert folder.sources.read(source) == b"This is sub/secret.txt."

    if swap == "file":
        (folder.root / "sub/secret.txt").unlink()
        folder.link("sub/secret.txt", folder.outside / "secret.txt")
    elif swap == "folder":
        (folder.root / "sub").rename(folder.root / "was")
        folder.link("sub", folder.outside)
    else:
        folder.root.rename(folder.place / "was")
        (folder.outside / "sub").symlink_to(".")
        folder.root.symlink_to(folder.outside)

    assert Path(source.path).read_bytes() == SECRET
    with raises_code("source_unreadable", match="link"):
        folder.sources.read(source)


@pytest.mark.parametrize("after", ["lstat", "realpath"])
def test_link_created_during_the_check_is_not_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, after: str
) -> None:
    folder = Folder(tmp_path, "a.txt")
    holder = os if after == "lstat" else os.path
    looked = getattr(holder, after)

    def swapped(path: str, *args: Any, **named: Any) -> Any:
        seen = looked(path, *args, **named)
        if str(path).endswith("a.txt") and not (folder.root / "a.txt").is_symlink():
            (folder.root / "a.txt").unlink()
            folder.link("a.txt", folder.outside / "secret.txt")
        return seen

    with monkeypatch.context() as patch:
        patch.setattr(holder, after, swapped)
        found = folder.expand("a.txt")

    assert (folder.root / "a.txt").is_symlink()
    for source in found:
        with raises_code("source_unreadable"):
            folder.sources.read(source)


@pytest.mark.parametrize(
    "path", ["a" * 300 + ".txt", "/".join(["d" * 200] * 20), "d/" * 2000 + "a"]
)
def test_very_long_path_names_no_file(tmp_path: Path, path: str) -> None:
    folder = Folder(tmp_path)
    assert len(folder.expand(path, f"{path[:-3]}*").unmatched) == 2


def test_unreadable_folder_is_an_error_and_not_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # If it counted as missing, a sync would remove it.
    folder = Folder(tmp_path, "a.txt")
    look = os.lstat

    def refuse(path: str, *args: Any, **named: Any) -> os.stat_result:
        if str(path).endswith("a.txt"):
            raise PermissionError(13, "Permission denied")
        return look(path, *args, **named)

    monkeypatch.setattr(os, "lstat", refuse)

    with raises_code("source_unreadable"):
        folder.expand("a.txt")


def test_linked_manifest_belongs_to_the_folder_of_the_link(tmp_path: Path) -> None:
    folder = Folder(tmp_path, "a.txt")
    (folder.outside / "m.jsonl").write_text('{"path": "a.txt"}')
    folder.link("m.jsonl", folder.outside / "m.jsonl")
    [source] = folder.sources.expand(str(folder.root / "m.jsonl"), [Entry(1, "a.txt")])
    assert source.path == str(folder.root / "a.txt")
    assert source.origin == str(folder.root / "m.jsonl")


def test_manifest_in_a_missing_folder_is_an_error(tmp_path: Path) -> None:
    sources = FileSources(supported)
    with raises_code("source_missing"):
        sources.expand(str(tmp_path / "gone" / "m.jsonl"), [Entry(1, "a.txt")])
    with raises_code("source_missing"):
        sources.read_manifest(str(tmp_path / "gone.jsonl"))
    with raises_code("source_unreadable"):
        sources.read_manifest(str(tmp_path))
