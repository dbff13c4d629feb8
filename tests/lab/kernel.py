"""The guest's kernel: Debian's package, fetched once with ``apt-get download``, and what of it the guest needs."""

import lzma
import os
import re
import shutil
import subprocess  # noqa: TID251  apt-get and dpkg-deb
import tarfile
import tempfile
from pathlib import Path
from typing import IO

import msgspec

PACKAGE = "linux-image-amd64"
# Folders below lib/modules/VERSION/kernel that are kept; the whole package would fill 400 MB.
KEPT = ("block/", "crypto/", "drivers/md/", "drivers/nvme/", "drivers/virtio/", "fs/", "lib/", "net/9p/")
DEADLINE_S = 180
NAME = re.compile(r"\./(?:usr/)?lib/modules/[^/]+/kernel/(?P<folder>.*/)(?P<name>[^/]+)\.ko(?P<packed>\.xz)?")


class Unavailable(Exception):  # noqa: N818  not an error of the project: the tests are skipped
    """The lab cannot run here; the text says why."""


class Kernel(msgspec.Struct, frozen=True, kw_only=True):
    """A kernel ready to boot: a folder with ``vmlinuz``, ``modules.builtin`` and ``modules/nvme_core.ko`` …"""

    folder: Path

    @property
    def image(self) -> Path:
        """The kernel itself."""
        return self.folder / "vmlinuz"

    def with_needed(self, names: tuple[str, ...]) -> list[Path]:
        """Return these modules and all that they need, in the order to load them; built-in ones are left out."""
        rows = (self.folder / "modules.builtin").read_text().splitlines()
        ordered = {_module(Path(row).stem): False for row in rows}
        for name in names:
            self._add(_module(name), ordered)
        return [self.folder / "modules" / name for name, loaded in ordered.items() if loaded]

    def _add(self, name: str, ordered: dict[str, bool]) -> None:
        if name in ordered:
            return
        path = self.folder / "modules" / name
        if not path.exists():
            raise Unavailable(f"{self.folder} holds no {name}: remove that folder to have it fetched again")
        needs = re.search(rb"\0depends=([^\0]*)\0", path.read_bytes())
        for need in needs.group(1).decode().split(",") if needs else ():
            if need:
                self._add(_module(need), ordered)
        ordered[name] = True


def cache_folder() -> Path:
    """Return where the kernel is kept between runs."""
    if named := os.environ.get("HOSTDOCTOR_LAB_CACHE"):
        return Path(named)
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "hostdoctor-lab"


def kernel() -> Kernel:
    """Return the cached kernel, fetched now if there is none; raise Unavailable when it is not to be had."""
    cache = cache_folder()
    for folder in sorted(cache.glob("linux-image-*/"), reverse=True):
        return Kernel(folder=folder)
    try:
        cache.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=cache) as scratch:
            return _fetch(cache, Path(scratch))
    except (OSError, subprocess.SubprocessError, tarfile.TarError, lzma.LZMAError) as error:
        raise Unavailable(f"the guest's kernel is not to be had: {error}") from error


def _fetch(cache: Path, scratch: Path) -> Kernel:
    package = _package()
    _apt(["apt-get", "-qq", "download", package], scratch)
    archives = list(scratch.glob("*.deb"))
    if not archives:
        raise Unavailable(f"apt-get download {package} left no package")
    unpacked = scratch / package
    (unpacked / "modules").mkdir(parents=True)
    _unpack(archives[0], unpacked)
    if not (unpacked / "vmlinuz").exists():
        raise Unavailable(f"{package} holds no kernel")
    ready = cache / package
    if not ready.exists():  # another run may have been faster
        unpacked.rename(ready)
    return Kernel(folder=ready)


def _package() -> str:
    """Return the package that the kernel's metapackage stands for; update apt's lists where they lack it."""
    for command in (["apt-cache", "depends", PACKAGE], ["apt-get", "-qq", "update"], ["apt-cache", "depends", PACKAGE]):
        try:
            found = re.search(r"Depends: (linux-image-\d\S*)", _apt(command, Path("/")))
        except Unavailable:
            if command[0] == "apt-get":
                raise
            continue
        if found:
            return found.group(1)
    raise Unavailable(f"apt knows no package {PACKAGE}")


def _apt(command: list[str], folder: Path) -> str:
    if shutil.which(command[0]) is None:
        raise Unavailable(f"{command[0]} is not here: the guest's kernel cannot be fetched")
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=DEADLINE_S, check=False)
    if done.returncode != 0:
        last = (done.stderr.strip().splitlines() or [f"exit status {done.returncode}"])[-1]
        raise Unavailable(f"{' '.join(command)}: {last}")
    return done.stdout


def _unpack(archive: Path, folder: Path) -> None:
    command = ["dpkg-deb", "--fsys-tarfile", str(archive)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as unpacking:
        assert unpacking.stdout is not None
        with tarfile.open(fileobj=unpacking.stdout, mode="r|") as members:
            for member in members:
                content = members.extractfile(member) if member.isfile() else None
                if content is not None:
                    _keep(member.name, content, folder)


def _keep(name: str, content: IO[bytes], folder: Path) -> None:
    if re.match(r"\./boot/vmlinuz-", name):
        (folder / "vmlinuz").write_bytes(content.read())
    if name.endswith("/modules.builtin"):
        (folder / "modules.builtin").write_bytes(content.read())
    module = NAME.fullmatch(name)
    if module and module["folder"].startswith(KEPT):
        data = content.read()
        plain = lzma.decompress(data) if module["packed"] else data
        (folder / "modules" / _module(module["name"])).write_bytes(plain)


def _module(name: str) -> str:
    """Return a module's file name here: the kernel takes ``-`` and ``_`` for the same."""
    return f"{name.replace('-', '_')}.ko"
