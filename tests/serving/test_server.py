"""The server's socket and URL, and that it needs nothing that only Unix has."""

from __future__ import annotations

import ast
import socket
from pathlib import Path

import pytest

import regard
from regard.errors import UserError
from regard.serving.server import listen, server_url

SOURCE = Path(regard.__file__).parent
UNIX_MODULES = {"fcntl", "grp", "posix", "pty", "pwd", "resource", "syslog", "termios", "tty"}
UNIX_ATTRIBUTES = {"SIGHUP", "SIGKILL", "SIGUSR1", "add_signal_handler", "fork", "getuid", "pread", "reuse_port"}


@pytest.mark.parametrize("path", [*sorted((SOURCE / "serving").glob("*.py")), SOURCE / "cli" / "serve.py"])
def test_serving_uses_nothing_that_only_unix_has(path: Path):
    nodes = list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
    imported = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    imported |= {node.module for node in nodes if isinstance(node, ast.ImportFrom) and node.module}
    assert not {name.partition(".")[0] for name in imported} & UNIX_MODULES
    used = {node.attr for node in nodes if isinstance(node, ast.Attribute)}
    used |= {node.arg for node in nodes if isinstance(node, ast.keyword) and node.arg}
    assert not used & UNIX_ATTRIBUTES


@pytest.mark.parametrize(
    ("host", "expected"), [("127.0.0.1", "http://127.0.0.1:"), ("localhost", "http://"), ("[::1]", "http://[::1]:")]
)
def test_the_url_of_a_socket(host: str, expected: str):
    try:
        server_socket = listen(host, 0)
    except UserError:
        assert host == "[::1]"
        pytest.skip("this machine has no IPv6")
    with server_socket:
        url, port = server_url(server_socket), server_socket.getsockname()[1]
        assert url.startswith(expected)
        assert url.endswith(f":{port}/")
        assert server_socket.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


def test_a_taken_port_is_reported_by_its_system_error():
    with listen("127.0.0.1", 0) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(UserError, match=rf"^127\.0\.0\.1:{port}: cannot listen there: Address already in use; "):
            listen("127.0.0.1", port)
