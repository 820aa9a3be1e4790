"""The command line: parse, call, print. Nothing is computed here, and nothing heavy is imported to say hello."""

from regard.cli.app import main

__all__ = ["main"]
