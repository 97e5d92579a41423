"""Those who keep watch: traces, metrics and logs.

Owns: how requests, stages and counts are told to OpenTelemetry, Prometheus and the log.
Does not own: what is told, and by which names; that is in `ports.watch` and `model.names`.
Must hold: names and numbers only leave here, never a text, an id, or what an exception says.
"""
