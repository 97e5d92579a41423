"""A library and its worlds: the classes that every interface calls.

Owns: the public classes (library, world, reader, documents, generations, conversation) and their
shared parts: access, jobs, tokens, idempotency, ingestion, evaluation, the doctor. Does not own:
technology (given as roles) and protocols of interfaces. Must hold: each call checks the caller's
authority before it reads anything.
"""
