"""The paths of the caller's plan: what they lie on, and the NVMe drives below."""

from collections.abc import Iterable

from hostdoctor.diagnosis.api import Ask
from hostdoctor.diagnosis.report import Skip
from hostdoctor.facts import Fact, Host, NvmeController, Place

# Where databases and logs are kept by the distributions' packages.
_DATABASES = ("mysql", "mariadb", "postgresql", "pgsql", "mongodb", "clickhouse", "elasticsearch", "cassandra", "redis")
_SYSTEM = {"/": "the root file system", "swap": "swap", "/var": "logs (/var)", "/var/lib": "/var/lib"}


class Ground(Fact, frozen=True, kw_only=True):
    """Paths of the plan that lie on the same disks: ``--model-path /models``, the place, the NVMe drives."""

    labels: tuple[str, ...]
    place: Place
    drives: tuple[NvmeController, ...]

    @property
    def text(self) -> str:
        """The paths, their disks: ``--model-path /models (nvme0n1, nvme1n1)``."""
        return f"{', '.join(self.labels)} ({', '.join(self.place.disks)})"

    @property
    def evidence(self) -> tuple[str, str]:
        """Where the way from path to disk was read, and what was read."""
        place = self.place
        return f"/proc/self/mountinfo, {place.mount_point}", f"{place.device} {place.filesystem} on {self.text}"


def stated(host: Host, ask: Ask) -> tuple[tuple[str, Place], ...]:
    """Return the places of the plan under the option that named each."""
    named = (("--model-path", ask.model_path), ("--kv-path", ask.kv_path))
    places = {place.path: place for place in host.places}
    return tuple((f"{option} {path}", places.get(path, Place(path=path))) for option, path in named if path)


def grounds(host: Host, ask: Ask) -> tuple[tuple[Ground, ...], tuple[Skip, ...]]:
    """Return the plan's paths by the disks below them, and why a path cannot be judged."""
    skips = []
    found: dict[tuple[str, ...], Ground] = {}
    for label, place in stated(host, ask):
        drives = drives_of(host, place.disks)
        if not drives:
            skips.append(_not_nvme(label, place))
            continue
        before = found[place.disks].labels if place.disks in found else ()
        found[place.disks] = Ground(labels=(*before, label), place=place, drives=drives)
    return tuple(found.values()), tuple(skips)


def drives_of(host: Host, disks: Iterable[str]) -> tuple[NvmeController, ...]:
    """Return the controllers whose namespaces these are; ``()`` unless every disk is such a one."""
    wanted = set(disks)
    drives = tuple(drive for drive in host.nvme if wanted & set(drive.namespaces))
    known = {namespace for drive in drives for namespace in drive.namespaces}
    return drives if wanted <= known else ()


def duties(holds: Iterable[str]) -> list[str]:
    """Return which of the things on a disk write to it whenever they like: the system, swap, logs, a database."""
    named = [_SYSTEM.get(place) or _log_or_database(place) for place in holds]
    return list(dict.fromkeys(name for name in named if name))


def _log_or_database(place: str) -> str | None:
    if place.startswith("/var/log"):
        return f"logs ({place})"
    return f"a database ({place})" if place.rpartition("/")[2] in _DATABASES else None


def _not_nvme(label: str, place: Place) -> Skip:
    if place.mount_point is None:
        return Skip(kind="no-evidence", reason=f"{label}: no mount is known")
    where = f"{label}: {place.filesystem} from {place.device}"
    if place.disks:
        return Skip(kind="not-applicable", reason=f"{where} is not on NVMe drives alone ({', '.join(place.disks)})")
    return Skip(kind="no-evidence", reason=f"{where}: the disks below are not known")
