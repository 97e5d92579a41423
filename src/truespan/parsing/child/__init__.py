"""The child process in which documents are parsed."""
