"""The units as systemd reads and judges them."""

import os
import re
import shutil
from pathlib import Path

import pytest

from hostdoctor.agent.installing import FILES
from hostdoctor.cli.agent import app as agent
from hostdoctor.config import read_config
from tests.cli.support import hostdoctor
from tests.placement.tools import needs, run

UNITS = Path(__file__).parents[2] / "systemd"
SERVICES = ("hostdoctor.service", "hostdoctor-preflight.service", "hostdoctor-check.service")
MANUAL = UNITS.parent / "docs" / "service.md"
MOST_EXPOSED = 2.0


def verified(folder: Path, name: str) -> str:
    """Return systemd's dump of a unit, once it has been read without a complaint."""
    analyze = needs("systemd-analyze")
    variables = {**os.environ, "SYSTEMD_UNIT_PATH": f"{folder}:"}
    for level in ("info", "debug"):
        checked = run(
            analyze, "verify", "--man=no", str(folder / name), environment=variables | {"SYSTEMD_LOG_LEVEL": level}
        )
        said = (checked.stdout + checked.stderr).decode()
        assert checked.returncode == 0, said
        assert level == "debug" or said == ""
    return said


@pytest.fixture
def units(tmp_path: Path) -> Path:
    """Return a folder with the units, whose program is one that is there."""
    for path in UNITS.glob("*.[st]*[er]*"):
        if path.suffix in (".service", ".timer"):
            (tmp_path / path.name).write_text(path.read_text().replace("/usr/bin/hostdoctor", "/bin/true"))
    (tmp_path / "vllm.service").write_text("[Service]\nExecStart=/bin/true\n")
    return tmp_path


@pytest.mark.parametrize("name", [*SERVICES, "hostdoctor-check.timer"])
def test_systemd_reads_every_unit_without_a_complaint(units: Path, name: str) -> None:
    verified(units, name)


@pytest.mark.parametrize("name", SERVICES)
def test_little_is_exposed(name: str) -> None:
    analyze = needs("systemd-analyze")
    judged = run(analyze, "security", "--offline=true", "--no-pager", str(UNITS / name)).stdout.decode()
    told = re.search(r"Overall exposure level for [\w.-]+: ([\d.]+)", judged)
    assert told is not None, judged
    assert float(told[1]) <= MOST_EXPOSED


def hardening(name: str) -> str:
    text = (UNITS / name).read_text()
    return text[text.index("# Hardening") :].partition("\n\n")[0].strip()


@pytest.mark.parametrize("name", SERVICES[1:])
def test_the_services_are_hardened_alike(name: str) -> None:
    assert hardening(name) == hardening(SERVICES[0])


@pytest.mark.parametrize("name", SERVICES)
def test_no_unit_limits_what_the_checks_judge(name: str) -> None:
    limits = (
        "Memory(Max|High|Low|Min|SwapMax)",
        "AllowedCPUs",
        "AllowedMemoryNodes",
        "CPUAffinity",
        "CPUQuota",
        "NUMA",
    )
    assert not re.search(rf"(?m)^({'|'.join(limits)}[A-Za-z]*)=", (UNITS / name).read_text())


def test_the_preflight_goes_before_the_engine(units: Path) -> None:
    dump = verified(units, "hostdoctor-preflight.service")
    assert re.search(r"Before: vllm\.service", dump)


def test_what_the_configuration_offers_is_taken(tmp_path: Path) -> None:
    """With every line of the example put in force it is a valid file, and every option of the agent is in it."""
    text = (UNITS / "config.toml").read_text()
    settings = re.sub(r"(?m)^# (?=\[\[accept|[a-z-]+ = )", "", text)
    (tmp_path / "config.toml").write_text(settings)
    config = read_config(tmp_path / "config.toml")
    assert config.accept[0].id == "HD204"
    options = {name.removeprefix("--") for parameter in _parameters() for name in parameter}
    assert set(re.findall(r"(?m)^(?:# )?([a-z-]+) = ", text.partition("[[accept]]")[0])) == options - NOT_IN_THE_FILE


NOT_IN_THE_FILE = {"config", "from", "state"}


def _parameters() -> list[list[str]]:
    from typer.main import get_command

    return [parameter.opts for parameter in get_command(agent).params if parameter.name != "help"]


def test_the_user_is_made_as_systemd_reads_it(tmp_path: Path) -> None:
    sysusers = shutil.which("systemd-sysusers") or pytest.skip("systemd-sysusers is not installed")
    (tmp_path / "etc").mkdir()
    made = run(str(sysusers), f"--root={tmp_path}", str(UNITS / "hostdoctor.sysusers.conf"))
    assert made.returncode == 0, made.stderr
    passwd = (tmp_path / "etc" / "passwd").read_text()
    assert re.search(r"(?m)^hostdoctor:x:\d+:\d+:hostdoctor agent:/var/lib/hostdoctor:/usr/sbin/nologin$", passwd)


def test_the_manual_is_true(units: Path) -> None:
    """Its drop-ins are taken by systemd, and every option that it names is one of the commands'."""
    manual = MANUAL.read_text()
    for number, drop_in in enumerate(re.findall(r"```ini\n(.*?)```", manual, re.DOTALL)):
        folder = units / "hostdoctor.service.d"
        folder.mkdir(exist_ok=True)
        (folder / f"{number}.conf").write_text(re.sub("=/opt/hostdoctor/bin/hostdoctor ", "=/bin/true ", drop_in))
    verified(units, "hostdoctor.service")
    known = hostdoctor("install-service", "--help").out + hostdoctor("check", "--help").out + "--now --listen --create"
    assert [option for option in re.findall(r"(?<![\w-])--[a-z][a-z-]+", manual) if option not in known] == []
    named = manual.replace(".service`, `.timer`", ".service`, `/etc/systemd/system/hostdoctor-check.timer`")
    assert [place for place in FILES.values() if f"`/{place}`" not in named] == []
