"""The outside world behind the ports: one file for each technology and role.

Owns: every third-party client, process, socket and file format.
Does not own: any rule of retrieval; what a hit is worth is decided by the engine.
Must hold: an adapter keeps what its port promises and raises only errors of `truespan.errors`;
importing a module starts nothing.
"""
