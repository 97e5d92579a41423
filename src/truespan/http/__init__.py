"""The HTTP door: requests in, JSON, events and problem details out.

Owns: addresses and methods, reading bodies within limits, hosts, origins, tokens and rates at the
door, problem details, server-sent events, the OpenAPI document, the processes that serve.
Does not own: what may be done (the engine decides under the authority that a token gives); the
protocols (Starlette and uvicorn); the page's looks (`doors.page`); MCP (`doors.mcp`).
Must hold: every answer comes from the engine under the caller's authority; one type is both what a
body must be and what the OpenAPI document says of it; every error is a problem with a stable code;
nothing of a query, a document or a token is written to a log.
"""
