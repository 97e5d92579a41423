"""The doctor: the faults of a library, a plan to repair it, and applying the plan.

Owns: comparing store and index both ways, checks for leaks, plans, and applying them.
Does not own: embedding (ingest), damage at read time (retrieval), files and settings (wiring).
Must hold: an examination changes no result; an item of a plan is applied only if its state is
unchanged; the store is trusted only where its own hashes agree; what cannot be repaired is reported
each time.
"""
