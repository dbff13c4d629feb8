"""Identifiers in texts: what they look like, where a serial number or a name stands, what they are replaced by."""

import re
from collections.abc import Iterator
from typing import Literal

Family = Literal["host", "user", "server", "serial", "hex", "nqn", "ip4", "ip6"]

_H = "[0-9A-Fa-f]"
# A dash in the name of a systemd unit is \x2d.
_DASH = r"(?:-|_|\\x2d)"
_HEX = rf"""
    (?:(?<=pod)|(?<![0-9A-Za-z])){_H}{{8}}(?:{_DASH}{_H}{{4}}){{3}}{_DASH}{_H}{{12}}(?![0-9A-Za-z])
  | (?<![0-9A-Za-z])(?:eui|naa)\.{_H}{{16,32}}(?![0-9A-Za-z])
  | (?<![0-9A-Za-z])(?:wwn-)?0x[1-9a-eA-E]{_H}{{15}}(?:{_H}{{16}})?(?![0-9A-Za-z])
  | (?<![0-9A-Za-z])(?<!\b{_H}{{2}}:){_H}{{2}}(?::{_H}{{2}}){{5,19}}(?![0-9A-Za-z]|:{_H})
  | (?<![0-9A-Za-z])(?<!\b{_H}{{2}}-){_H}{{2}}(?:-{_H}{{2}}){{5,7}}(?![0-9A-Za-z]|-{_H})
  | (?<![0-9A-Za-z:]){_H}{{4}}(?::{_H}{{4}}){{3}}(?![0-9A-Za-z]|:[:0-9A-Fa-f])
  | (?<![0-9A-Za-z])(?:en|wl|ww|ib)x{_H}{{12}}(?![0-9A-Za-z])
  | (?<![0-9A-Za-z])[23](?=[0-9]*[A-Fa-f]){_H}{{16}}(?![0-9A-Za-z])
  | (?<![0-9A-Za-z]){_H}{{32,128}}(?![0-9A-Za-z])
"""
_PATTERN = re.compile(
    rf"""
    (?P<nqn>(?:nqn|iqn)\.\d{{4}}[-.]\d\d\.\S+ | (?<![0-9A-Za-z])t10\.\S+
      | (?<![0-9A-Za-z])nvme\.{_H}{{4}}(?:-{_H}{{2,}}){{2,}})
  | (?P<hex>{_HEX})
  | (?P<ip6>(?<![\w:.]){_H}{{0,4}}(?::{_H}{{0,4}}){{2,7}}(?![\w:.]))
  | (?P<ip4>(?<![\w.])(?:\d{{1,3}}\.){{3}}\d{{1,3}}(?!\w|\.\d) | \bip-\d{{1,3}}(?:-\d{{1,3}}){{3}}\b)
    """,
    re.VERBOSE,
)
# Whatever the patterns match lies within one of these.
TOKEN = re.compile(r"[0-9A-Za-z:._\\-]{7,}")
_WELL_KNOWN = ("nqn.2014-08.org.nvmexpress.discovery",)
_LEAD = re.compile(r"(?:eui\.|naa\.|nvme\.|t10\.|wwn-0x|0x|(?:en|wl|ww|ib)x|(?:nqn|iqn)\.\d{4}[-.]\d\d\.)?")
_PLACES = re.compile(r"\\x2d|[0-9A-Za-z]")

