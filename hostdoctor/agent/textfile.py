"""Metrics as a file in the folder that node_exporter's textfile collector reads (``--collector.textfile.directory``).

The file is there whole or not at all: it is written beside its place under a name that the collector does not read, and
renamed. An agent that ends takes it away; what one that was killed leaves behind tells its age
(``hostdoctor_snapshot_timestamp_seconds``) and goes when the next one starts.
"""

import contextlib
import os
import stat
from pathlib import Path

from hostdoctor.agent.metrics import snapshot_families
from hostdoctor.agent.model import Snapshot
from hostdoctor.errors import UsageError
from hostdoctor.outputs.prometheus import render_prometheus
from hostdoctor.sources.whole_file import whole_file

NAME = "hostdoctor.prom"
MODE = 0o644  # node_exporter runs as a user of its own


class TextfilePublisher:
    """Writes each snapshot to ``hostdoctor.prom`` in a folder.

    Raises UsageError at the start where the folder cannot be meant: it is not there, or an agent cannot write it.
    """

    def __init__(self, folder: Path) -> None:
        if not folder.is_dir():
            raise UsageError(f"--textfile: no such folder: {folder}")
        if not os.access(folder, os.W_OK | os.X_OK):
            raise UsageError(f"--textfile: may not be written: {folder}")
        self._path = folder / NAME
        if self._path.is_symlink() or (self._path.exists() and not self._path.is_file()):
            raise UsageError(f"--textfile: not a regular file: {self._path}")
        self._sweep()
        self._remove()

    def __call__(self, snapshot: Snapshot) -> None:
        """Write it; raise OutputError where that fails, which leaves the last file and nothing else."""
        text = render_prometheus(snapshot_families(snapshot))
        with whole_file(self._path, force=True, mode=MODE) as stream:
            stream.write(text.encode())

    def close(self) -> None:
        """Take the file away: nobody refreshes it any more."""
        self._remove()

    def _remove(self) -> None:
        with contextlib.suppress(OSError):
            self._path.unlink(missing_ok=True)

    def _sweep(self) -> None:
        """Take away what an agent that was killed while it wrote left behind."""
        for path in self._path.parent.glob(f".{NAME}.*"):
            with contextlib.suppress(OSError):
                if stat.S_ISREG(path.lstat().st_mode):
                    path.unlink()
