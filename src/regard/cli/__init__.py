"""The command line: parses, calls, prints. Nothing is computed here, and each command imports what it needs."""

from regard.cli.app import main

__all__ = ["main"]
