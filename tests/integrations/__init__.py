"""Tests that need the frameworks themselves: LangChain, LlamaIndex and Haystack.

Owns: the results of each adapter, and the examples and the page about them. Does not own: what is
found (the engine's tests), and what the adapters share (tests/interfaces). Must hold: a framework
that is missing is named as the reason for skipping; nothing is asked of any other machine.
"""
