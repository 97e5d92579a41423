"""The HTTP interface: requests in; JSON, server-sent events and problem details out.

Owns: operations and their handlers, reading bodies within limits, checks of hosts, origins, tokens
and rates, problem details, server-sent events, the OpenAPI document, the server processes.
Does not own: what a caller may do (the engine decides with the token's authority); the protocol
(Starlette and uvicorn); the files of the web page (`web`); MCP (`truespan.extensions.server.mcp`).
Must hold: every reply comes from the engine with the caller's authority; one type validates a body
and is its schema in the OpenAPI document; every error is a problem with a stable code; no log
contains text of a query, a document or a token.
"""
