"""Web pages over HTTP: a job fetches them from the hosts that the operator allows."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.interfaces.http_client import Client, serve_library, until
from tests.promises import proves
from tests.support.providers.bench import TickingClock
from tests.support.web_server import WebServer, page
from tests.support.worlds import make_library
from truespan.engine.library import Library
from truespan.extensions.crawl.web import WebPages
from truespan.extensions.server.http.app import ServerOptions
from truespan.types.job import JobState


@pytest.fixture
def library(tmp_path: Path) -> Iterator[Library]:
    clock = TickingClock()
    pages = WebPages(["127.0.0.1"], clock=clock, version="1", max_bytes=1 << 20, private=True)
    with make_library(tmp_path, clock=clock, pages=pages).library as opened:
        opened.create_world("w")
        yield opened


@pytest.fixture
def client(library: Library) -> Iterator[Client]:
    with serve_library(library, ServerOptions()) as asking:
        yield asking


@proves("pages.in-step")
def test_pages_of_allowed_hosts_become_documents(client: Client, library: Library) -> None:
    world = library.world("w")

    def ingest(**body: object) -> tuple[JobState, dict[str, str | None]]:
        accepted = client.json("POST", "/v1/worlds/w/sources", body)
        assert accepted.status == 202
        job = accepted.content["job"]["id"]
        until(lambda: world.jobs.get(job).state not in (JobState.QUEUED, JobState.RUNNING))
        return world.jobs.get(job).state, {one.name: one.code for one in world.jobs.documents(job)}

    with WebServer({"/guide": page("<title>Guide</title><p>The ferry leaves at four.")}) as server:
        urls = [server.url("/guide"), server.url("/absent")]

        state, outcomes = ingest(urls=urls, tags=["web"])

        [document] = world.documents.list()
        assert (state, outcomes) == (JobState.DONE, {"guide": None, "absent": "source_missing"})
        assert (document.title, document.source_url) == ("Guide", urls[0])
        found = client.json("GET", "/v1/worlds/w/documents").content["documents"]
        assert [(one["title"], one["tags"]) for one in found] == [("Guide", ["web"])]
        server.pages.clear()
        ingest(urls=urls[:1], prune=True)
    assert world.documents.list() == []


def test_other_addresses_are_refused_before_a_job_is_created(client: Client, library: Library):
    for url in (
        "http://elsewhere.example/",
        "ftp://127.0.0.1/a",
        "/etc/passwd",
        "http://a@127.0.0.1/",
    ):
        refused = client.json("POST", "/v1/worlds/w/sources", {"urls": [url]})
        assert (refused.status, refused.code) == (400, "invalid_argument"), url
    assert library.world("w").jobs.list() == []
