"""The command line: parses, calls, prints. Nothing is computed here, and each command imports what it needs."""

import os
import signal


def main() -> None:
    """Run a command. Ctrl-C ends the program without a traceback, even while its own modules are imported."""
    is_default = signal.getsignal(signal.SIGINT) is signal.default_int_handler  # not in a thread, nor in the background
    if is_default:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    # PyTorch reads it on Linux: large tensors in huge pages, which takes 6 % off a training step on a CPU.
    os.environ.setdefault("THP_MEM_ALLOC_ENABLE", "1")
    from regard.cli import app

    if is_default:
        signal.signal(signal.SIGINT, signal.default_int_handler)  # from here on, commands clean up
    app.run_command()


__all__ = ["main"]
