"""Files as sources: found and skipped files, and hostile ones."""

import contextlib
import os
import posixpath
import re
import socket
import unicodedata
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from tests.promises import proves
from tests.support.failures import raises_code
from truespan.files import jail
from truespan.files.sources import FileSources
from truespan.parsing import supported
from truespan.types.source import DocumentOptions, FoundSources, Root, Source


def tree(folder: Path, *names: str) -> Path:
    """Write a small file under each name."""
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"This is {name}.")
    return folder


def find(*paths: Path | str) -> FoundSources:
    return FileSources(supported).find([str(path) for path in paths], DocumentOptions())


def names(found: FoundSources, folder: Path) -> list[str]:
    """Return the paths of the found files, relative to a folder."""
    root = os.path.realpath(folder)
    return [os.path.relpath(source.path, root) for source in found]


# Finding


def test_unsupported_files_are_skipped_and_counted(tmp_path: Path) -> None:
    tree(tmp_path, "a.txt", "b/c.md", "b/photo.png", "Makefile", ".hidden.txt", ".git/x.txt")
    found = find(tmp_path)
    assert names(found, tmp_path) == ["a.txt", "b/c.md"]
    assert (found.unsupported, found.unmatched) == (2, ())
    assert found.roots == (Root(os.path.realpath(tmp_path), 2),)


def test_manifest_in_a_folder_is_not_a_source(tmp_path: Path) -> None:
    tree(tmp_path, "a.txt")
    manifests = {
        "path.jsonl": '\ufeff\n{"path": "a.txt", "profile": "mine"}\n{"path": "b"}\n',
        "pattern.jsonl": '{"path": "deep/*.txt"}',
        "page.ndjson": '{"url": "https://docs.example/guide", "title": "Guide"}',
    }
    records = {
        # What is named is not there, a field is none of a manifest, or it is no JSON.
        "elsewhere.jsonl": '{"path": "no/such.txt"}',
        "links.jsonl": '{"url": "https://docs.example/guide", "text": "Words"}',
        "empty.jsonl": "",
        "words.jsonl": "words",
    }
    for name, content in {**manifests, **records}.items():
        (tmp_path / name).write_text(content, encoding="utf-8")

    found = find(tmp_path)
    confined = FileSources(supported).find(
        [str(tmp_path)], DocumentOptions(), within=[str(tmp_path)]
    )

    assert names(found, tmp_path) == names(confined, tmp_path) == sorted(["a.txt", *records])
    assert found.unsupported == len(manifests)
    # Named by itself, it is taken for what its name says.
    assert len(find(tmp_path / "path.jsonl")) == 1


def test_file_named_directly_is_always_a_source(tmp_path: Path) -> None:
    tree(tmp_path, "photo.png", ".hidden.txt")
    found = find(tmp_path / "photo.png", tmp_path / ".hidden.txt")
    assert names(found, tmp_path) == ["photo.png", ".hidden.txt"]
    assert found.roots == ()


def test_file_found_in_several_ways_is_listed_once(tmp_path: Path) -> None:
    tree(tmp_path, "a.txt", "photo.png")
    (tmp_path / "x").mkdir()
    link = tmp_path / "x" / "link.txt"
    link.symlink_to("../a.txt")
    found = find(
        tmp_path / "a.txt", tmp_path / "*", tmp_path / "*.txt", f"{tmp_path}/x/../a.txt", link
    )
    assert names(found, tmp_path) == ["a.txt"]
    assert found.unsupported == 1


def test_pattern_is_expanded_and_recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    tree(tmp_path, "a.md", "docs/b.md", "docs/deep/c.md", "docs/d.txt", "docs/.e/f.md")
    monkeypatch.chdir(tmp_path)
    root = os.path.realpath(tmp_path)
    assert names(find("docs/**/*.md"), tmp_path) == ["docs/b.md", "docs/deep/c.md"]
    assert names(find("*/[bd].*"), tmp_path) == ["docs/b.md", "docs/d.txt"]
    assert names(find("docs/../?.md"), tmp_path) == ["a.md"]
    assert find("docs/**/*.md").roots == (Root(f"{root}/docs", 2, "**/*.md"),)


def test_existing_name_with_wildcards_is_not_a_pattern(tmp_path: Path) -> None:
    tree(tmp_path, "[ab].txt", "a.txt", "dir [1]/c.txt")
    assert names(find(tmp_path / "[ab].txt"), tmp_path) == ["[ab].txt"]
    assert names(find(tmp_path / "dir [1]"), tmp_path) == ["dir [1]/c.txt"]


def test_pattern_without_matches_is_reported_and_not_an_error(tmp_path: Path) -> None:
    tree(tmp_path, "a.txt")
    found = find(tmp_path / "*.md", tmp_path / "a.txt", tmp_path / "*" / ".." / "a.txt")
    assert names(found, tmp_path) == ["a.txt"]
    assert found.unmatched == (f"{tmp_path}/*.md", f"{tmp_path}/*/../a.txt")


