"""A watched folder: changes, renames and deletions become jobs, and no error ends the watch."""

import json
import os
import shutil
import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event
from zipfile import ZipFile

import pytest

import truespan
from tests.promises import proves
from tests.support.failures import raises_code
from tests.support.sample_texts import story
from tests.support.worlds import LibraryFixture, ManualClock, WordEmbedder, make_library
from truespan.errors import (
    InvalidArgument,
    InvalidConfiguration,
    ProviderUnavailable,
    TruespanError,
)
from truespan.extensions.crawl.command import follow_folders
from truespan.extensions.crawl.watch import FolderWatcher
from truespan.extensions.crawl.watching import Watch
from truespan.ingest.report import IngestReport
from truespan.parsing import supported
from truespan.types.job import JobState
from truespan.types.vectors import Vector

Action = Callable[[], object]


@dataclass
class ScriptedWatcher:
    """Runs the next step of a script whenever the watch waits, and stops it at the end.

    `pauses` are done while the watch waits for files to settle, or after an error.
    """

    clock: ManualClock = field(default_factory=ManualClock)
    changes: list[Action] = field(default_factory=list)
    pauses: list[Action] = field(default_factory=list)
    waited: list[float] = field(default_factory=list)
    paused: list[float] = field(default_factory=list)

    def wait(self, seconds: float, stop: Event) -> bool:
        self.waited.append(seconds)
        self.clock.time += seconds
        if self.changes:
            self.changes.pop(0)()
        else:
            stop.set()
        return True

    def pause(self, seconds: float, stop: Event) -> None:
        self.paused.append(seconds)
        if self.pauses:
            self.pauses.pop(0)()

    def close(self) -> None: ...


@dataclass
class Scene:
    """A world over a folder, and a script of changes to the folder."""

    lib: LibraryFixture
    watcher: ScriptedWatcher
    errors: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.folder = self.lib.folder / "files"
        self.folder.mkdir(exist_ok=True)
        self.world = self.lib.library.create_world("world")

    def write(self, name: str, text: str) -> Action:
        return lambda: self.lib.write(name, text)

    def rename(self, before: str, after: str) -> Action:
        return lambda: os.rename(self.folder / before, self.folder / after)

    def remove(self, name: str) -> Action:
        return lambda: os.remove(self.folder / name)

    def watch(self, *changes: Action, allow_empty: bool = False) -> Watch:
        self.watcher.changes = list(changes)

        def on_error(error: TruespanError, pause: float) -> None:
            self.errors.append(f"{error.code} {pause:.0f}")

        return self.world.documents.watch(
            str(self.folder), on_error=on_error, allow_empty=allow_empty
        )

    def run(self, *changes: Action) -> list[str]:
        return [outcome(report) for report in self.watch(*changes)]

    def names(self) -> list[str]:
        return sorted(document.name for document in self.world.documents.list())


def outcome(report: IngestReport) -> str:
    """Return the outcome of a job in a few words."""
    parts = [f"+{name}" for name in sorted(report.ingested)]
    parts += [f"={report.unchanged}"] if report.unchanged else []
    parts += [f"-{Path(path).name}" for path in report.removed]
    parts += [f"{Path(moved.before).name}>{Path(moved.after).name}" for moved in report.moved]
    return " ".join([*parts, *(f"!{failure.name}" for failure in report.failures)])


class FlakyEmbedder(WordEmbedder):
    """An embedder that fails while `down` is set."""

    down = False

    def embed_documents(self, texts: object) -> list[Vector]:
        if self.down:
            raise ProviderUnavailable("down")
        return super().embed_documents(texts)  # type: ignore[arg-type]


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    clock = ManualClock()
    watcher = ScriptedWatcher(clock)
    return Scene(make_library(tmp_path, clock=clock, watcher=watcher), watcher)


def test_watching_without_its_package_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "watchfiles", None)
    (tmp_path / "files").mkdir()
    with truespan.open(tmp_path / "library", create=True) as library:
        world = library.world(create=True)
        with pytest.raises(InvalidConfiguration) as refusal:
            world.documents.watch(tmp_path / "files")
    assert "the extra 'watch'" in refusal.value.advice


@proves("watch.in-step")
def test_changes_renames_and_deletions_become_jobs_one_at_a_time(scene: Scene) -> None:
    scene.write("a.txt", story(5))()
    scene.write("b.txt", story(5, "garden"))()

    done = scene.run(
        scene.write("a.txt", story(6)), scene.rename("b.txt", "c.txt"),
        scene.write("d.txt", story(4, "tower")), scene.remove("a.txt"), lambda: None,
        lambda: os.utime(scene.folder / "c.txt"),
    )  # fmt: skip

    assert done == ["+a.txt +b.txt", "+a.txt", "=1 b.txt>c.txt", "+d.txt", "-a.txt", "=1"]
    assert scene.names() == ["c.txt", "d.txt"]
    assert {job.state for job in scene.world.jobs.list()} == {JobState.DONE}
    assert len(scene.world.jobs.list()) == len(done)
    assert scene.errors == []


