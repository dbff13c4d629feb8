"""The verdict as labels of a Kubernetes node: a feature file of node-feature-discovery's ``local`` source.

    # +expiry-time=2027-01-31T12:00:00Z
    feature.node.kubernetes.io/hostdoctor.status=warning

https://kubernetes-sigs.github.io/node-feature-discovery/stable/usage/customization-guide.html#local-feature-source
A label's value has at most 63 characters of ``[A-Za-z0-9._-]``. What is not known has no label.
"""

import datetime
import re
from collections import Counter
from collections.abc import Iterator

from hostdoctor.diagnosis.report import SEVERITIES, Report
from hostdoctor.facts import Host

PREFIX = "feature.node.kubernetes.io/hostdoctor."  # a namespace that nfd-master takes unasked
LIFETIME = datetime.timedelta(hours=1)
MAX_CHARACTERS = 63
_UNFIT = re.compile(r"[^A-Za-z0-9._-]+")
_ENDS = "._-"


def render_nfd(report: Report, now: datetime.datetime | None) -> str:
    """Return the feature file; it expires an hour after ``now`` (UTC), never where that is None (a capture's)."""
    lines = [f"{PREFIX}{name}={value}" for name, value in _labels(report) if value]
    if now is not None:
        lines.insert(0, f"# +expiry-time={(now + LIFETIME).strftime('%Y-%m-%dT%H:%M:%SZ')}")
    return "".join(f"{line}\n" for line in lines)


def fit(text: str) -> str:
    """Return a text as a label's value: other characters as ``-``, cut to 63, a letter or digit at each end."""
    return _UNFIT.sub("-", text)[:MAX_CHARACTERS].strip(_ENDS)


def _labels(report: Report) -> Iterator[tuple[str, str]]:
    yield "status", report.status
    for result in report.results:
        severities = [finding.severity for finding in result.findings if finding.severity != "info"]
        if severities:
            yield fit(f"{result.id}-{result.name}"), max(severities, key=SEVERITIES.index)
    yield from _map_labels(report.host)


def _map_labels(host: Host) -> Iterator[tuple[str, str]]:
    if host.system.nvidia_driver:
        yield "nvidia-driver", fit(host.system.nvidia_driver)
    if host.numa_nodes:
        yield "numa-nodes", str(sum(1 for node in host.numa_nodes if node.cpus))
    if not host.gpus:
        return
    yield "gpus", str(len(host.gpus))
    homes = [gpu.numa_node for gpu in host.gpus]
    if None not in homes:
        for node, count in sorted(Counter(homes).items(), key=str):
            yield f"gpus-on-node-{node}", str(count)
    if len({gpu.name for gpu in host.gpus}) == 1 and host.gpus[0].name:
        yield "gpu-model", fit(host.gpus[0].name)