_SERIAL_FILE = re.compile(
    r"(?:.*_)?(?:serial|serial_number|asset_tag|uuid|wwid|wwn|nguid|eui|guid|unique_id)|subsysnqn|hostnqn|hostid"
)
_SERIAL_FIELD = re.compile(
    r"""\b(?:serial(?:[ _-]?(?:number|num|no)\b\.?)?|(?:asset|service)[ _-]?tag|SN|S/N|WWID)"?[ \t]*[:=][ \t]*"?"""
    r"""([^"\n,]*[^"\n,\s])""",
    re.IGNORECASE,
)
SERIAL_KEY = re.compile(r"serial|asset_?tag", re.IGNORECASE)
_HOME = re.compile(r"""(?:/home|(?<![\w.-])/(?:Users|(?:run/)?media))/([^/\s\0:,;"'()\\]+)|\buser(?:name)?=([^\s,]+)""")
# /dev/disk/by-id/nvme-SAMSUNG_MZQL2_S64GNE0R500123_1-part2
_BY_ID = re.compile(
    r"""/by-id/[a-z]+-[^\s\0/,]{0,200}_([0-9A-Za-z-]{6,64}?)(?:_\d{1,3})?(?:-part\d+|-\d+:\d+)?(?=[\s\0/,"']|$)"""
)
_DEVICE = re.compile(r"(?:^| - \S{1,64} )(\S+)", re.MULTILINE)
_WEB = re.compile(r"(?:[a-z][a-z0-9+.-]{0,20}:)?//([^/\s]+)")
_LUSTRE_NET = re.compile(r"(?:tcp|o2ib|gni|kfi)\d*")
_CEPH_USER = re.compile(r" ceph (?:\S+ )?\S*?\bname=([^\s,]+)")
# lstopo's XML: <info name="HostName" value="gpu7"/>
_INFO = re.compile(r'name="(?:(HostName)|\w{0,64}(?:Serial|AssetTag)\w{0,64})" value="([^"]+)"')
_NOT_TOLD = re.compile(
    r"(?:none|n/?a|unknown|(?:not|no) \w+|to be filled.*|default string|(?:system|chassis|board) serial.*|[0xX.\s-]*)",
    re.IGNORECASE,
)
_NQN = re.compile(r"""(?:nqn|iqn)\.\d{4}[-.]\d\d\.[^\s"',;]+""")
_MOUNT_FILES = frozenset(("mounts", "mountinfo"))
_VERSION_FILES = frozenset(("osrelease", "version", "firmware_rev", "fw_ver", "vbios_version"))
HOST_FILES = frozenset(("/proc/sys/kernel/hostname", "/proc/sys/kernel/domainname", "/etc/hostname"))


def is_telling(path: str) -> bool:
    """Tell whether a file's path says what its content is: the same text elsewhere may mean something else."""
    name = path.rpartition("/")[2]
    known = path in HOST_FILES or name in _MOUNT_FILES or name in _VERSION_FILES
    return known or _SERIAL_FILE.fullmatch(name) is not None


def patterned(path: str, text: str) -> Iterator[tuple[int, int, Family]]:
    """Yield where identifiers of a shape of their own stand; four numbers in a version's file are no address."""
    for match in _PATTERN.finditer(text):
        family: Family = match.lastgroup  # type: ignore[assignment]
        if family == "ip4" and path.rpartition("/")[2] in _VERSION_FILES:
            continue
        if _is_one(family, match.group()):
            yield match.start(), match.end(), family


def placed(path: str, text: str) -> Iterator[tuple[int, int, Family]]:
    """Yield where serial numbers and names stand, told by the file or by what stands beside them; they may overlap."""
    yield from _by_file(path, text)
    for match in (*_SERIAL_FIELD.finditer(text), *_BY_ID.finditer(text)):
        if _is_serial(match.group(1)):
            yield *match.span(1), "serial"
    for match in _INFO.finditer(text):
        if match.group(1) or _is_serial(match.group(2)):
            yield *match.span(2), "host" if match.group(1) else "serial"
    for match in _NQN.finditer(text):
        if match.group() not in _WELL_KNOWN:
            yield *match.span(), "nqn"
    if "SN" in text and "nvme" in text:
        yield from _serial_column(text)
    yield from homes(text)


def homes(text: str) -> Iterator[tuple[int, int, Family]]:
    """Yield where a path names a user; all that is looked for in paths besides what has a shape of its own."""
    if any(folder in text for folder in ("/home/", "/Users/", "media/", "user")):
        for match in _HOME.finditer(text):
            yield *match.span(match.lastindex or 0), "user"


def _by_file(path: str, text: str) -> Iterator[tuple[int, int, Family]]:
    """Yield what a file's path tells of its content."""
    stripped = text.strip()
    start, end = text.find(stripped), text.find(stripped) + len(stripped)
    name = path.rpartition("/")[2]
    if path in HOST_FILES:
        short, dot, _ = stripped.partition(".")
        if short:
            yield start, start + len(short), "host"
        if dot:
            yield start + len(short) + 1, end, "host"
    elif name in _MOUNT_FILES:
        yield from _mounted(text)
    elif _SERIAL_FILE.fullmatch(name) and _is_serial(stripped):
        yield start, end, "serial"


def _mounted(text: str) -> Iterator[tuple[int, int, Family]]:
    """Yield the servers and users that mounts name: ``filer03:/x``, ``//filer03/x``, ``me@filer03:/x``, several."""
    for match in _CEPH_USER.finditer(text):
        yield *match.span(1), "user"
    for match in _DEVICE.finditer(text):
        device = match[1]
        web = _WEB.match(device)
        at = device.find(":/")
        if web is not None:
            servers, start = web[1], match.start(1) + web.start(1)
        elif not device.startswith("/") and (at > 0 or ("@" in device and (":" in device or "=/" in device))):
            servers, start = device[: at if at > 0 else len(device)], match.start(1)
        else:
            continue
        for part in re.finditer(r"[^,:]+", servers) if "[" not in servers else ():
            yield from _login(part[0], start + part.start())