@pytest.mark.parametrize("path", ["gone.txt", "gone/*.txt", "a.txt/*", "a\0b", "gone\0/*.txt"])
def test_missing_path_is_an_error(tmp_path: Path, path: str) -> None:
    tree(tmp_path, "a.txt")
    with raises_code("source_missing"):
        find(tmp_path, tmp_path / path)


def test_links_to_folders_and_circular_links_are_skipped(tmp_path: Path) -> None:
    inside, outside = tree(tmp_path / "in", "a.txt"), tree(tmp_path / "out", "b.txt")
    (inside / "up").symlink_to("..")
    (inside / "out.txt").symlink_to(outside)
    (inside / "loop.txt").symlink_to("loop.txt")
    (inside / "ping.txt").symlink_to("pong.txt")
    (inside / "pong.txt").symlink_to("ping.txt")
    (inside / "dangling.txt").symlink_to("nowhere.txt")
    found = find(inside)
    assert names(found, inside) == ["a.txt"]
    assert found.unsupported == 6


def test_unreadable_folder_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tree(tmp_path, "a.txt", "locked/b.txt")
    scandir = os.scandir

    def refuse(path: str) -> object:
        if path.endswith("locked"):
            raise PermissionError
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refuse)

    with raises_code("source_unreadable", match="locked"):
        find(tmp_path)


def test_file_names_with_invalid_text_or_newlines_are_read(tmp_path: Path) -> None:
    strange = [b"\xff\xfe.txt", b"a\nb.txt", "ü.txt".encode(), b"  .txt", b"-rf.txt", b"$(x).txt"]
    for name in strange:
        Path(os.fsdecode(os.fsencode(tmp_path) + b"/" + name)).write_bytes(name)
    found = find(tmp_path)
    sources = FileSources(supported)
    assert sorted(sources.read(source) for source in found) == sorted(strange)
    assert len({source.doc_id for source in found}) == len(strange)
    for source in found:
        source.name.encode()


def test_folders_deeper_than_the_recursion_limit_are_read(tmp_path: Path) -> None:
    deep = 1200
    with contextlib.chdir(tmp_path):
        for _ in range(deep):
            os.mkdir("d")
            os.chdir("d")
        Path("deep.txt").write_text("Down here.")
        try:
            [source] = find(tmp_path)
            content = FileSources(supported).read(source)
        finally:
            # Whoever clears the folder of the tests away calls itself for each level.
            os.unlink("deep.txt")
            for _ in range(deep):
                os.chdir("..")
                os.rmdir("d")

    assert source.path.count("/d") >= deep
    assert content == b"Down here."


def test_ten_thousand_files_are_found_in_one_order(tmp_path: Path) -> None:
    for number in range(100):
        tree(tmp_path, *(f"{number:02}/{place:02}.txt" for place in range(100)))
    found = find(tmp_path)
    assert len(found) == 10_000
    assert names(found, tmp_path) == sorted(names(found, tmp_path))
    assert len({source.doc_id for source in found}) == 10_000


# Reading


def source_for(path: Path, *, origin: str = "") -> Source:
    return Source(str(path), path.name, "id", 0, origin=origin)


@pytest.mark.parametrize("origin", ["", "m.jsonl"])
def test_file_size_limit_is_inclusive(tmp_path: Path, origin: str) -> None:
    sources = FileSources(supported, max_bytes=10)
    path = Path(os.path.realpath(tmp_path)) / "a.txt"
    for content in (b"", b"x", b"x" * 10):
        path.write_bytes(content)
        assert sources.read(source_for(path, origin=origin)) == content
    path.write_bytes(b"x" * 11)
    with raises_code("source_too_large"):
        sources.read(source_for(path, origin=origin))


def test_huge_file_is_refused_unread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path = tmp_path / "huge.txt"
    with path.open("wb") as file:
        file.truncate(1 << 40)
    monkeypatch.setattr(os, "read", None)
    with raises_code("source_too_large"):
        FileSources(supported).read(source_for(path))


def test_growing_file_is_limited_while_it_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path = tmp_path / "log.txt"
    path.write_bytes(b"x")
    read = os.read

    def grow(opened: int, size: int) -> bytes:
        with path.open("ab") as file:
            file.write(b"x" * 50)
        return read(opened, size)

    monkeypatch.setattr(os, "read", grow)

    with raises_code("source_too_large"):
        FileSources(supported, max_bytes=1000).read(source_for(path))


