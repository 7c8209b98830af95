"""PostgreSQL as the evidence boundary of a retrieval-augmented generation system."""

__version__ = "0.1.0"
