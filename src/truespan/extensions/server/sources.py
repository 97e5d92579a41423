"""Sources that callers of a server may add without a file: web pages and the sample book."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.resources import files
from typing import Unpack

from truespan.engine.world import World
from truespan.errors import InvalidArgument
from truespan.types.job import IngestJob, Job
from truespan.types.source import DocumentArguments, Upload, is_page

SAMPLE_NAME = "the-glass-ferry.md"


def ingest_pages(
    world: World,
    urls: Sequence[str] = (),
    *,
    sitemap: str | None = None,
    prune: bool = False,
    **options: Unpack[DocumentArguments],
) -> Job:
    """Queue web pages, or the pages of a sitemap. Unlike `World.ingest`, never reads a file."""
    if not all(isinstance(url, str) and is_page(url) for url in urls):
        raise InvalidArgument("The address of a page must begin with http:// or https://.")
    return world.jobs.submit(IngestJob(urls, sitemap=sitemap, prune=prune, **options))


def sample_book() -> Upload:
    """Return the sample book of the package as an upload."""
    return Upload(SAMPLE_NAME, files("truespan.ingest").joinpath(SAMPLE_NAME).read_bytes())
