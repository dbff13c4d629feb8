"""What holds: option, else environment, else file, else default."""

import json
from pathlib import Path
from typing import Any

import pytest

from hostdoctor.agent import settings as module
from hostdoctor.agent.settings import AgentTable, Settings, settle
from hostdoctor.cli import agent as command
from hostdoctor.config import read_config
from hostdoctor.errors import UsageError
from tests.cli.support import Ran, hostdoctor


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> list[Settings]:
    """Collect the settings that the command would serve with, instead of serving."""
    found: list[Settings] = []
    monkeypatch.setattr(command, "_serve", lambda load, folder: found.append(load().settings))
    monkeypatch.setattr(module, "DEFAULT_FOLDER", "/nowhere")
    monkeypatch.setattr("hostdoctor.config.DEFAULT", Path("/nowhere/config.toml"))
    return found


def config(tmp_path: Path, text: str) -> str:
    (tmp_path / "config.toml").write_text(text)
    return str(tmp_path / "config.toml")


def agent(*arguments: str) -> Ran:
    return hostdoctor("agent", *arguments)


def test_defaults(served: list[Settings]) -> None:
    assert agent().status == 0
    assert served == [Settings(interval_s=300, signals_s=15, history_days=90, timeout_s=60, state=None)]


def test_option_before_environment_before_file(
    served: list[Settings], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = config(tmp_path, "[agent]\ninterval = 100\nsignals = 10\ntimeout = 20\n")
    monkeypatch.setenv("HOSTDOCTOR_INTERVAL", "200")
    monkeypatch.setenv("HOSTDOCTOR_SIGNALS", "5.5")
    assert agent("--config", file, "--interval", "400").status == 0
    assert (served[0].interval_s, served[0].signals_s, served[0].timeout_s) == (400, 5.5, 20)


VALUES: dict[str, Any] = {
    "interval": 100.0,
    "signals": 5.0,
    "state": "/tmp/s.db",
    "history-days": 3.0,
    "textfile": "/tmp/t",
    "listen": "127.0.0.1:9797",
    "listen-anywhere": True,
    "timeout": 7.0,
    "checks-dir": [],
    "model-path": "/m",
    "kv-path": "/k",
}


def test_every_key_is_an_option_and_a_variable(
    served: list[Settings], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys = set(AgentTable.__struct_encode_fields__)
    assert keys == set(VALUES)
    text = "".join(f"{key} = {json.dumps(value)}\n" for key, value in VALUES.items())
    assert agent("--config", config(tmp_path, f"[agent]\n{text}")).status == 0
    options = [f"--{key}={value}" for key, value in VALUES.items() if value not in ([], True)]
    assert agent(*options, "--listen-anywhere").status == 0
    for key, value in VALUES.items():
        if value != []:
            monkeypatch.setenv(f"HOSTDOCTOR_{key.upper().replace('-', '_')}", str(value))
    assert agent().status == 0
    assert served[0] == served[1] == served[2]
    help_text = agent("--help").out
    assert all(f"--{key}" in help_text and f"HOSTDOCTOR_{key.upper().replace('-', '_')}" in help_text for key in keys)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[agent]\nintervall = 5\n", "unknown field `intervall` - at `$.agent` (did you mean interval?)"),
        ("[agent]\nhistory_days = 5\n", "(did you mean history-days?)"),
        ("[agnt]\n", "(did you mean agent?)"),
        ("[[accept]]\nid = 'HD201'\nreason = 'x'\nuntl = 2999-01-01\n", "(did you mean until?)"),
        ("[agent]\nzzz = 1\n", "unknown field `zzz` - at `$.agent`\n"),
        ("[agent]\ninterval = 'soon'\n", "Expected `float`, got `str` - at `$.agent.interval`"),
        ("[agent]\ninterval = 0\n", "interval: not between 1 and 86400: 0"),
        ("[agent]\ninterval = nan\n", "interval: not between"),
        ("[agent]\ninterval = 5\nsignals = 10\n", "signals: 10 s is longer than interval, 5 s"),
        ("[agent]\nstate = 's.db'\n", "state: not an absolute path: 's.db'"),
        ("[agent]\nchecks-dir = '/x'\n", "Expected `array`, got `str` - at `$.agent.checks-dir`"),
        ("[[accept]]\nid = 'HD999'\nreason = 'x'\nuntil = 2999-01-01\n", "accept: unknown check id: 'HD999'"),
    ],
)
def test_a_file_that_is_not_valid(served: list[Settings], tmp_path: Path, text: str, says: str) -> None:
    ran = agent("--config", config(tmp_path, text))
    assert (ran.status, ran.err.count("\n"), served) == (64, 1, [])
    assert says in ran.err


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--interval", "soon"), "not a valid float"),
        (("--history-days", "inf"), "history-days: not between"),
        (("--from", "/nowhere"), "--from: no folder with sys/ in it"),
        (("--config", "/nowhere/x.toml"), "no such file"),
        (("--state", "/tmp/x", "history"), "--state: give it after history"),
        (("history",), "--state: give a file (without it only this host has one, where"),
        (("history", "--state", "/nowhere/s.db"), "--state: no such folder"),
        (("accept-baseline", "--state", "/tmp"), "--state: a folder, name a file in it"),
    ],
)
def test_a_bad_option_is_one_line_and_usage(served: list[Settings], arguments: tuple[str, ...], says: str) -> None:
    ran = agent(*arguments)
    assert (ran.status, ran.out, ran.err.count("\n"), served) == (64, "", 1, [])
    assert says in ran.err


def test_a_variable_is_blamed_for_its_own_value_alone(served: list[Settings], monkeypatch: pytest.MonkeyPatch) -> None:
    assert agent("--interval", "soon").err.startswith("hostdoctor: Invalid value for '--interval': 'soon' is not")
    monkeypatch.setenv("HOSTDOCTOR_INTERVAL", "later")
    told = agent().err
    assert told.startswith(
        "hostdoctor: Invalid value for '--interval' (env var: 'HOSTDOCTOR_INTERVAL'): 'later' is not"
    )
    assert served == []


def test_the_state_is_kept_in_systemds_folder_but_not_that_of_another_root(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STATE_DIRECTORY", str(tmp_path))
    assert settle(AgentTable(), AgentTable(), is_rehearsal=True).state is None
    assert settle(AgentTable(), AgentTable()).state == str(tmp_path / "state.db")


def test_a_rehearsal_leaves_what_the_file_names_to_the_host() -> None:
    file = AgentTable(state="/v/state.db", textfile="/v", listen="127.0.0.1:9797", interval=60)
    rehearsed = settle(AgentTable(), file, is_rehearsal=True)
    assert (rehearsed.state, rehearsed.textfile, rehearsed.listen) == (None, None, None)
    assert rehearsed.interval_s == 60
    told = settle(AgentTable(state="/w/s.db", textfile="/w", listen="[::1]:1"), file, is_rehearsal=True)
    assert (told.state, told.textfile, told.listen) == ("/w/s.db", "/w", "[::1]:1")
    assert settle(AgentTable(), file).state == "/v/state.db"


def test_check_reads_the_same_file(tmp_path: Path) -> None:
    assert read_config(Path(config(tmp_path, "[agent]\ninterval = 100\n"))).agent.interval == 100
    with pytest.raises(UsageError, match="did you mean accept"):
        read_config(Path(config(tmp_path, "[[acept]]\n")))
