"""``hostdoctor install-service`` below a root of its own."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from hostdoctor.agent.installing import FILES
from tests.cli.support import Ran, hostdoctor
from tests.service.test_units import verified

UNITS = Path("etc/systemd/system")


def install(root: Path, *options: str) -> Ran:
    return hostdoctor("install-service", "--root", str(root), "--program", "/bin/true", *options)


def contents(root: Path) -> dict[str, bytes]:
    return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}


def test_everything_is_put_in_place_and_said(tmp_path: Path) -> None:
    ran = install(tmp_path)
    assert ran.status == 0, ran.err
    assert sorted(contents(tmp_path)) == sorted(FILES.values())
    for place in FILES.values():
        assert f"wrote {tmp_path / place}\n" in ran.out
    assert "systemctl enable --now hostdoctor.service" in ran.out
    assert "Nothing was started. Next, in the system that has this root:" in ran.out
    assert "The units start /bin/true: that root needs it there" in ran.out
    assert oct((tmp_path / UNITS / "hostdoctor.service").stat().st_mode & 0o777) == "0o644"


@pytest.mark.parametrize("unit", ["hostdoctor.service", "hostdoctor-preflight.service", "hostdoctor-check.service"])
def test_installed_units_start_the_program(tmp_path: Path, unit: str) -> None:
    assert install(tmp_path, "--before", "engine@1.service", "--before", "b.service").status == 0
    (tmp_path / UNITS / "b.service").write_text("[Service]\nExecStart=/bin/true\n")
    dump = verified(tmp_path / UNITS, unit)
    assert re.search(r"Command Line: /bin/true (agent|check )", dump)
    assert (re.search("Before: b.service", dump) is not None) == (unit == "hostdoctor-preflight.service")
    text = (tmp_path / UNITS / "hostdoctor-preflight.service").read_text()
    assert "\nRequiredBy=engine@1.service b.service\n" in text


def test_a_rehearsal_changes_nothing(tmp_path: Path) -> None:
    ran = install(tmp_path, "--dry-run")
    assert ran.status == 0
    assert contents(tmp_path) == {}
    assert f"would have written {tmp_path / UNITS}/hostdoctor.service" in ran.out
    install(tmp_path)
    before = contents(tmp_path)
    assert (
        f"would have removed {tmp_path / UNITS}/hostdoctor.service" in install(tmp_path, "--uninstall", "--dry-run").out
    )
    assert contents(tmp_path) == before


def test_a_second_time_nothing_changes(tmp_path: Path) -> None:
    install(tmp_path)
    before = contents(tmp_path)
    assert "wrote" not in install(tmp_path).out
    assert contents(tmp_path) == before


def test_what_an_earlier_version_wrote_is_replaced(tmp_path: Path) -> None:
    install(tmp_path)
    told = hostdoctor("install-service", "--root", str(tmp_path), "--program", "/bin/false")
    assert f"replaced {tmp_path / UNITS}/hostdoctor.service" in told.out
    assert "ExecStart=/bin/false agent" in (tmp_path / UNITS / "hostdoctor.service").read_text()


def edited(path: Path) -> None:
    path.write_text(path.read_text().replace("Nice=5", "Nice=6"))


def foreign(path: Path) -> None:
    path.write_text("[Service]\nExecStart=/opt/mine\n")


@pytest.mark.parametrize("change", [edited, foreign])
@pytest.mark.parametrize("option", ["--uninstall", "--program=/bin/false"])
def test_somebody_elses_work_is_not_touched(tmp_path: Path, change: Callable[[Path], None], option: str) -> None:
    install(tmp_path)
    unit = tmp_path / UNITS / "hostdoctor.service"
    change(unit)
    before = contents(tmp_path)
    ran = hostdoctor("install-service", "--root", str(tmp_path), option)
    assert ran.status == 64
    assert f"edited since, or not hostdoctor's: {unit} " in ran.err
    assert contents(tmp_path) == before


def test_told_to_it_replaces_even_that(tmp_path: Path) -> None:
    install(tmp_path)
    before = contents(tmp_path)
    foreign(tmp_path / UNITS / "hostdoctor.service")
    edited(tmp_path / UNITS / "hostdoctor-check.service")
    assert install(tmp_path, "--force").status == 0
    assert contents(tmp_path) == before


@pytest.mark.parametrize("options", [("--force",), ("--force", "--uninstall")])
def test_a_masked_unit_stays_masked(tmp_path: Path, options: tuple[str, ...]) -> None:
    install(tmp_path)
    unit = tmp_path / UNITS / "hostdoctor.service"
    unit.unlink()
    unit.symlink_to("/dev/null")
    ran = install(tmp_path, *options)
    assert ran.status == 64
    assert f"not a regular file: {unit} (a masked unit: systemctl unmask)" in ran.err
    assert unit.is_symlink()


@pytest.mark.parametrize("option", ["--force", "--uninstall"])
def test_an_edited_configuration_always_stays(tmp_path: Path, option: str) -> None:
    install(tmp_path)
    config = tmp_path / "etc/hostdoctor/config.toml"
    config.write_text("[agent]\ninterval = 60\n")
    ran = install(tmp_path, option)
    assert ran.status == 0, ran.err
    assert f"kept {config}: yours" in ran.out
    assert config.read_text() == "[agent]\ninterval = 60\n"


def test_uninstalling_takes_away_its_own_files_alone(tmp_path: Path) -> None:
    (tmp_path / UNITS).mkdir(parents=True)
    (tmp_path / UNITS / "other.service").write_text("x")
    install(tmp_path)
    ran = install(tmp_path, "--uninstall")
    assert ran.status == 0, ran.err
    assert contents(tmp_path) == {f"{UNITS}/other.service": b"x"}
    assert "Nothing was stopped. Next, in the system that has this root:" in ran.out
    assert "To drop them, in the system that has this root:\n  rm -r /var/lib/hostdoctor" in ran.out
    assert install(tmp_path, "--uninstall").out.count("not there") == len(FILES)


@pytest.mark.parametrize(
    "link", ["multi-user.target.wants/hostdoctor.service", "vllm.service.requires/hostdoctor-preflight.service"]
)
def test_units_that_are_enabled_stay(tmp_path: Path, link: str) -> None:
    install(tmp_path)
    (tmp_path / UNITS / link).parent.mkdir()
    (tmp_path / UNITS / link).symlink_to("../hostdoctor.service")
    ran = install(tmp_path, "--uninstall")
    assert ran.status == 64
    assert f"still enabled: {tmp_path / UNITS / link}: first: systemctl disable --now hostdoctor.service" in ran.err
    assert (tmp_path / UNITS / "hostdoctor.service").exists()


@pytest.mark.parametrize(
    ("option", "value", "named"),
    [
        ("--program", "hostdoctor", "not an absolute path"),
        ("--program", "/opt/a b/hostdoctor", "not a plain path"),
        ("--program", "/opt/$x/hostdoctor", "not a plain path"),
        ("--program", "/opt/%n/hostdoctor", "not a plain path"),
        ("--program", "/opt/x\nExecStart=/bin/rm", "not a plain path"),
        ("--before", "vllm", "not the name of a unit, as vllm.service: 'vllm'"),
        ("--before", "a.service\n[Service]", "not the name of a unit"),
        ("--before", "a.service b.service", "not the name of a unit"),
        ("--root", "/no/such/folder", "no such folder"),
    ],
)
def test_what_no_unit_can_hold_is_refused(tmp_path: Path, option: str, value: str, named: str) -> None:
    ran = install(tmp_path, option, value)
    assert ran.status == 64
    assert named in ran.err
    assert ran.err.count("\n") == 1
    assert contents(tmp_path) == {}


def test_a_link_in_an_image_does_not_lead_out_of_it(tmp_path: Path) -> None:
    (tmp_path / "image").mkdir()
    (tmp_path / "outside").mkdir()
    (tmp_path / "image" / "etc").symlink_to(tmp_path / "outside")
    ran = install(tmp_path / "image")
    assert ran.status == 64
    assert "leads out of" in ran.err
    assert not list((tmp_path / "outside").iterdir())


def test_a_folder_in_the_way_is_named(tmp_path: Path) -> None:
    (tmp_path / "etc").write_text("a file")
    ran = install(tmp_path)
    assert ran.status == 3
    assert ran.err.startswith(f"hostdoctor: {tmp_path / UNITS}/hostdoctor.service: not written")


def test_a_program_that_the_service_could_not_start_is_refused(tmp_path: Path) -> None:
    """A rehearsal on this machine: the temporary folder is the service's own, and nobody else enters a private one."""
    (tmp_path / "hostdoctor").write_text("")
    ran = hostdoctor("install-service", "--dry-run", "--program", str(tmp_path / "hostdoctor"))
    assert ran.status == 64
    assert "where the service cannot read it" in ran.err
