"""Observers of the engine: traces, metrics and logs.

Owns: how requests, stages and counts reach OpenTelemetry, Prometheus and the log.
Does not own: what is observed and under which names; see `observer` and `types.telemetry`.
Must hold: only names and numbers leave here, never a text, an id or the message of an exception.
"""
