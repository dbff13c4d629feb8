"""hostdoctor: which GPU sits where on this host, what shares its path, and what to do about it."""

import os.path

__version__ = "0.1.0"

# checks/, templates/ and systemd/ stand beside this package in a checkout and inside it in a wheel (docs/adr/0002).
_root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
if os.path.isfile(os.path.join(_root, "pyproject.toml")):
    __path__.append(_root)
