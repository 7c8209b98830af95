"""Synchronous sessions, generated from ``pgrag/_async`` by ``tools/unasync.py``; ``_flavour.py`` is not."""
