"""A real Prometheus on loopback for some seconds."""

import contextlib
import json
import socket
import subprocess  # noqa: TID251  runs prometheus
import time
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tests.placement.tools import needs

PATIENCE_S = 60.0


def free_port() -> int:
    """Return a port on which nobody listens now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Prometheus:
    """A running server."""

    def __init__(self, port: int) -> None:
        self._url = f"http://127.0.0.1:{port}"

    def get(self, path: str, **parameters: str) -> Any:
        """Return the ``data`` of an answer of the HTTP API."""
        query = urllib.parse.urlencode(parameters)
        with urllib.request.urlopen(f"{self._url}/api/v1/{path}?{query}", timeout=30) as answer:
            return json.load(answer)["data"]

    def query(self, expression: str) -> list[dict[str, Any]]:
        """Return the series that an expression has now."""
        result: list[dict[str, Any]] = self.get("query", query=expression)["result"]
        return result

    def is_ready(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self._url}/-/ready", timeout=5) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False


def until(true: Callable[[], bool], what: str) -> None:
    """Wait until something is so; fail where it never is."""
    ends = time.monotonic() + PATIENCE_S
    while not true():
        assert time.monotonic() < ends, what
        time.sleep(0.1)


@contextlib.contextmanager
def prometheus(configuration: Path, folder: Path) -> Iterator[Prometheus]:
    """Run Prometheus with a configuration; its data are in the folder. It has ended when this is left."""
    port = free_port()
    argv = [
        needs("prometheus"),
        f"--config.file={configuration}",
        f"--storage.tsdb.path={folder}",
        f"--web.listen-address=127.0.0.1:{port}",
        "--log.level=error",
    ]
    with (folder / "log").open("wb") as log, subprocess.Popen(argv, stdout=log, stderr=log) as process:
        try:
            server = Prometheus(port)
            until(lambda: server.is_ready() or process.poll() is not None, "Prometheus does not start")
            assert process.poll() is None, (folder / "log").read_text(encoding="utf-8")
            yield server
        finally:
            process.kill()
