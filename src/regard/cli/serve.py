"""`regard serve`: runs over HTTP, until somebody stops it."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from ipaddress import ip_address
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from regard.cli.input_lines import note
from regard.errors import UserError, printable
from regard.serving.limits import Limits

LIMITS, ACCESS = "Limits", "Access"  # headings in the help


def serve(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN", help="A run directory, or several to choose from.")],
    port: Annotated[int, typer.Option(help="Where to listen; 0 is any free port.")] = 8000,
    open_: Annotated[bool, typer.Option("--open", help="Open the page in a browser.")] = False,
    host: Annotated[
        str, typer.Option(help="Who can reach it: 127.0.0.1 only this machine, 0.0.0.0 all.", rich_help_panel=ACCESS)
    ] = "127.0.0.1",
    token: Annotated[
        str | None,
        typer.Option(
            envvar="REGARD_TOKEN",
            help="What every API call has to bring; better in the environment, where others cannot see it.",
            rich_help_panel=ACCESS,
        ),
    ] = None,
    allow_origin: Annotated[
        list[str] | None,
        typer.Option(metavar="URL", help="Whose pages may call the API besides our own.", rich_help_panel=ACCESS),
    ] = None,
    max_characters: Annotated[int, typer.Option(help="Of one text.", rich_help_panel=LIMITS)] = Limits.characters,
    max_texts: Annotated[int, typer.Option(help="Of one request.", rich_help_panel=LIMITS)] = Limits.texts,
    max_beam: Annotated[int, typer.Option(help="The widest beam.", rich_help_panel=LIMITS)] = Limits.beam,
    max_waiting: Annotated[int, typer.Option(help="Texts that may wait.", rich_help_panel=LIMITS)] = Limits.waiting,
    max_seconds: Annotated[float, typer.Option(help="Until an answer.", rich_help_panel=LIMITS)] = Limits.seconds,
    max_memory: Annotated[
        float, typer.Option(help="Megabytes that one batch may take, about.", rich_help_panel=LIMITS)
    ] = Limits.memory,
    max_batch: Annotated[
        int, typer.Option(help="Texts of several requests that are done together.", rich_help_panel=LIMITS)
    ] = Limits.batch,
) -> None:
    """Open a page to look into runs, and an API to translate with them."""
    from regard.serving.access import check_origin, check_token

    try:
        limits = Limits(max_characters, max_texts, max_beam, max_waiting, max_seconds, max_memory, max_batch)
    except UserError as error:  # which begins with the limit's name
        raise UserError(f"--max-{error}") from None
    origins = [check_origin(origin) for origin in allow_origin or []]
    run_server(runs, (host, port), limits, None if token is None else check_token(token), origins, open_)


def run_server(
    runs: list[Path], place: tuple[str, int], limits: Limits, token: str | None, origins: list[str], open_browser: bool
) -> NoReturn:
    """Until a signal ends it."""
    from regard.serving.server import Server, address_of, listen, open_page

    with listen(*place) as listening:  # before torch is imported and models are loaded, which takes its time
        from regard.cli.loading import use_threads_of
        from regard.serving.app import build_app
        from regard.serving.registry import open_runs

        served = open_runs(runs)
        use_threads_of(served[0].translator.runs[0])
        address = address_of(listening)
        if token is None and not ip_address(listening.getsockname()[0].split("%")[0]).is_loopback:
            note("whoever reaches this machine can ask; --token would keep others out")

        def ready() -> None:
            print(f"{printable(', '.join(run.name for run in served))}: {address} (Ctrl-C stops)", flush=True)
            if open_browser:
                open_page(address)  # without the token: others can see how a browser was started

        server = Server(build_app(served, limits, token=token, origins=origins), limits.seconds, ready)
        with suppress(KeyboardInterrupt):  # which uvicorn passes on when all is done
            server.run(sockets=[listening])
    if server.failure:
        raise server.failure
    if server.force_exit:
        os._exit(128 + server.signal)  # what is under way would not let go
    sys.exit(128 + server.signal)
