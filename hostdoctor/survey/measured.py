"""Files that ``measure`` wrote, as one more source of the survey."""

from collections.abc import Sequence

from hostdoctor.errors import UsageError
from hostdoctor.facts import Gpu, Host, Measured, MeasuredLink
from hostdoctor.parsers.bdf import canonical_bdf
from hostdoctor.parsers.measured import MeasuredCopies, parse_measured


def read_measured(host: Host, files: Sequence[tuple[str, str]]) -> Measured:
    """Return what files (name, text) add to a host.

    Raises ParseError for what is no such document, UsageError for one that was taken on another host.
    """
    documents = [(name, parse_measured(text, name)) for name, text in files]
    found = [_link(host, name, document) for name, document in documents]
    return Measured(links=tuple(link for link in found if link.links))


def _link(host: Host, name: str, document: MeasuredCopies) -> MeasuredLink:
    gpu = next((gpu for gpu in host.gpus if _is_it(gpu, document)), None)
    measured, here = document.circumstances.hostname, host.system.hostname
    if gpu is None or gpu.bdf is None:
        raise UsageError(f"--measured {name}: taken on a GPU that this host does not have ({document.gpu.bdf[:40]})")
    if measured and here and measured != here:
        raise UsageError(f"--measured {name}: taken on another host ({measured[:60]})")
    return MeasuredLink(file=name, taken_at=document.circumstances.at[:40], gpu_bdf=gpu.bdf, links=document.links)


def _is_it(gpu: Gpu, document: MeasuredCopies) -> bool:
    if gpu.bdf is None or gpu.bdf != canonical_bdf(document.gpu.bdf):
        return False
    return not gpu.uuid or not document.gpu.uuid or gpu.uuid == document.gpu.uuid
