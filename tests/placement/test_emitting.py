"""What all forms share: no template prints an unquoted value, files are written whole, the time is the caller's."""

import os
import stat
from pathlib import Path

import jinja2
import msgspec
import pytest

from hostdoctor.errors import OutputError, PlacementError, UsageError
from hostdoctor.placement import emitting
from hostdoctor.placement.emitting import FORMS, Container, Form, environment, render, write
from hostdoctor.placement.model import Launch
from tests.placement.launches import MADE, by_rank, launch, one_node, spanning

ROOT = Path(__file__).parents[2]
STARTED = {"whole": launch("/bin/a"), "spanning": spanning(), "ranks": by_rank()}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("source", ["{{ value }}", "{{ value | upper }}", "x{{ 'a' ~ value }}", "{{ number }}"])
def test_a_value_without_a_quoting_filter_is_not_printed(form: Form, source: str) -> None:
    with pytest.raises(TypeError, match="unquoted"):
        environment(form).from_string(source).render(value="a", number=3)
    assert environment(form).from_string("{{ value | comment }}").render(value="a") == "a"


@pytest.mark.parametrize("form", FORMS)
def test_a_name_that_is_missing_is_an_error(form: Form) -> None:
    for source in ("{{ missing }}", "{{ missing | word }}", "{% if missing %}a{% endif %}"):
        with pytest.raises(jinja2.UndefinedError):
            environment(form).from_string(source).render()


def test_only_plain_words_pass_as_plain() -> None:
    template = environment("systemd").from_string("{{ value | plain }}")
    assert template.render(value="0-3,8") == "0-3,8"
    for value in ("a\nb", "$x", "%n", "é", "a;b", '"'):
        with pytest.raises(PlacementError):
            template.render(value=value)


def test_every_template_is_a_form_or_a_part_of_one() -> None:
    names = {path.name for path in (ROOT / "templates" / "launch").iterdir()}
    assert names == {*emitting._TEMPLATES.values(), "head.j2", "way.sh.j2"}


@pytest.mark.parametrize("form", [form for form in FORMS if form != "args"])
def test_the_head_says_who_when_where_and_from_which_evidence(form: Form) -> None:
    text = render(launch("/bin/a"), form, made=MADE)
    assert (
        "# Starts a command (vllm 0.33.0) near its GPUs. Made by hostdoctor 0.1.0 on gpu-7 at 2026-05-04T10:2" in text
    )
    assert "#   GPU0 is near node 0 [/sys/bus/pci/devices/0000:1b:00.0/numa_node: 0]\n" in text
    assert "# Physical cores: 4; SMT siblings among the CPUs: 8-11\n" in text
    assert text.endswith("\n")
    assert not text.endswith("\n\n")


def test_the_head_says_what_is_doubtful() -> None:
    binding = msgspec.structs.replace(
        one_node(limits_cpus=False, arm="far"), assumed=True, physical_cores=None, smt_siblings=None, warnings=("w1",)
    )
    started = msgspec.structs.replace(launch("/bin/a", binding=binding, notes=("n1",)), warnings=("w2",))
    text = render(started, "shell", made=msgspec.structs.replace(MADE, host=None))
    for said in ("a host without a name", "FAR arm", "ASSUMED", "cores: not known", "CPUs: not known", "not limited"):
        assert said in text
    for line in ("# Note: n1", "# WARNING: w1", "# WARNING: w2"):
        assert f"{line}\n" in text


def test_nearest_nics_are_named() -> None:
    binding = one_node()
    near = msgspec.structs.replace(binding.ranks[0], nics=("mlx5_0", "mlx5_1"))
    binding = msgspec.structs.replace(binding, ranks=(near, binding.ranks[1]))
    assert "# Nearest NICs of GPU0: mlx5_0, mlx5_1\n" in render(launch("/bin/a", binding=binding), "shell", made=MADE)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("kind", STARTED)
def test_the_same_launch_is_the_same_text(form: Form, kind: str) -> None:
    def once(started: Launch) -> str:
        try:
            return render(started, form, made=MADE, container=Container(image="i"))
        except PlacementError as error:
            return str(error)

    assert once(STARTED[kind]) == once(STARTED[kind])


@pytest.mark.parametrize(("umask", "script", "text"), [(0o022, 0o755, 0o644), (0o077, 0o700, 0o600)])
def test_a_script_is_executable_for_whom_the_umask_lets(tmp_path: Path, umask: int, script: int, text: int) -> None:
    before = os.umask(umask)
    try:
        write(tmp_path / "a", "#!/bin/sh\n", executable=True)
        write(tmp_path / "b", "a: \udcff\n", executable=False)
    finally:
        assert os.umask(before) == umask
    assert [stat.S_IMODE((tmp_path / name).stat().st_mode) for name in "ab"] == [script, text]
    assert (tmp_path / "b").read_bytes() == b"a: \xff\n"


def test_a_file_is_replaced_only_when_asked(tmp_path: Path) -> None:
    write(tmp_path / "a", "old", executable=False)
    with pytest.raises(UsageError, match="exists already"):
        write(tmp_path / "a", "new", executable=False)
    write(tmp_path / "a", "new", executable=True, force=True)
    assert (tmp_path / "a").read_text() == "new"
    assert os.access(tmp_path / "a", os.X_OK)
    (tmp_path / "link").symlink_to(tmp_path / "a")
    with pytest.raises(UsageError, match="not a regular file"):
        write(tmp_path / "link", "x", executable=False, force=True)
    assert (tmp_path / "a").read_text() == "new"


def test_an_error_on_the_way_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "a", "old", executable=False)

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("hostdoctor.sources.whole_file.os.fsync", full)
    with pytest.raises(OutputError, match="No space left"):
        write(tmp_path / "a", "new", executable=False, force=True)
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("a", "old")]
