"""Loaders: a module or package for each file format, from bytes to blocks."""
