"""Libraries on servers: PostgreSQL, a Qdrant server, and workers in processes of their own.

Owns: the technology of these servers, and the queue of jobs in PostgreSQL.
Does not own: the SQL of the tables, which is written once for both stores.
Must hold: the contract suites of stores and indexes pass unchanged.
"""
