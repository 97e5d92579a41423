"""Sources that change by themselves: web pages, sitemaps and watched folders.

Owns: fetching pages, reading sitemaps, watching folders, comparing sources with their documents.
Does not own: ingestion of what was found (ingest).
Must hold: only hosts that the settings name are fetched.
"""

from __future__ import annotations

from truespan.tables import Tables

_HERE = "truespan.extensions.crawl"


def register(tables: Tables) -> None:
    """Add web pages as sources, two methods of `Documents`, and `truespan ingest --watch`."""
    tables.components["pages"] = f"{_HERE}.web:make_pages"
    tables.components["watch_folders"] = f"{_HERE}.watch:watch_folders"
    tables.members["Documents.freshness"] = f"{_HERE}.freshness:freshness_of"
    tables.members["Documents.watch"] = f"{_HERE}.watching:watch"
    tables.members["cli.follow_folders"] = f"{_HERE}.command:follow_folders"
