"""Database engines: sessions and transactions on SQLite and PostgreSQL."""
