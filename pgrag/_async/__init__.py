"""Asynchronous sessions, written by hand; ``pgrag/_sync`` is generated from here by ``tools/unasync.py``."""
