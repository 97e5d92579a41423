"""Parsers in a restricted subprocess: the client, and the process that it starts."""
