"""hostdoctor: which GPU sits where on this host, what shares its path, and what to do about it."""

from pathlib import Path

__version__ = "0.1.0"

# checks/, templates/ and systemd/ stand beside this package in a checkout and inside it in a wheel (docs/adr/0002).
_root = Path(__file__).resolve().parent.parent
if (_root / "pyproject.toml").is_file():
    __path__.append(str(_root))