def _login(part: str, start: int) -> Iterator[tuple[int, int, Family]]:
    """Yield the names in ``me@filer03.example.org`` or ``mds01@tcp``; an address has a shape of its own."""
    first, at, second = part.partition("@")
    if at and not _LUSTRE_NET.fullmatch(second):
        yield start, start + len(first), "user"
        first, start = second, start + len(first) + 1
    if re.fullmatch(r"[\w.-]+", first) and not first.isdigit() and next(patterned("", first), None) is None:
        short, dot, domain = first.partition(".")
        yield start, start + len(short), "server"
        if dot and domain:
            yield start + len(short) + 1, start + len(first), "server"


def key_of(family: Family, found: str) -> str:
    """Return what makes two spellings the same identifier: a UUID's or MAC's digits alone."""
    if family in ("hex", "nqn"):
        return re.sub(r"[^0-9a-z]", "", _body(found)[1].replace("\\x2d", "").lower())
    return found.replace("ip-", "").replace("-", ".") if family == "ip4" else found


def disguise(family: Family, found: str, number: int) -> str:
    """Return the identifier with this number that takes the place of one: as long, with the same punctuation."""
    if family in ("host", "user", "server"):
        return f"{family}{number}"
    if family == "ip6":
        return f"2001:db8::{number:x}"
    if family == "ip4":
        address = f"198.{18 + (number >> 16) % 2}.{number >> 8 & 255}.{number & 255}"  # the range for benchmarks
        return "ip-" + address.replace(".", "-") if found.startswith("ip-") else address
    lead, body = _body(found)
    places = [p for p in _PLACES.findall(body) if len(p) == 1]
    digits = str(number).zfill(len(places))
    if family == "hex" and len(places) == 12:
        digits = "02" + digits[2:]  # an address that nobody's hardware has
    left = iter(digits)
    shaped = _PLACES.sub(lambda match: match.group() if len(match.group()) > 1 else next(left), body)
    return lead + shaped + "".join(left)


def _body(found: str) -> tuple[str, str]:
    match = _LEAD.match(found)
    lead = match.group() if match else ""
    return lead, found[len(lead) :]


def _is_one(family: Family, found: str) -> bool:
    """Tell whether what looks like an identifier is one: no zeros, no loopback, no netmask, no clock time."""
    if family == "ip4":
        parts = [int(part) for part in key_of(family, found).split(".")]
        return max(parts) < 256 and parts[0] not in (0, 127, 255)
    if family == "ip6":
        groups = found.split(":")
        told = [group for group in groups if group]
        return len(told) == 8 or ("::" in found and len(told) >= 2 and ":::" not in found)
    return found not in _WELL_KNOWN and not set(key_of(family, found)) <= {"0"} and set(key_of(family, found)) != {"f"}


def _is_serial(value: str) -> bool:
    """Tell whether a serial number's place holds one, and not one with a shape of its own (a UUID)."""
    whole = next(patterned("", value), None)
    return (
        not _NOT_TOLD.fullmatch(value) and value not in _WELL_KNOWN and (whole is None or whole[:2] != (0, len(value)))
    )


def _serial_column(text: str) -> Iterator[tuple[int, int, Family]]:
    """Yield the cells below ``SN`` in the tables that ``nvme list`` prints."""
    column: tuple[int, int] | None = None
    header: str | None = None
    start = 0
    for row in text.split("\n"):
        if re.search(r"(?:^|\s)SN(?:\s|$)", row):
            header, column = row, None
        elif header is not None and row.startswith("---"):
            at = header.index("SN")
            column = next((m.span() for m in re.finditer("-+", row) if m.start() <= at < m.end()), None)
        elif not row.strip():
            header = None
        elif header is not None:
            cell = _cell(row, column)
            if cell and _is_serial(row[slice(*cell)]):
                yield start + cell[0], start + cell[1], "serial"
        start += len(row) + 1


def _cell(row: str, column: tuple[int, int] | None) -> tuple[int, int] | None:
    """Return where a row's serial number stands: in its column, or behind the device names where blanks collapsed."""
    if column and column[0] and row[column[0] - 1 : column[0]] == " " and row[column[0] :][:1].strip():
        cell = row[column[0] : column[1]].rstrip()
        return column[0], column[0] + len(cell)
    match = re.match(r"\s*(?:(?:/dev/\S+|nvme\S+)\s+)+(\S+)", row)
    return match.span(1) if match else None
