"""Shared helpers of tests: fixtures, loopback services, makers of documents and processes."""
