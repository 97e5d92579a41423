"""Support check: which claims of an answer stand in the passages that it was given."""
