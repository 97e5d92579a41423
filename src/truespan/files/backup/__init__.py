"""One file that holds a library: written, verified, and restored.

Owns: the archive, its order of writing, the checks on every byte that is read back.
Does not own: what the store's copy holds (sqlite_store), the index, which is built from the store.
Must hold: a file under its final name is whole and was read back; nothing of an archive becomes a
path or takes room before the manifest was believed; a library is restored whole or not at all.
"""
