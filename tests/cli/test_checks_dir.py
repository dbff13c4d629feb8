"""``--checks-dir``: a site's own checks, and whose they must be."""

import json
import os
import signal
import subprocess  # noqa: TID251  ends a process that never ends by itself
import sys
from pathlib import Path

import pytest

from tests.cli.support import Ran, hostdoctor

CHECK = '''\
from hostdoctor.diagnosis import Remedy, check, finding

@check("{id}", "{name}", "{severity}")
def ours(host, ask):
    """The kernel is not the one that this site builds.

    ## Remedy
    Install it.
    """
    if "acme" not in (host.system.kernel or ""):
        yield finding("kernel", "not ours", "warning", evidence=[("/proc", host.system.kernel)],
                      remedy=Remedy(text="Install it.", undo="Remove it.", verify="uname -r"))
'''


def source(id: str = "ACME1", name: str = "kernel-not-ours", severity: str = "warning") -> str:
    return CHECK.format(id=id, name=name, severity=severity)


@pytest.fixture
def site(tmp_path: Path) -> Path:
    folder = tmp_path / "site"
    folder.mkdir(mode=0o755)
    put(folder, "kernel.py", source())
    return folder


def put(folder: Path, name: str, text: str, mode: int = 0o644) -> Path:
    path = folder / name
    path.write_text(text)
    path.chmod(mode)
    return path


def check(*folders: Path, select: str = "ACME1") -> Ran:
    options = [part for folder in folders for part in ("--checks-dir", str(folder))]
    return hostdoctor("check", "--demo", "--format", "json", "--select", select, *options)


def refused(ran: Ran, path: Path, reason: str) -> bool:
    assert (ran.status, ran.out, ran.err.count("\n")) == (64, "", 1), ran
    assert ran.err.startswith(f"hostdoctor: {path}: ") or ran.err.startswith(f"hostdoctor: --checks-dir {path}: ")
    assert reason in ran.err
    return True


def test_a_sites_check_runs_and_is_explained(site: Path) -> None:
    put(site, "README.txt", "not a check")
    ran = check(site)
    assert ran.status == 1
    (result,) = json.loads(ran.out)["results"]
    assert (result["id"], result["status"], result["findings"][0]["message"]) == ("ACME1", "fail", "not ours")
    explained = hostdoctor("explain", "kernel-not-ours", "--checks-dir", str(site))
    assert explained.out.startswith("# ACME1 kernel-not-ours (warning)\n\nThe kernel is not the one")
    assert not (site / "__pycache__").exists()


def test_the_others_run_beside_it(site: Path) -> None:
    ran = hostdoctor("check", "--demo", "--format", "json", "--checks-dir", str(site))
    ids = [result["id"] for result in json.loads(ran.out)["results"]]
    assert "ACME1" in ids
    assert "HD201" in ids
    assert hostdoctor("explain", "ACME1").status == 64


