"""`regard serve`: serve runs over HTTP until a signal arrives."""

from __future__ import annotations

import gc
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from ipaddress import ip_address
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from regard.cli import options
from regard.errors import UserError, printable
from regard.serving.limits import Limits
from regard.terminal.output import note, print_result

LIMITS_PANEL, ACCESS_PANEL = "Limits", "Access"  # headings in the help


def serve_command(
    runs: options.SeveralRuns,
    port: Annotated[int, typer.Option(help="The port to listen on; 0 is any free port.")] = 8000,
    open_: Annotated[bool, typer.Option("--open", help="Open the page in a browser.")] = False,
    device: options.Device = "auto",
    precision: options.Precision = options.PrecisionName.float32,
    trust_code: options.TrustCode = False,
    host: Annotated[
        str,
        typer.Option(
            help="The address to listen on: 127.0.0.1 accepts this machine only, 0.0.0.0 every network.",
            rich_help_panel=ACCESS_PANEL,
        ),
    ] = "127.0.0.1",
    token: Annotated[
        str | None,
        typer.Option(
            envvar="REGARD_TOKEN",
            help="The token that every API request needs; safer in the environment, where other users cannot see it.",
            rich_help_panel=ACCESS_PANEL,
        ),
    ] = None,
    allow_origin: Annotated[
        list[str] | None,
        typer.Option(
            metavar="URL",
            help="An origin whose pages may call the API, besides the server's own.",
            rich_help_panel=ACCESS_PANEL,
        ),
    ] = None,
    max_characters: Annotated[
        int, typer.Option(help="Characters in one text.", rich_help_panel=LIMITS_PANEL)
    ] = Limits.characters,
    max_texts: Annotated[int, typer.Option(help="Texts in one request.", rich_help_panel=LIMITS_PANEL)] = Limits.texts,
    max_beam: Annotated[
        int, typer.Option(help="Beam width, and hypotheses per text.", rich_help_panel=LIMITS_PANEL)
    ] = Limits.beam,
    max_waiting: Annotated[
        int, typer.Option(help="Texts in the queue.", rich_help_panel=LIMITS_PANEL)
    ] = Limits.waiting,
    max_seconds: Annotated[
        float, typer.Option(help="Seconds until a response.", rich_help_panel=LIMITS_PANEL)
    ] = Limits.seconds,
    max_memory: Annotated[
        float, typer.Option(help="Megabytes for one batch, as estimated.", rich_help_panel=LIMITS_PANEL)
    ] = Limits.memory,
    max_batch: Annotated[
        int, typer.Option(help="Texts in one batch of several requests.", rich_help_panel=LIMITS_PANEL)
    ] = Limits.batch,
    max_connections: Annotated[
        int, typer.Option(help="Open connections.", rich_help_panel=LIMITS_PANEL)
    ] = Limits.connections,
    max_client_connections: Annotated[
        int,
        typer.Option(
            help="Open connections of one client address; raise it for a proxy.", rich_help_panel=LIMITS_PANEL
        ),
    ] = Limits.client_connections,
    max_idle_seconds: Annotated[
        float,
        typer.Option(help="Seconds that a connection may be open without a request.", rich_help_panel=LIMITS_PANEL),
    ] = Limits.idle_seconds,
) -> None:
    """`regard serve`."""
    from regard.serving.access import normalize_origin, validate_token

    try:
        limits = Limits(
            characters=max_characters,
            texts=max_texts,
            beam=max_beam,
            waiting=max_waiting,
            seconds=max_seconds,
            memory=max_memory,
            batch=max_batch,
            connections=max_connections,
            client_connections=max_client_connections,
            idle_seconds=max_idle_seconds,
        )
    except UserError as error:  # its message begins with the limit's name
        raise UserError(f"--max-{error}") from None
    origins = [normalize_origin(origin) for origin in allow_origin or []]
    run_server(runs, (host, port), limits, None if token is None else validate_token(token), origins, open_)


def run_server(
    runs: list[Path],
    address: tuple[str, int],
    limits: Limits,
    token: str | None,
    origins: list[str],
    open_in_browser: bool,
) -> NoReturn:
    """Serve until a signal arrives, then exit with 128 + its number.

    Args:
        runs: Run directories.
        address: Host and port to listen on.
        limits: Limits on requests.
        token: The bearer token of the API; None: no token.
        origins: Origins whose pages may send requests.
        open_in_browser: True to open the page in a browser.
    """
    from regard.serving.log_format import log_to_stderr
    from regard.serving.server import Server, listen, open_browser, server_url

    # Listen before the slow import of torch, so that a taken port fails fast.
    with exit_on_sigterm(), listen(*address) as server_socket, log_to_stderr():
        from regard.cli.loading import select_model_options, set_num_threads
        from regard.serving.app import build_app
        from regard.serving.metrics import Metrics
        from regard.serving.registry import open_runs

        device, precision = select_model_options()
        served_runs = open_runs(runs, device=device, precision=precision)
        set_num_threads(served_runs[0].translator.runs[0])
        url = server_url(server_socket)
        if token is None and not ip_address(server_socket.getsockname()[0].split("%")[0]).is_loopback:
            note("everyone who can reach this machine can use this server; --token restricts access")

        def print_url() -> None:
            print_result(f"{printable(', '.join(run.name for run in served_runs))}: {url} (Ctrl-C stops)", flush=True)
            if open_in_browser:
                open_browser(url)  # without the token: other users can see a browser's command line

        limits, metrics = limit_connections(limits), Metrics()
        app = build_app(served_runs, limits, token=token, origins=origins, metrics=metrics)
        server = Server(app, limits, metrics, print_url)
        gc.freeze()  # garbage collection would visit all objects of libraries, for 0.2 s in which nothing else runs
        server.run(sockets=[server_socket])
        if server.ready_error:
            raise server.ready_error
        sys.exit(128 + server.exit_signal)


def limit_connections(limits: Limits) -> Limits:
    """The limits, with no more connections than the process can open.

    Args:
        limits: Limits on requests.
    """
    from regard.serving.connections import fit_descriptors

    connections = fit_descriptors(limits.connections)
    if connections < limits.connections:
        allowed = f"the system's limit on open files (ulimit -n) allows only {connections:,}"
        note(f"--max-connections {limits.connections:,}: {allowed}")
    return replace(limits, connections=connections)


@contextmanager
def exit_on_sigterm() -> Iterator[None]:
    """Exit with 128 + its number at SIGTERM, before and after the time in which the server handles signals."""
    previous = signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, previous)
