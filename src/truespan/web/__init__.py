"""web/__init__.py"""
