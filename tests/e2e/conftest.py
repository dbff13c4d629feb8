"""One vLLM for all end-to-end tests."""

import subprocess  # noqa: TID251  what setting it up may raise

import pytest

from tests.e2e.tiny_vllm import Engine, engine


@pytest.fixture(scope="session")
def vllm() -> Engine:
    """Return the engine; skip where it cannot be set up."""
    try:
        return engine()
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"no vLLM: {error}")
