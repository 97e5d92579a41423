"""Tests of the page with a real server, the real local model, and headless Chromium."""