def test_several_folders_may_hold_files_of_one_name(site: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir(mode=0o755)
    put(other, "kernel.py", source("ACME2", "kernel-again"))
    ran = check(site, other, select="ACME1,ACME2")
    assert [result["id"] for result in json.loads(ran.out)["results"]] == ["ACME1", "ACME2"]


def test_a_check_that_breaks_while_it_runs_costs_itself(site: Path) -> None:
    put(site, "kernel.py", source().replace("    if", "    raise KeyError(1)\n    if"))
    ran = hostdoctor("check", "--demo", "--format", "json", "--checks-dir", str(site))
    results = {result["id"]: result["status"] for result in json.loads(ran.out)["results"]}
    assert results["ACME1"] == "error"
    assert results["HD201"] == "fail"


BREAKING = {
    "ends the process": "raise SystemExit(0)",
    "ends it otherwise": "raise GeneratorExit",
    "raises what is no exception": "class Odd(BaseException): pass\n    raise Odd",
    "raises what has no words": "class Odd(Exception):\n        def __str__(self): 1 / 0\n    raise Odd",
    "raises what cannot be printed": "raise ValueError('\\ud800')",
    "gives a number": "yield 5",
    "gives nothing": "yield None",
    "returns a text": "return 'not ours'",
    "knows another severity": "yield finding('kernel', 'not ours', 'fatal', evidence=[('a', 'b')], remedy=REMEDY)",
    "names no subject": "yield finding(None, 'not ours', 'warning', evidence=[('a', 'b')], remedy=REMEDY)",
    "cannot be printed": "yield finding('\\ud800', 'not ours', 'warning', evidence=[('a', 'b')], remedy=REMEDY)",
    "skips for no reason": "yield Skip(kind='bogus', reason='x')",
    "changes the host": "host.gpus = ()",
    "takes no host": "ours()",
}


@pytest.mark.parametrize("case", BREAKING)
def test_a_check_that_does_what_no_check_may_costs_itself(site: Path, case: str) -> None:
    """Above all it never ends the process as if all were well."""
    imports = "from hostdoctor.diagnosis import Skip\n"
    remedy = "REMEDY = Remedy(text='a', undo='b', verify='c')\n"
    text = source().replace("@check", f"{imports}{remedy}@check", 1)
    put(site, "kernel.py", text[: text.index("    if")] + f"    {BREAKING[case]}\n")
    for format_ in ("json", "text"):
        ran = hostdoctor("check", "--demo", "--format", format_, "--select", "ACME1,HD204", "--checks-dir", str(site))
        assert (ran.status, ran.err) == (0, "")
        if format_ == "json":
            results = {result["id"]: result["status"] for result in json.loads(ran.out)["results"]}
            assert results == {"ACME1": "error", "HD204": "fail"}


def test_what_a_check_prints_is_no_part_of_the_report(site: Path) -> None:
    put(site, "kernel.py", "print('loaded')\n" + source().replace("    if", "    print('run')\n    if", 1))
    ran = check(site)
    (result,) = json.loads(ran.out)["results"]
    assert (result["id"], result["status"]) == ("ACME1", "fail")
    assert ran.err == "loaded\nrun\n"


def test_a_check_that_takes_the_output_away_leaves_the_report(site: Path) -> None:
    put(site, "kernel.py", source().replace("    if", "    import sys\n    sys.stdout = None\n    if", 1))
    (result,) = json.loads(check(site).out)["results"]
    assert (result["id"], result["status"]) == ("ACME1", "fail")


def test_needs_that_are_no_functions_cost_their_check(site: Path) -> None:
    put(site, "kernel.py", source().replace('"warning")', '"warning", needs=(5,))', 1))
    (result,) = json.loads(check(site).out)["results"]
    assert (result["status"], result["reason"]) == ("error", "TypeError: 'int' object is not callable")


@pytest.mark.parametrize("where", ["import", "run"])
def test_a_check_that_never_ends_is_ended_by_a_signal(site: Path, where: str) -> None:
    endless = "import sys\nsys.stderr.write('here')\nsys.stderr.flush()\nwhile True: pass\n"
    text = source()
    body = text[: text.index("    if")] + "".join(f"    {row}\n" for row in endless.splitlines())
    put(site, "kernel.py", endless + text if where == "import" else body)
    command = [sys.executable, "-m", "hostdoctor", "check", "--demo", "--checks-dir", str(site)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stderr is not None
    assert process.stderr.read(4) == b"here"
    process.terminate()
    assert process.wait(60) == 128 + signal.SIGTERM
    process.communicate()


@pytest.mark.parametrize("mode", [0o664, 0o646, 0o666])
def test_a_file_that_others_may_write_is_refused(site: Path, mode: int) -> None:
    path = put(site, "other.py", source("ACME2", "b"), mode)
    assert refused(check(site), path, f"its group or everybody may write it (mode {mode:04o}): refused")


def test_a_file_that_is_not_loaded_must_pass_too(site: Path) -> None:
    path = put(site, "_off.py", "raise SystemExit", 0o666)
    assert refused(check(site), path, "may write it")
    path.chmod(0o600)
    assert check(site).status == 1


@pytest.mark.parametrize("mode", [0o775, 0o757, 0o1777])
def test_a_folder_that_others_may_write_is_refused(site: Path, mode: int) -> None:
    site.chmod(mode)
    assert refused(check(site), site, "may write it")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_what_another_user_owns_is_refused(site: Path) -> None:
    os.chown(site / "kernel.py", 65534, 65534)
    assert refused(check(site), site / "kernel.py", "owned by user 65534, not by root or the caller")
    os.chown(site / "kernel.py", 0, 0)
    os.chown(site, 65534, 65534)
    assert refused(check(site), site, "owned by user 65534")


def test_a_link_is_refused_and_so_is_what_is_no_file(site: Path, tmp_path: Path) -> None:
    link = site / "link.py"
    link.symlink_to(put(tmp_path, "elsewhere.py", source("ACME2", "b")))
    assert refused(check(site), link, "a symbolic link: refused")
    link.unlink()
    os.mkfifo(link)
    assert refused(check(site), link, "not a regular file")
    link.unlink()
    link.mkdir()
    assert refused(check(site), link, "not a regular file")


def test_a_folder_that_is_not_there_is_told(tmp_path: Path) -> None:
    assert refused(check(tmp_path / "none"), tmp_path / "none", "no such file or directory")
    assert refused(check(put(tmp_path, "a.py", "")), tmp_path / "a.py", "not a directory")


@pytest.mark.parametrize("mode", [0o775, 0o757, 0o777])
def test_a_folder_that_others_can_exchange_is_refused(site: Path, tmp_path: Path, mode: int) -> None:
    above = tmp_path / "above"
    (above / "between").mkdir(parents=True)
    inside = site.rename(above / "between" / "site")
    above.chmod(mode)
    assert refused(check(inside), above, f"its group or everybody may write it (mode {mode:04o}): refused")
    above.chmod(0o1777)  # as /tmp: nobody but its owner renames what is in it
    assert check(inside).status == 1


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_a_folder_below_another_users_is_refused(site: Path, tmp_path: Path) -> None:
    above = tmp_path / "above"
    (above / "between").mkdir(parents=True)
    inside = site.rename(above / "between" / "site")
    os.chown(above, 65534, 65534)
    assert refused(check(inside), above, "owned by user 65534")
    os.chown(above, 0, 0)
    above.chmod(0o1777)
    os.chown(above / "between", 65534, 65534)
    assert refused(check(inside), above / "between", "owned by user 65534")


def test_links_on_the_way_are_looked_at_one_by_one(site: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    open_folder = tmp_path / "open"
    open_folder.mkdir()
    (open_folder / "link").symlink_to(site)
    (tmp_path / "safe").symlink_to("open/link")
    (tmp_path / "round").symlink_to("round")
    assert check(open_folder / "link").status == 1
    assert check(tmp_path / "safe").status == 1
    assert check(tmp_path / "safe" / ".." / "site").status == 1
    monkeypatch.chdir(site)
    assert check(Path()).status == check(Path("../site")).status == 1
    assert refused(check(tmp_path / "round"), tmp_path / "round", "too many levels of symbolic links")
    open_folder.chmod(0o777)
    assert refused(check(open_folder / "link"), open_folder, "may write it")
    assert refused(check(tmp_path / "safe"), open_folder, "may write it")
    assert check(site).status == 1


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_a_link_that_another_user_made_in_a_shared_folder_is_refused(site: Path, tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o1777)
    (shared / "link").symlink_to(site)
    assert check(shared / "link").status == 1
    os.chown(shared / "link", 65534, 65534, follow_symlinks=False)
    assert refused(check(shared / "link"), shared / "link", "owned by user 65534")


BROKEN = {
    "syntax": ("def x(:\n", "line 1: SyntaxError"),
    "import": ("import no_such_module\n", "ModuleNotFoundError"),
    "error": ("1 / 0\n", "ZeroDivisionError"),
    "exit": ("raise SystemExit(0)\n", "SystemExit"),
    "bytes": ("\0", "cannot be loaded"),
    "no exception": ("class Odd(BaseException): pass\nraise Odd('a\\nb')\n", "Odd: a b"),
    "generator exit": ("raise GeneratorExit\n", "GeneratorExit"),
    "wordless": ("class Odd(Exception):\n    def __str__(self): 1 / 0\nraise Odd\n", "cannot be loaded: Odd"),
    "encoding": ("# -*- coding: nonsense -*-\n", "SyntaxError"),
    "recursion": ("def f(): f()\nf()\n", "RecursionError"),
    "no check": ("x = 1\n", "holds no function marked with @check"),
    "imported check": (
        "from hostdoctor.checks.pcie.gpu_link_narrow import *\nfrom hostdoctor.diagnosis import check\n",
        "holds no function marked with @check",
    ),
    "severity": (source("ACME2", "b", "fatal"), "not an id, name or severity"),
    "id": (source("acme 2", "b"), "not an id, name or severity"),
    "name": (source("ACME2", "B b"), "not an id, name or severity"),
    "own id again": (source("HD201", "b"), "HD201 b: taken by HD201 gpu-link-narrow"),
    "merged id again": (source("HD108", "b"), "HD108 b: taken by HD103 tp-set-spans-nodes"),
    "own name again": (source("ACME2", "gpu-link-narrow"), "taken by HD201 gpu-link-narrow"),
    "site id again": (source("ACME1", "b"), "taken by ACME1 kernel-not-ours"),
    "twice in a file": (source("ACME2", "b") + source("ACME2", "c").replace("ours", "mine"), "taken by ACME2 b"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_a_broken_file_is_named_in_one_line(site: Path, case: str) -> None:
    text, reason = BROKEN[case]
    path = put(site, "z_broken.py", text)
    assert refused(check(site), path, reason)


def test_what_a_site_took_is_told_by_its_file(site: Path) -> None:
    path = put(site, "z_again.py", source("ACME1", "again"))
    (first,) = (file for file in site.glob("*.py") if file != path)
    assert refused(check(site), path, f"taken by ACME1 kernel-not-ours ({first})")


def test_a_folder_without_checks_is_refused(site: Path, tmp_path: Path) -> None:
    bare = tmp_path / "bare"
    bare.mkdir(mode=0o755)
    put(bare, "_helpers.py", "x = 1\n")
    put(bare, "readme.txt", "nothing\n")
    assert refused(check(site, bare), bare, "no check is there")


def test_a_types_own_annotations_are_found(site: Path) -> None:
    text = "from __future__ import annotations\nimport msgspec\nclass A(msgspec.Struct):\n    b: B\n"
    text += "class B(msgspec.Struct):\n    c: int\nassert msgspec.convert({'b': {'c': 1}}, A).b.c == 1\n"
    put(site, "typed.py", text + source("ACME2", "typed"))
    assert check(site).status == 1
    assert not any(name.startswith("typed") for name in sys.modules)


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("yield 'it is wrong'", "neither a finding nor a skip: str"),
        ("yield None", "neither a finding nor a skip: NoneType"),
        ("return None", "TypeError"),
    ],
)
def test_a_check_that_yields_something_else_never_passes(tmp_path: Path, body: str, reason: str) -> None:
    text = (
        f"from hostdoctor.diagnosis import check\n\n\n@check('ACME1', 'odd', 'info')\ndef odd(host, ask):\n    {body}\n"
    )
    put(tmp_path, "odd.py", text)
    (result,) = json.loads(check(tmp_path).out)["results"]
    assert result["status"] == "error"
    assert reason in result["reason"]
