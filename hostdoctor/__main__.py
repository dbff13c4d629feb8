"""``python -m hostdoctor``."""

from hostdoctor.cli import main

main()
