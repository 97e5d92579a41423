"""Statements by subject: worlds, documents, chunks, readers, conversations, jobs, records."""
