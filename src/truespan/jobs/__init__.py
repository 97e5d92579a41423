"""Background jobs on a thread of this process or on workers over PostgreSQL.

Owns: queues, workers, retries, uploads that wait for their job.
Does not own: the work of a job on documents (ingest, maintenance); its record (store).
Must hold: a submitted job runs, fails or is recorded as interrupted, even if a process dies.
"""
