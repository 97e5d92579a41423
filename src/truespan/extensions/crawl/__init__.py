"""Sources that change by themselves: web pages, sitemaps and watched folders.

Owns: fetching pages, reading sitemaps, watching folders.
Does not own: ingestion of what was found (ingest).
Must hold: only hosts that the settings name are fetched.
"""
