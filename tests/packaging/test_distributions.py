"""A wheel, a wheel built through an sdist, an editable install and the bare checkout all run outside the checkout."""

import json
import os
import re
import shutil
import subprocess  # noqa: TID251  builds and runs what users install
import sys
import zipfile
from pathlib import Path

import pytest

from tests.browser.views import lacking

pytestmark = pytest.mark.packaging

ROOT = Path(__file__).parents[2]
SHIPPED = ("checks", "templates", "systemd")


def run(*argv: str | Path, cwd: Path, **environment: str) -> str:
    clean = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}
    done = subprocess.run(
        [str(part) for part in argv], cwd=cwd, env=clean | environment, capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a copy of the tracked and new files, so that building leaves nothing in the real one."""
    target = tmp_path_factory.mktemp("checkout")
    names = run("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", cwd=ROOT).split("\0")
    for name in filter(None, names):
        if (ROOT / name).is_file():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, target / name)
    return target


@pytest.fixture(scope="module")
def wheels(checkout: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Build a wheel from the checkout and one from the sdist; the build tools are this environment's own."""
    out = tmp_path_factory.mktemp("dist")
    build = (sys.executable, "-m", "build", "--no-isolation")
    run(*build, "--wheel", "--outdir", out / "direct", checkout, cwd=out)
    run(*build, "--outdir", out / "sdist", checkout, cwd=out)  # the default builds the wheel from the sdist
    return {name: next((out / name).glob("*.whl")) for name in ("direct", "sdist")}


@pytest.mark.parametrize("kind", ["direct", "sdist"])
def test_the_wheel_holds_every_file_of_the_three_folders(wheels: dict[str, Path], checkout: Path, kind: str) -> None:
    inside = set(zipfile.ZipFile(wheels[kind]).namelist())
    expected = {
        f"hostdoctor/{path.relative_to(checkout)}"
        for folder in SHIPPED
        for path in (checkout / folder).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    package = {str(p.relative_to(checkout)) for p in (checkout / "hostdoctor").rglob("*") if p.is_file()}
    assert expected - inside == set()
    assert {name for name in package if "__pycache__" not in name} - inside == set()
    assert {name.partition("/")[0] for name in inside if ".dist-info" not in name} == {"hostdoctor"}


def test_through_an_sdist_the_wheel_is_the_same(wheels: dict[str, Path]) -> None:
    direct, sdist = (zipfile.ZipFile(wheels[kind]) for kind in ("direct", "sdist"))
    assert {name: direct.read(name) for name in direct.namelist()} == {n: sdist.read(n) for n in sdist.namelist()}


def pythons() -> list[str]:
    """Return every Python >= 3.10 found, one a minor version, this one first."""
    found = {f"{sys.version_info[0]}.{sys.version_info[1]}": sys.executable}
    folders = [Path(folder) for folder in os.environ["PATH"].split(os.pathsep)]
    candidates = [
        p for folder in folders for p in sorted(folder.glob("python3.*")) if re.fullmatch(r"3\.\d+", p.name[6:])
    ]
    candidates += sorted(Path.home().glob(".pyenv/versions/*/bin/python3"))
    for path in candidates:
        done = subprocess.run(
            [path, "-c", "import sys, venv; print('%d.%d' % sys.version_info[:2])"], capture_output=True, text=True
        )
        version = done.stdout.strip()
        if done.returncode == 0 and tuple(map(int, version.split("."))) >= (3, 10):
            found.setdefault(version, str(path))
    return list(found.values())


@pytest.fixture(scope="module", params=pythons())
def environment(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a fresh environment with the dependencies, of each Python found."""
    folder = tmp_path_factory.mktemp("venv")
    run(request.param, "-m", "venv", folder, cwd=folder)
    return folder


@pytest.mark.parametrize("kind", ["direct", "editable"])
def test_an_installed_copy_runs_elsewhere(
    environment: Path, wheels: dict[str, Path], checkout: Path, tmp_path: Path, kind: str
) -> None:
    what = ("--editable", checkout) if kind == "editable" else (wheels["direct"],)
    pip = (environment / "bin" / "pip", "--disable-pip-version-check", "-q", "install", "--force-reinstall")
    dependencies = () if kind == "direct" else ("--no-deps",)
    run(*pip, *dependencies, *what, cwd=tmp_path)
    looks_well(str(environment / "bin" / "hostdoctor"), cwd=tmp_path)
    finds_its_templates(str(environment / "bin" / "python"), cwd=tmp_path)
    own = environment / "lib" / f"python{sys.version_info[0]}.{sys.version_info[1]}"
    if kind == "direct" and own.exists() and lacking() is None:
        opens_in_silence(str(environment / "bin" / "hostdoctor"), tmp_path)


def test_the_bare_checkout_runs(checkout: Path, tmp_path: Path) -> None:
    looks_well(sys.executable, "-m", "hostdoctor", cwd=tmp_path, PYTHONPATH=str(checkout))
    finds_its_templates(sys.executable, cwd=tmp_path, PYTHONPATH=str(checkout))


def looks_well(*program: str, cwd: Path, **environment: str) -> None:
    """Run the demo and count what must be there: every check, and the verdict."""
    code = [*program, "check", "--demo", "--format", "json", "--fail-on", "critical", "--ignore", "HD201"]
    report = json.loads(run(*code, cwd=cwd, **environment))
    checks = [path for path in (ROOT / "checks").glob("*/*.py") if path.name != "__init__.py"]
    assert len(report["results"]) == len(checks) - 1
    assert report["host"]["system"]["hostname"] == "demo"
    assert "HD101" in run(*program, "explain", "HD101", cwd=cwd, **environment)
    placed = run(*program, "install-service", "--dry-run", "--root", ".", cwd=cwd, **environment)
    assert placed.count("would have written") == len(list((ROOT / "systemd").iterdir()))
    page = run(*program, "report", "--demo", cwd=cwd, **environment)
    assert page.startswith("<!DOCTYPE html>")
    assert "Content-Security-Policy" in page


def opens_in_silence(program: str, folder: Path) -> None:
    """Open the page of an installed copy in a browser: it fails on any request, console message or error."""
    run(program, "report", "--demo", "-o", "page.html", cwd=folder)
    run(sys.executable, "-m", "tests.browser", folder / "page.html", cwd=ROOT)


def finds_its_templates(python: str, *, cwd: Path, **environment: str) -> None:
    code = "from hostdoctor.placement.emitting import FORMS, environment; print(environment(FORMS[0]).list_templates())"
    found = run(python, "-c", code, cwd=cwd, **environment)
    assert found == f"{sorted(path.name for path in (ROOT / 'templates' / 'launch').iterdir())}\n"
