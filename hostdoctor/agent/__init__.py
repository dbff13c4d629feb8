"""The service: it surveys again and again, reads cheap signals in between, and tells what changed."""
