"""The page as people use it: a real server, the real local model, and a headless Chromium."""