@pytest.mark.parametrize("origin", ["", "m.jsonl"])
def test_special_file_is_refused_without_waiting(tmp_path: Path, origin: str) -> None:
    root = Path(os.path.realpath(tmp_path))
    os.mkfifo(root / "pipe.txt")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(root / "s.txt"))
    sources = FileSources(supported)
    for path in (root / "pipe.txt", root / "s.txt", root, Path("/dev/zero")):
        with raises_code("source_unreadable"):
            sources.read(source_for(path, origin=origin))


@pytest.mark.parametrize("origin", ["", "m.jsonl"])
def test_removed_file_is_missing(tmp_path: Path, origin: str) -> None:
    gone = source_for(Path(os.path.realpath(tmp_path)) / "gone" / "a.txt", origin=origin)
    with raises_code("source_missing"):
        FileSources(supported).read(gone)


def test_file_of_a_manifest_is_never_read_through_a_link(tmp_path: Path) -> None:
    root = tree(Path(os.path.realpath(tmp_path)), "in/real/a.txt", "out/a.txt")
    (root / "in/link.txt").symlink_to("real/a.txt")
    (root / "in/folder").symlink_to("real")
    (root / "top").symlink_to("in")
    sources = FileSources(supported)
    assert sources.read(source_for(root / "in/real/a.txt", origin="m")) == b"This is in/real/a.txt."
    for path in ("in/link.txt", "in/folder/a.txt", "top/real/a.txt"):
        with raises_code("source_unreadable", match="link"):
            sources.read(source_for(root / path, origin="m"))


def test_link_created_after_the_check_is_not_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tree(Path(os.path.realpath(tmp_path)), "in/a.txt", "out/a.txt")
    look = os.stat

    def swapped(name: str, **named: Any) -> os.stat_result:
        seen = look(name, **named)
        if name == "a.txt":
            (root / "in/a.txt").unlink()
            (root / "in/a.txt").symlink_to("../out/a.txt")
        return seen

    with monkeypatch.context() as patch:
        patch.setattr(os, "stat", swapped)
        with raises_code("source_unreadable", match="link"):
            FileSources(supported).read(source_for(root / "in/a.txt", origin="m"))

    assert (root / "in/a.txt").read_bytes() == b"This is out/a.txt."


@pytest.mark.parametrize("origin", ["", "m.jsonl"])
def test_special_file_is_not_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, origin: str
) -> None:
    # To open a device can mean something to it: a tape is wound back.
    root = Path(os.path.realpath(tmp_path))
    os.mkfifo(root / "pipe.txt")
    opened: list[str] = []
    open_file = os.open

    def noted(path: str, *args: Any, **named: Any) -> int:
        opened.append(os.path.basename(path))
        return open_file(path, *args, **named)

    monkeypatch.setattr(os, "open", noted)

    with raises_code("source_unreadable"):
        FileSources(supported).read(source_for(root / "pipe.txt", origin=origin))
    assert "pipe.txt" not in opened


def test_no_file_stays_open(tmp_path: Path) -> None:
    root = tree(Path(os.path.realpath(tmp_path)), "in/a.txt")
    (root / "in/link.txt").symlink_to("a.txt")
    os.mkfifo(root / "in/pipe.txt")
    sources = FileSources(supported, max_bytes=3)
    before = os.listdir("/proc/self/fd") if os.path.isdir("/proc/self/fd") else []
    for name in ("in/a.txt", "in/link.txt", "in/pipe.txt", "in/gone.txt", "gone/a.txt"):
        with raises_code("source_unreadable", "source_missing", "source_too_large"):
            sources.read(source_for(root / name, origin="m"))
    after = os.listdir("/proc/self/fd") if os.path.isdir("/proc/self/fd") else []
    assert len(after) == len(before)


def test_exists_distinguishes_missing_files(tmp_path: Path) -> None:
    sources = FileSources(supported)
    (tmp_path / "dangling").symlink_to("nowhere")
    assert sources.exists(str(tmp_path))
    assert sources.exists(str(tmp_path / "dangling"))
    assert not sources.exists(str(tmp_path / "gone"))
    assert not sources.exists("a\0b")


# Within folders


@proves("mcp.writes-opt-in")
def test_within_finds_nothing_outside_its_folders(tmp_path: Path) -> None:
    inside, other = tree(tmp_path / "in", "a.txt", "b/c.txt"), tree(tmp_path / "other", "d.txt")
    outside = tree(tmp_path / "out", "secret.txt")
    (inside / "out.txt").symlink_to(outside / "secret.txt")
    (inside / "way").symlink_to(outside)
    (inside / "over.txt").symlink_to(other / "d.txt")
    (inside / "dangling.txt").symlink_to(outside / "nowhere.txt")
    sources, within = FileSources(supported), [str(inside), str(other)]

    def find_within(*paths: str) -> FoundSources:
        given = [os.path.join(inside, path) for path in paths]
        return sources.find(given, DocumentOptions(), within=within)

    for path in (
        "../out/secret.txt", "../out/nowhere.txt", "../out/*.txt", "../*/secret.txt", "..",
        "out.txt", "way", "way/secret.txt", "way/*.txt", "dangling.txt", "b/../../out/secret.txt",
        str(outside), f"{inside}-side/x.txt",
    ):  # fmt: skip
        with raises_code("source_outside"):
            find_within("a.txt", path)
    found = find_within(".", "../other/d.txt")
    assert names(found, tmp_path) == ["in/a.txt", "in/b/c.txt", "other/d.txt"]
    assert all(source.confined for source in found)
    with raises_code("source_missing"):
        find_within("nowhere.txt")
    within = []
    with raises_code("source_outside"):
        find_within("a.txt")
    with raises_code("source_missing"):
        sources.find([str(inside)], DocumentOptions(), within=[str(tmp_path / "nowhere")])


