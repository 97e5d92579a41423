"""index/__init__.py"""
