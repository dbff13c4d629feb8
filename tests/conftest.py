"""Options and fixtures for the whole suite, and how it is shared out over the cores."""

import signal
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, settings

if TYPE_CHECKING:
    from xdist.scheduler import LoadScopeScheduling

# One boot, one build serves all tests of a folder: they stay on one worker. So do those of a file, for what its
# fixtures cost; those of some folders cost nothing, but for what one file unpacks.
TOGETHER = ("lab", "packaging")
SPREAD = ("corpus", "parsers")
UNPACKING = "tests/corpus/test_hwloc_corpus.py"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-golden", action="store_true", help="rewrite expected.json beside each host; read the diff"
    )


def pytest_configure() -> None:
    """Make no test depend on how busy the machine is, nor on who called.

    Signals end things again that a caller in the background (``nohup``, ``&``) has ignored: tests send them.
    """
    settings.register_profile("any-machine", settings(), deadline=None, suppress_health_check=[HealthCheck.too_slow])
    settings.load_profile("any-machine")
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGQUIT):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, signal.default_int_handler if number is signal.SIGINT else signal.SIG_DFL)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> "LoadScopeScheduling":
    """Share tests out by what they have in common (pytest-xdist; its own groups are lost on newer pytest)."""
    from xdist.scheduler import LoadScopeScheduling

    class ByWhatTheyShare(LoadScopeScheduling):  # type: ignore[misc]  # it has no types
        def _split_scope(self, nodeid: str) -> str:
            return scope(nodeid)

    return ByWhatTheyShare(config, log)


def scope(nodeid: str) -> str:
    """Return what a test must stay together with, by its node id: ``tests/lab/test_map.py::test_x``."""
    path = nodeid.partition("::")[0]
    folder = path.removeprefix("tests/").partition("/")[0]
    if folder in SPREAD and path != UNPACKING:
        return nodeid
    return path.rpartition("/")[0] if folder in TOGETHER else path
