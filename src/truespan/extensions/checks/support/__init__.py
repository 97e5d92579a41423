"""Support check: the claims of an answer compared with the passages that it was given."""
