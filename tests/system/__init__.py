"""Tests that need programs outside Python packages.

Owns: documents made by LibreOffice and pandoc out of one text, and what our loaders make of them.
Does not own: the text itself and the results that are checked in, which every test run compares.
Must hold: a program that is missing is named as the reason for skipping; nothing outside the test's
own folder is written.
"""
