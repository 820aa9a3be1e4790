"""Runs commands of Regard one after the other in this process, and exits with 1 if one fails.

    python commands.py COMMANDS

COMMANDS is JSON, a list of lists of arguments. A server gets a request and then Ctrl-C. A training that is listed twice
is stopped after a few steps and then continued.
"""

from __future__ import annotations

import _thread
import json
import signal
import sys
import time
from threading import Thread
from urllib.error import URLError
from urllib.request import Request, urlopen

from regard.cli import main
from regard.training import progress_display as progress

SERVER = "http://127.0.0.1:{}/api/translate"
STOPPED = 128 + signal.SIGINT


def run(arguments: list[str]) -> int:
    sys.argv = ["regard", *arguments]
    try:
        main()
    except SystemExit as end:
        return int(end.code or 0)
    return 0


def use_server(port: str) -> None:
    """Translate a text as soon as the server answers, then press Ctrl-C."""
    body, kind = json.dumps({"texts": ["abc"]}).encode(), {"Content-Type": "application/json"}
    try:
        for _ in range(600):
            try:
                with urlopen(Request(SERVER.format(port), body, kind), timeout=60) as response:
                    print("served:", len(json.load(response)["translations"]), "translation", flush=True)
                    return
            except URLError:  # not ready yet
                time.sleep(0.1)
    finally:
        _thread.interrupt_main(signal.SIGINT)


def stop_after_steps(steps: int) -> None:
    """Make the next training receive Ctrl-C after a number of steps."""
    original, left = progress.LineProgress.on_step_end, [steps]

    def on_step_end(self: progress.LineProgress, *arguments: object) -> None:
        left[0] -= 1
        if left[0] == 0:
            signal.raise_signal(signal.SIGINT)
        original(self, *arguments)

    progress.LineProgress.on_step_end = on_step_end


commands = json.loads(sys.argv[1])
for number, command in enumerate(commands):
    expected = 0
    if command[0] == "serve":
        Thread(target=use_server, args=[command[command.index("--port") + 1]], daemon=True).start()
        expected = STOPPED
    if command in commands[number + 1 :]:
        stop_after_steps(5)
        expected = STOPPED
    started = time.process_time()
    code = run(command)
    print(f"{command[0]}: {time.process_time() - started:.1f} s of CPU", file=sys.stderr, flush=True)
    if code != expected:
        sys.exit(f"{command}: exit code {code}, not {expected}")
    if "torch._dynamo" in sys.modules:
        sys.exit(f"{command}: imports torch's compiler, which takes as long as to import torch")
