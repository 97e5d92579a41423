"""The engine: a library and its worlds, as every door uses them.

Owns: what can be asked of a library, world and reader, and which parts carry it out.
Does not own: the stages themselves (ingest, query, reading, answer, upkeep), technology (adapters),
which parts there are (compose), how things look outside (doors).
Must hold: nothing is done that the holder's authority does not allow; a request means one
generation of one world from beginning to end.
"""
