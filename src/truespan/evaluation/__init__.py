"""evaluation/__init__.py"""
