"""The Model Context Protocol: what a model may ask of one reader's books, or of one world.

Owns: the tools, resources and prompts, their schemas and their words; which world or reader a
request over HTTP is for; the process that a client starts and ends.
Does not own: what may be read, and how far (the engine decides under the authority it was opened
with); the protocol itself (the official SDK, whose package is also named `mcp`).
Must hold: no tool takes or moves a position, or names a reader; descriptions, names and errors are
fixed words, and text out of documents stands in result fields only; an argument that no tool has is
refused; what a reader has not read is answered for as what does not exist; a session is of the
token, world and reader that it was begun for; standard output carries the protocol alone.
"""
