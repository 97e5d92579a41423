"""Doors: ways to reach the engine from outside.

Owns: arguments and shapes, how results and errors look to each kind of caller.
Does not own: any decision about what is found, shown or allowed.
Must hold: the same request gives the same answer and the same error code at every door.
"""
