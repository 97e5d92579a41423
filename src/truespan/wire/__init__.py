"""Replies as JSON, shared by the command line, HTTP and MCP.

Owns: records, errors and exit codes as data.
Does not own: a protocol, or any decision.
Must hold: one name for one thing on every interface.
"""
