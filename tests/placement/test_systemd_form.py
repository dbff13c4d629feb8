"""The drop-in, as systemd itself reads it: ``systemd-analyze verify`` prints the parsed unit when asked to debug."""

import os
import re
import tempfile
from pathlib import Path

import msgspec
import pytest
from hypothesis import example, given, settings

from hostdoctor.errors import PlacementError
from hostdoctor.placement.emitting import render
from hostdoctor.placement.model import Launch, Reason
from tests.placement.hostile import BYTES, NASTY, words
from tests.placement.launches import MADE, by_rank, launch, one_node, spanning, two_nodes
from tests.placement.tools import needs, run

ESCAPES = {"n": "\n", "t": "\t", "a": "\a", "b": "\b", "f": "\f", "r": "\r", "v": "\v"}


def drop_in(started: Launch) -> str:
    return render(started, "systemd", made=MADE)


def as_systemd_reads(text: str, folder: Path, *, dumps: bool = True) -> str:
    """Return systemd's dump of a service with this drop-in, a character for each byte; without it its complaints."""
    analyze = needs("systemd-analyze")
    (folder / "x.service.d").mkdir(parents=True, exist_ok=True)
    (folder / "x.service").write_text("[Service]\nExecStart=/bin/false old\nCPUAffinity=99\n")
    (folder / "x.service.d" / "numa.conf").write_bytes(text.encode("utf-8", "surrogateescape"))
    variables = {**os.environ, "SYSTEMD_UNIT_PATH": f"{folder}:", "SYSTEMD_LOG_LEVEL": "debug" if dumps else "info"}
    checked = run(analyze, "verify", "--man=no", str(folder / "x.service"), environment=variables)
    said = (checked.stdout + checked.stderr).decode("latin-1")
    assert checked.returncode == 0, said
    return said


def command_of(dump: str) -> list[str]:
    """Return the words of ExecStart as systemd would start them: its dump quotes them for a shell, ``$$`` is ``$``."""
    lines = re.findall(r"-> ExecStart:\n\s*Command Line: (.*)\n", dump)
    assert len(lines) == 1
    found = re.findall(r'"((?:[^"\\]|\\.)*)"(?: |$)|([^ ]+)(?: |$)', lines[0])
    return [unescaped(quoted or bare).replace("$$", "$") for quoted, bare in found]


def unescaped(text: str) -> str:
    raw = re.sub(r"\\([0-7]{3})|\\(.)", lambda m: chr(int(m[1], 8)) if m[1] else ESCAPES.get(m[2], m[2]), text)
    return os.fsdecode(raw.encode("latin-1"))


@pytest.mark.parametrize(
    ("started", "settings_"),
    [
        (launch("/bin/true"), {"CPUAffinity": "0-3 8-11", "NUMAPolicy": "bind", "NUMAMask": "0"}),
        (
            launch("/bin/true", binding=one_node(policy="preferred", arm="far")),
            {"CPUAffinity": "4-7 12-15", "NUMAPolicy": "preferred", "NUMAMask": "1"},
        ),
        (
            launch("/bin/true", binding=two_nodes(policy="interleave")),
            {"CPUAffinity": "0-15", "NUMAPolicy": "interleave", "NUMAMask": "0-1"},
        ),
        (
            launch("/bin/true", binding=two_nodes(policy="preferred")),
            {"CPUAffinity": "0-15", "NUMAPolicy": "preferred", "NUMAMask": "0"},
        ),
        (launch("/bin/true", binding=one_node(limits_cpus=False)), {"NUMAPolicy": "bind", "NUMAMask": "0"}),
        (msgspec.structs.replace(spanning(), argv=("/bin/true",)), {}),
    ],
)
def test_systemd_takes_the_binding(started: Launch, settings_: dict[str, str], tmp_path: Path) -> None:
    assert as_systemd_reads(drop_in(started), tmp_path, dumps=False) == ""
    dump = as_systemd_reads(drop_in(started), tmp_path)
    found = dict(re.findall(r"^\s*(CPUAffinity|NUMAPolicy|NUMAMask): (.+?)\s*$", dump, re.MULTILINE))
    found = {key: value for key, value in found.items() if value != "n/a"}
    assert found == settings_
    assert command_of(dump) == ["/bin/true"]
    assert re.search(r"LimitMEMLOCK: 18446744073709551615\n", dump)


