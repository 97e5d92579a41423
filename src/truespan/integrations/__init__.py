"""integrations/__init__.py"""
