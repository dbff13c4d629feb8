"""Telling what a text is by its content, and cutting the outputs out of it.

A text is walked once: lines that give a format away (:mod:`hostdoctor.sources.signs`) begin or go on with a section,
lines between them belong to it, and a few others are put up with. Nothing is parsed here.
"""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import chain, groupby, islice

from hostdoctor.facts import Fact
from hostdoctor.parsers.prefix import common_prefix, cut_prefix
from hostdoctor.parsers.text import clean_lines
from hostdoctor.sources import signs_cpu, signs_gpu, signs_pci, signs_xml
from hostdoctor.sources.base import TextKind
from hostdoctor.sources.signs import TAIL, Format, Mark

FORMATS = (*signs_gpu.FORMATS, *signs_cpu.FORMATS, *signs_pci.FORMATS)

MAX_LINE = 2048  # characters of a line that are looked at, besides its last TAIL
CLOSE = 120  # lines (a large matrix) within which a weak sign still speaks for the section above
LEAD = 8  # lines above the first sign that may belong to it
SAMPLES = 500  # signs from which a log prefix is learnt
MAX_SECTIONS = 256  # far above what one host gives
# Who wrote a line, in the logs of processes that run side by side: Ray, torchrun, kubectl --prefix, mpirun.
_STREAM = re.compile(
    r"\([^()]{0,80}\bpid=\d{1,9}[^()]{0,80}\)|\[rank\d{1,6}\]|\[pod/[^\]\s]{1,150}\]|\[\d{1,6},\d{1,6}\]<std\w{2,3}>"
)
_STREAM_WORDS = ("pid=", "[rank", "[pod/", "]<std")
_MPIRUN = re.compile(r"\[\d{1,6},\d{1,6}\]<std\w{2,3}>:")
_QUOTE = re.compile(r">(?: ?>)*")


class Section(Fact, frozen=True, kw_only=True):
    """One output in a text, cleaned and without log prefixes. ``first_line`` is 1-based, in the whole text."""

    kind: TextKind
    text: str
    first_line: int


class _Cluster:
    """Lines that look like one output."""

    def __init__(self, form: Format, first: int) -> None:
        self.form = form
        self.first = self.last = first
        self.misses = 0
        self.body = False
        self.signs: Counter[str] = Counter()
        self.keys: set[str] = set()
        self.columns: dict[int, int] = {}

    def add(self, number: int, mark: Mark) -> None:
        self.last, self.misses = number, 0
        self.body = self.body or not mark.opens
        self.signs[mark.sign] += 1
        if mark.key:
            self.keys.add(mark.key)
        if mark.column >= 0 and len(self.columns) < SAMPLES:
            self.columns[number] = mark.column

    def ends_before(self, mark: Mark) -> bool:
        return (mark.opens and self.body) or mark.key in self.keys

    def ends_without(self, number: int, line: str) -> bool:
        """Take in a line that is not marked; say whether the cluster ended before it."""
        if self.form.belongs(line):
            self.last, self.misses = number, 0
            return False
        self.misses += 1
        return self.misses > self.form.misses


def recognise(text: str) -> tuple[Section, ...]:
    """Return every known output in a text, in order; ``()`` when nothing is known. Never raises."""
    formats = [(form, words) for form in FORMATS if (words := [word for word in form.words if word in text])]
    has_documents = signs_xml.may_hold_documents(text)
    if not formats and not has_documents:
        return ()
    lines = clean_lines(text)
    if "\n>" in text or text.startswith(">"):
        lines = cut_prefix(lines, _QUOTE)
    numbers: Sequence[int] = range(len(lines))
    if any(word in text for word in _STREAM_WORDS):
        numbers = _by_stream(lines)
        lines = cut_prefix([lines[number] for number in numbers], _MPIRUN)
    documents = signs_xml.take_documents(lines) if has_documents else []
    clusters = _enough(lines, formats)
    bare = _without_prefixes(lines, clusters)
    if bare is not None:
        lines, clusters = bare, _enough(bare, formats)
    found = [Section(kind=kind, text=text, first_line=numbers[at] + 1) for kind, at, text in documents[:MAX_SECTIONS]]
    found.extend(_sections(lines, clusters, numbers))
    return tuple(sorted(found, key=lambda section: section.first_line))


