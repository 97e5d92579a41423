"""Observers of the engine: traces, metrics and logs.

Owns: the export of requests, stages and counts to OpenTelemetry, Prometheus and the log.
Does not own: the events and their names; see `observer` and `types.telemetry`.
Must hold: only names and numbers are exported, never a text, an id or an exception's message.
"""
