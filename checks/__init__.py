"""The checks: one a file, in a folder per subject."""