def _sections(lines: Sequence[str], clusters: Sequence[_Cluster], numbers: Sequence[int]) -> Iterator[Section]:
    floor = 0
    for cluster in clusters:
        first = _lead(lines, cluster, max(floor, cluster.first - LEAD))
        text = "\n".join(lines[first : cluster.last + 1]) + "\n"
        yield Section(kind=cluster.form.kind, text=text, first_line=numbers[first] + 1)
        if cluster.form.kind != "collect-env":
            floor = cluster.last + 1


def _by_stream(lines: Sequence[str]) -> list[int]:
    """Return the numbers of the lines, those that several processes wrote in turn sorted by process."""
    numbers: list[int] = []
    for written, run in groupby(enumerate(map(_stream, lines)), key=lambda pair: bool(pair[1])):
        streams: dict[str, list[int]] = {}
        for number, stream in run:
            streams.setdefault(stream if written else "", []).append(number)
        numbers.extend(chain.from_iterable(streams.values()))
    return numbers


def _stream(line: str) -> str:
    found = _STREAM.search(line[:200])
    return found[0] if found else ""


def _enough(lines: Sequence[str], formats: Sequence[tuple[Format, list[str]]]) -> list[_Cluster]:
    clusters = islice(_clusters(lines, formats), MAX_SECTIONS)
    return sorted(clusters, key=lambda cluster: (cluster.first, cluster.last))


def _without_prefixes(lines: Sequence[str], clusters: Sequence[_Cluster]) -> list[str] | None:
    """Return the lines without the log prefixes that clusters and the lines around them have, None for none."""
    bare: list[str] | None = None
    done = 0
    for cluster in clusters:
        if cluster.first < done:
            continue
        columns = {number - cluster.first: column for number, column in cluster.columns.items()}
        pattern = common_prefix(lines[cluster.first : cluster.last + 1], columns)
        if pattern is None:
            continue
        first, last = cluster.first, cluster.last + 1
        while first > done and pattern.match(lines[first - 1]):
            first -= 1
        while last < len(lines) and pattern.match(lines[last]):
            last += 1
        bare = bare or list(lines)
        bare[first:last] = cut_prefix(lines[first:last], pattern)
        done = last
    return bare


def _clusters(lines: Sequence[str], formats: Sequence[tuple[Format, list[str]]]) -> Iterator[_Cluster]:
    running: dict[str, _Cluster] = {}
    for number, line in enumerate(lines):
        if not line:
            continue
        short = line if len(line) <= MAX_LINE else f"{line[:MAX_LINE]} {line[-TAIL:]}"
        marks = _marks(short, formats)
        if marks or running:
            yield from _step(running, number, short, marks)
    yield from filter(_is_enough, running.values())


def _marks(line: str, formats: Sequence[tuple[Format, list[str]]]) -> list[tuple[Format, Mark]]:
    marks = []
    for form, words in formats:
        for word in words:
            if word in line:
                if mark := form.mark(line):
                    marks.append((form, mark))
                break
    return marks


def _step(
    running: dict[str, _Cluster], number: int, line: str, marks: Sequence[tuple[Format, Mark]]
) -> Iterator[_Cluster]:
    """Take one line into the clusters under way; yield those that it ends."""
    strong = any(mark.key or mark.opens for _, mark in marks)
    marked = {form.kind for form, _ in marks}
    for kind in [kind for kind in running if kind not in marked]:
        cluster = running[kind]
        foreign = strong and kind != "collect-env"
        if foreign or cluster.ends_without(number, line):
            yield from filter(_is_enough, [running.pop(kind)])
    for form, mark in marks:
        if form.kind in running and running[form.kind].ends_before(mark):
            yield from filter(_is_enough, [running.pop(form.kind)])
        _take(running, number, form, mark)


def _take(running: dict[str, _Cluster], number: int, form: Format, mark: Mark) -> None:
    cluster = running.get(form.kind)
    if cluster is None:
        if mark.weak:
            return
        cluster = running[form.kind] = _Cluster(form, number)
    elif mark.weak and cluster.misses > CLOSE:
        cluster.misses += 1
        return
    cluster.add(number, mark)


def _is_enough(cluster: _Cluster) -> bool:
    return cluster.form.enough(cluster.signs)


def _lead(lines: Sequence[str], cluster: _Cluster, floor: int) -> int:
    """Return where a cluster begins when the lines above its first sign that belong to it are counted."""
    first = cluster.first
    while first > floor and lines[first - 1] and cluster.form.belongs(lines[first - 1][:MAX_LINE]):
        first -= 1
    return first
