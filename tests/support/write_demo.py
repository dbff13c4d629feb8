"""Writes the bundled example host, ``hostdoctor/demo.tar.gz``, from tests/hosts/demo: ``make demo``."""

from pathlib import Path

from tests.support.hostbuilder import build_files, load_host, pack

PATH = Path(__file__).parents[2] / "hostdoctor" / "demo.tar.gz"


def main() -> None:
    """Write the archive."""
    PATH.write_bytes(pack(build_files(load_host("demo"))))


if __name__ == "__main__":
    main()