def test_changes_before_watching_are_processed(scene: Scene) -> None:
    for name in ("a.txt", "b.txt", "c.txt"):
        scene.write(name, story(5, name))()
    scene.run()
    texts = len(scene.lib.embedder.documents)
    scene.remove("a.txt")()
    scene.rename("b.txt", "new.txt")()
    assert scene.run() == ["=2 -a.txt b.txt>new.txt"]
    assert len(scene.lib.embedder.documents) == texts


def test_saving_through_a_second_file_is_one_change(scene: Scene) -> None:
    scene.write("a.txt", story(5))()
    watcher = scene.watcher
    # The file is moved away, written anew beside, and renamed, with a look after each.
    watcher.pauses = [
        scene.write("a.tmp.txt", story(6)),
        lambda: os.replace(scene.folder / "a.tmp.txt", scene.folder / "a.txt"),
    ]
    assert scene.run(scene.rename("a.txt", "a.txt~")) == ["+a.txt", "+a.txt"]
    assert [document.number for document in scene.world.documents.list()] == [1]


def test_growing_file_is_awaited_without_delaying_others(scene: Scene) -> None:
    scene.write("a.txt", story(2))()

    def grow(size: int) -> Action:
        return scene.write("big.txt", story(size))

    scene.watcher.pauses = [grow(size) for size in range(3, 30)]

    def both() -> None:
        grow(2)()
        scene.write("small.txt", story(3, "garden"))()

    assert scene.run(both) == ["+a.txt", "+small.txt", "+big.txt"]
    assert "Sentence 28" in scene.world.documents.text("big.txt")


@proves("watch.in-step")
def test_emptied_or_missing_folder_removes_nothing_unless_allowed(scene: Scene) -> None:
    scene.write("a.txt", story(5))()
    aside = scene.lib.folder / "aside"

    def unmount() -> None:
        scene.folder.rename(aside)
        scene.folder.mkdir()

    def vanish() -> None:
        scene.folder.rmdir()

    def remount() -> None:
        aside.rename(scene.folder)

    scene.watcher.pauses = [vanish, lambda: None, remount]

    assert scene.run(unmount, scene.write("b.txt", story(4))) == ["+a.txt", "+b.txt"]
    assert scene.names() == ["a.txt", "b.txt"]
    assert scene.errors == ["invalid_argument 1", "source_missing 2", "source_missing 4"]

    def empty() -> None:
        shutil.rmtree(scene.folder)
        scene.folder.mkdir()

    allowed = [outcome(report) for report in scene.watch(empty, allow_empty=True)]
    assert allowed == ["=2", "-a.txt -b.txt"]


@proves("watch.survives")
def test_errors_are_reported_and_tried_again_with_growing_pauses(tmp_path: Path) -> None:
    clock = ManualClock()
    watcher, embedder = ScriptedWatcher(clock), FlakyEmbedder()
    scene = Scene(make_library(tmp_path, clock=clock, watcher=watcher, embedder=embedder), watcher)
    embedder.down = True
    scene.write("a.txt", story(5))()

    def mend() -> None:
        embedder.down = False

    watcher.pauses = [lambda: None, lambda: None, mend]

    assert scene.run() == ["+a.txt"]
    assert scene.errors == [f"provider_unavailable {pause}" for pause in (1, 2, 4)]


@proves("watch.survives")
def test_refused_file_is_tried_again_later_or_when_it_changes(scene: Scene) -> None:
    scene.write("a.pdf", "%PDF-1.7 and nothing else")()
    watcher = scene.watcher

    done = scene.run(
        # It is due after a minute, then after two more.
        lambda: None,
        lambda: None,
        lambda: None,
        scene.write("a.pdf", "%PDF-1.7 and nothing more"),
        scene.remove("a.pdf"),
        lambda: None,
    )

    assert done == ["!a.pdf"] * 4
    assert watcher.waited[:2] == [60.0, 60.0]
    assert scene.names() == []
    # Nothing is left to be tried.
    assert watcher.waited[-1] == 60.0


def test_cancelled_job_does_not_begin_again_until_something_changes(scene: Scene) -> None:
    scene.write("a.txt", story(5))()
    scene.write("b.txt", story(5, "garden"))()
    world = scene.world

    def cancel(_progress: object) -> None:
        if len(world.jobs.list()) == 1:
            world.jobs.cancel(world.jobs.list()[0].id)

    scene.watcher.changes = [lambda: None, scene.write("b.txt", story(7, "garden"))]
    errors: list[str] = []
    watch = world.documents.watch(
        str(scene.folder),
        on_error=lambda error, _pause: errors.append(error.code),
        on_progress=cancel,
    )

    assert [outcome(report) for report in watch] == ["+b.txt"]
    assert errors == ["cancelled"]


