"""Programs that run longer than a test: fuzzers, long proofs, stress."""
