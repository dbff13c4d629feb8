"""Giving each snapshot to those who publish it: the textfile, the listener."""

import contextlib
from collections.abc import Callable, Iterable, Mapping

from hostdoctor.agent.model import Publisher, Snapshot
from hostdoctor.agent.settings import Settings
from hostdoctor.agent.troubles import Troubles
from hostdoctor.errors import HostdoctorError, described

# By name and what it was asked with (a folder, an address): how to make it.
Wanted = Mapping[tuple[str, str], Callable[[], Publisher]]
MakePublishers = Callable[[Settings], Wanted]


class Publishing:
    """The publishers that the settings ask for, by name."""

    def __init__(self, make: MakePublishers) -> None:
        self._make = make
        self._publishers: dict[tuple[str, str], Publisher] = {}

    @property
    def is_wanted(self) -> bool:
        """Somebody publishes."""
        return bool(self._publishers)

    def adopt(self, settings: Settings) -> None:
        """Have the publishers that the settings ask for; those that stay are untouched, what raises changes nothing."""
        wanted = self._make(settings)
        fresh: dict[tuple[str, str], Publisher] = {}
        try:
            for key, make in wanted.items():
                fresh[key] = self._publishers.get(key) or make()
        except (HostdoctorError, OSError):
            _close(publisher for key, publisher in fresh.items() if key not in self._publishers)
            raise
        _close(publisher for key, publisher in self._publishers.items() if key not in fresh)
        self._publishers = fresh

    def give(self, snapshot: Snapshot, troubles: Troubles) -> int:
        """Give a snapshot to each; return how many failed."""
        given = self._publishers.items()
        return sum(self._failed(name, publisher, snapshot, troubles) for (name, _), publisher in given)

    def close(self) -> None:
        """End them."""
        _close(self._publishers.values())
        self._publishers = {}

    def _failed(self, name: str, publisher: Publisher, snapshot: Snapshot, troubles: Troubles) -> bool:
        try:
            publisher(snapshot)
        except Exception as error:  # noqa: BLE001  a defect there must not end the service
            known = isinstance(error, (HostdoctorError, OSError))
            troubles.note(f"publisher {name}", str(error) if known else described(error))
            return True
        troubles.over(f"publisher {name}", "works again")
        return False


def _close(publishers: Iterable[Publisher]) -> None:
    for publisher in publishers:
        with contextlib.suppress(OSError, HostdoctorError):
            publisher.close()
