"""The Model Context Protocol: tools and resources for one reader's books or one world.

Owns: the tools and resources with their schemas and descriptions; which world or reader an
HTTP request is for; the process that an MCP client starts.
Does not own: what may be read, and how far (the engine decides with the authority it was opened
with); the protocol itself (the official SDK, whose package is also named `mcp`).
Must hold: no tool takes a reader; tools that write exist only where the operator and the token
allow them; descriptions, names and errors are fixed text, and document text appears in result
fields only, where it cannot imitate ours; unknown arguments are refused; what a reader has not read
is reported as if it did not exist; a session belongs to one token, world and reader; standard
output carries only the protocol.
"""
