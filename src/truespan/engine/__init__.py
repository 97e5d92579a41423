"""Moving a library from one store to another."""