def test_the_hard_limit_is_named() -> None:
    text = drop_in(launch())
    assert "#   AllowedCPUs=0-3,8-11\n#   AllowedMemoryNodes=0\n" in text
    assert "systemd seeks a name without a slash in a path of its own" in text
    assert "a path of its own" not in drop_in(launch("/bin/true"))


def test_an_engine_that_binds_itself_gets_no_limit() -> None:
    text = drop_in(spanning())
    assert not re.search("CPUAffinity=[0-9]|NUMA(Policy|Mask)=|Allowed", text)
    assert "its own workers" in text


def test_one_node_alone_can_be_preferred() -> None:
    assert "# systemd prefers one node at most: the first of 0,1." in drop_in(
        launch(binding=two_nodes(policy="preferred"))
    )


@settings(max_examples=60)
@given(argv=words.map(lambda word: [word, word]))
@example(argv=[*NASTY, *BYTES])
def test_systemd_starts_every_word_byte_for_byte(argv: list[str]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        dump = as_systemd_reads(drop_in(launch("/bin/true", *argv)), Path(folder))
    assert command_of(dump) == ["/bin/true", *argv]


@pytest.mark.parametrize("value", [word for word in NASTY if "\n" not in word and word.isprintable()])
def test_systemd_takes_a_variable_as_it_is(value: str, tmp_path: Path) -> None:
    dump = as_systemd_reads(drop_in(launch("/bin/true", environment={"A": value})), tmp_path)
    assert f"\t\tEnvironment: A={value}\n".encode().decode("latin-1") in dump


def test_a_variable_may_have_lines(tmp_path: Path) -> None:
    dump = as_systemd_reads(drop_in(launch("/bin/true", environment={"A": "b\n\tc"})), tmp_path)
    assert "\t\tEnvironment: A=b\n\tc\n" in dump


@pytest.mark.parametrize("text", ["x\nExecStart=/bin/rm", "a\\", "\u2028\r[Service]", "\udcff"])
def test_no_comment_becomes_a_setting(text: str, tmp_path: Path) -> None:
    binding = msgspec.structs.replace(one_node(), reasons=(Reason(text=text, source=text),), warnings=(text,))
    dump = as_systemd_reads(drop_in(launch("/bin/true", binding=binding, notes=(text,))), tmp_path)
    assert command_of(dump) == ["/bin/true"]


@pytest.mark.parametrize(
    ("started", "named"),
    [
        (by_rank(), "every rank"),
        (launch("-x"), "'-x'"),
        (launch("./serve.sh"), "'./serve.sh'"),
        (launch("/opt/a$b"), "/opt/a$b"),
        (launch('/opt/a"b'), '/opt/a"b'),
        (launch("/opt/a\nb"), "/opt/a\\nb"),
        (launch("/bin/true", "a\0b"), "a\\x00b"),
        (launch("/bin/true", "\ud800"), "ud800"),
        (launch("/bin/true", "x" * 2_000_000), "1 MiB"),
        (launch("/bin/true", environment={"A": "\x01"}), "A='\\x01'"),
        (launch("/bin/true", environment={"A": "\udcff"}), "udcff"),
        (launch("/bin/true", environment={"1A": "x"}), "1A"),
    ],
)
def test_what_systemd_cannot_hold_is_refused_by_name(started: Launch, named: str) -> None:
    with pytest.raises(PlacementError) as raised:
        drop_in(started)
    assert named in str(raised.value)
