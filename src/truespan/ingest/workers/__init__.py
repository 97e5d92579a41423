"""Worker processes that make drafts: their client, and the process itself."""
