"""jobs/__init__.py"""
