"""``python -m pgrag``."""

from pgrag.cli import main

main()