@proves("mcp.writes-opt-in")
def test_within_follows_no_link_created_later(tmp_path: Path) -> None:
    inside, outside = tree(tmp_path / "in", "a.txt", "b/c.txt"), tree(tmp_path / "out", "c.txt")
    sources = FileSources(supported)
    first, second = sources.find([str(inside)], DocumentOptions(), within=[str(inside)])
    assert sources.read(first) == b"This is a.txt."

    (inside / "a.txt").unlink()
    (inside / "a.txt").symlink_to(outside / "c.txt")
    (inside / "b").rename(inside / "gone")
    (inside / "b").symlink_to(outside)

    for source in (first, second):
        with raises_code("source_unreadable", match="link"):
            sources.read(source)


def test_broken_sidecar_link_is_an_error(tmp_path: Path) -> None:
    tree(tmp_path, "a.txt", "b.txt", "b.txt.meta.json")
    (tmp_path / "c.txt").write_text("The link beside it leads nowhere.")
    (tmp_path / "c.txt.meta.toml").symlink_to(tmp_path / "gone.toml")
    plain, described, broken = find(tmp_path)
    files = FileSources(supported)
    assert files.read_sidecar(plain) is None
    assert files.read_sidecar(described) == ("b.txt.meta.json", b"This is b.txt.meta.json.")
    with raises_code("source_missing"):
        files.read_sidecar(broken)


def test_source_has_no_sidecar_only_if_its_folder_was_listed_without_any(tmp_path: Path) -> None:
    tree(tmp_path, "a/a.txt", "a/link.txt", "b/b.txt", "b/c.txt", "b/c.txt.Meta.TOML")
    (tmp_path / "a" / "link.txt").unlink()
    (tmp_path / "a" / "link.txt").symlink_to(tmp_path / "b" / "c.txt")

    def alone(path: Path, *, within: bool = False) -> dict[str, bool]:
        folders = [str(tmp_path)] if within else None
        found = FileSources(supported).find([str(path)], DocumentOptions(), within=folders)
        return {source.name: source.no_sidecar for source in found}

    assert alone(tmp_path) == {"a.txt": True, "link.txt": True, "b.txt": False, "c.txt": False}
    # Confined, the source is the target of the link, beside which there is a sidecar.
    assert alone(tmp_path / "a", within=True) == {"a.txt": True, "c.txt": False}
    assert alone(tmp_path / "*" / "[ab].txt") == {"a.txt": True, "b.txt": False}
    assert alone(tmp_path / "a" / "a.txt") == {"a.txt": False}


def test_shown_path_begins_with_the_searched_folder() -> None:
    rows = {
        ("/data/books", "/data/books/a.txt"): "books/a.txt",
        ("/data/books", "/data/books/x/y/a.txt"): "books/x/y/a.txt",
        ("/data/books", "/elsewhere/x/a.txt"): "x/a.txt",
        ("/data/books", "/data/books2/a.txt"): "books2/a.txt",
        ("/", "/a.txt"): "a.txt",
        ("/data/b\x1b", "/data/b\x1b/\udcff.txt"): "b\\x1b/\\xff.txt",
    }
    for (root, path), shown in rows.items():
        source = jail.make_source(path, 0, DocumentOptions(), root=root)
        assert source.shown_path == shown, path


def test_file_id_omits_the_extension() -> None:
    names = ["a.txt", "A b.c.txt", ".hidden", "..a.txt", "...", "a.", "Größe.md", "!.txt", "a" * 60]
    for name in names:
        stem = posixpath.splitext(name)[0]
        plain = unicodedata.normalize("NFKD", stem).encode("ascii", "ignore").decode().lower()
        expected = re.sub(r"[^a-z0-9]+", "-", plain).strip("-")[:48] or "document"
        digest = sha256(os.fsencode(f"/data/{name}")).hexdigest()[:8]
        source = jail.make_source(f"/data/{name}", 0, DocumentOptions(), root="/data")
        assert source.doc_id == f"{expected}-{digest}", name
