"""Synchronous sessions, generated from ``pgrag/_async`` by ``tools/unasync.py``; only ``_flavour.py`` is not."""
