"""Measurements. Each module prints its own figures: `python -m bench.<name>`."""