def test_stop_interrupts_the_running_job_and_ends_the_iteration(scene: Scene) -> None:
    scene.write("a.txt", story(5))()
    scene.write("b.txt", story(5, "garden"))()
    watch = scene.world.documents.watch(str(scene.folder), on_progress=lambda _: watch.stop())
    assert list(watch) == []
    assert [job.state for job in scene.world.jobs.list()] == [JobState.INTERRUPTED]
    assert scene.run() == ["+a.txt +b.txt"]


def test_changed_sidecar_changes_the_labels_of_its_document(scene: Scene) -> None:
    scene.write("a.txt", story(5))()
    assert scene.run(scene.write("a.txt.meta.toml", 'tags = ["sea"]')) == ["+a.txt", "=1"]
    assert scene.world.documents.get("a.txt").tags == ("sea",)


def test_members_of_a_changed_archive_are_kept_in_step(scene: Scene) -> None:
    def pack(*names: str) -> None:
        with ZipFile(scene.folder / "a.zip", "w") as archive:
            for name in names:
                archive.writestr(name, story(5, name))

    pack("one.txt", "two.txt")
    scene.write("other.txt", story(3))()

    done = scene.run(
        lambda: pack("two.txt", "three.txt"),
        scene.remove("other.txt"),
        scene.rename("a.zip", "b.zip"),
    )

    assert done == [
        "+one.txt +other.txt +two.txt", "+three.txt =1 -one.txt", "-other.txt",
        "=2 two.txt>two.txt three.txt>three.txt",
    ]  # fmt: skip


def test_only_existing_folders_can_be_watched(scene: Scene) -> None:
    path = scene.lib.write("a.txt", story(2))
    with pytest.raises(InvalidArgument, match="Only folders"):
        scene.world.documents.watch(path)
    with pytest.raises(InvalidArgument, match="Only folders"):
        scene.world.documents.watch([str(scene.folder), f"{scene.folder}/*.txt"])
    with raises_code("source_missing"):
        scene.world.documents.watch(f"{scene.folder}/none")


def test_system_reports_changes_of_sources_and_notices_a_replaced_folder(tmp_path: Path) -> None:
    folder, stop = tmp_path / "folder", Event()
    (folder / "sub").mkdir(parents=True)
    watcher = FolderWatcher([str(folder)], supported)

    # The first call begins to watch, and asks for a look because of what happened before.
    assert watcher.wait(60.0, stop)
    (folder / "sub" / "a.txt").write_text("one")
    assert watcher.wait(60.0, stop)
    shutil.rmtree(folder)
    assert watcher.wait(60.0, stop)
    assert watcher.wait(0.0, stop)
    folder.mkdir()
    assert watcher.wait(60.0, stop)
    (folder / "b.txt").write_text("two")
    assert watcher.wait(60.0, stop)
    stop.set()
    while watcher.wait(60.0, stop):
        """Events that were waiting come first."""


@proves("watch.survives")
def test_command_prints_a_line_for_each_job_and_ends_by_a_signal(
    scene: Scene, capsys: pytest.CaptureFixture[str]
) -> None:
    scene.write("a.txt", story(5))()
    scene.watcher.changes = [
        lambda: [scene.write(f"{place}.txt", story(place, "garden"))() for place in range(2, 7)],
        scene.rename("a.txt", "b.txt"),
        lambda: shutil.rmtree(scene.folder),
    ]
    scene.watcher.pauses = [
        *[lambda: None] * 2,
        # After the folder was found missing, twice.
        lambda: None,
        lambda: signal.raise_signal(signal.SIGTERM),
    ]
    before = signal.getsignal(signal.SIGTERM)

    assert follow_folders(scene.world, [str(scene.folder)], {}, as_json=False) == 0

    out, err = capsys.readouterr()
    assert out.splitlines() == [
        "ingested a.txt; 1 text embedded",
        "ingested 2.txt, 3.txt, 4.txt and 2 more; 5 texts embedded",
        "1 unchanged; moved files/a.txt to files/b.txt; 0 texts embedded",
    ]
    # On a slow machine there are lines of progress in between.
    assert err.startswith("Watching. Ctrl-C stops it.\n")
    assert err.endswith("Next attempt in 1 s.\n")
    assert signal.getsignal(signal.SIGTERM) is before

    scene.folder.mkdir()
    scene.write("b.pdf", "%PDF-1.7 and nothing")()
    scene.watcher.pauses = [lambda: signal.raise_signal(signal.SIGINT)]
    follow_folders(scene.world, [str(scene.folder)], {"allow_empty": True}, as_json=True)
    first, *_ = capsys.readouterr().out.splitlines()
    report = json.loads(first)
    assert [failure["code"] for failure in report["failures"]] == ["source_broken"]
    assert len(report["removed"]) == 6
