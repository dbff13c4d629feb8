"""docs/monitoring.md shows what there is."""

import re
from pathlib import Path

import pytest
import yaml

from hostdoctor.agent.http import MAX_HEAD_BYTES, MAX_LINE_BYTES
from hostdoctor.agent.listener import MAX_AGE_S
from hostdoctor.agent.metrics import snapshot_families
from hostdoctor.agent.server import DEADLINE_S, MAX_CONNECTIONS
from hostdoctor.outputs.metric_names import METRICS, PREFIX
from hostdoctor.outputs.prometheus import MAX_LABEL_CHARACTERS, MAX_SERIES
from tests.agent.snapshots import healthy, sick
from tests.cli.support import hostdoctor

ROOT = Path(__file__).parents[1]
TEXT = (ROOT / "docs" / "monitoring.md").read_text(encoding="utf-8")
ROWS = re.findall(r"^\| `hostdoctor_(\w+)` \| ([^|]+) \| (agent|check|both) \| ([^|]+) \|$", TEXT, re.MULTILINE)


def test_the_table_has_every_metric_as_it_is() -> None:
    assert [(name, text) for name, _, _, text in ROWS] == [(name, text) for name, (_, text) in METRICS.items()]


def test_the_table_says_who_tells_what() -> None:
    told = {name for name, _, who, _ in ROWS if who != "check"}
    seen = {f.name.removeprefix(PREFIX) for snapshot in (healthy(), sick()) for f in snapshot_families(snapshot)}
    assert told - seen == {"metrics_left_out_series", "nvme_usual_write_await_seconds"}
    assert seen <= told
    text = hostdoctor("check", "--demo", "--format", "prometheus").out
    demo = re.findall(r"^# TYPE hostdoctor_(\w+)", text, re.MULTILINE)
    assert set(demo) <= {name for name, _, who, _ in ROWS if who != "agent"}


def test_the_labels_are_those_of_the_series() -> None:
    labels = {name: set(re.findall(r"\w+", words)) for name, words, _, _ in ROWS}
    for snapshot in (healthy(), sick()):
        for family in snapshot_families(snapshot):
            for series in family.series:
                assert {name for name, _ in series.labels} <= labels[family.name.removeprefix(PREFIX)]
    for name, words in re.findall(
        r"^hostdoctor_(\w+)\{(.*)\} ", hostdoctor("check", "--demo", "--format", "prometheus").out, re.MULTILINE
    ):
        assert set(re.findall(r"(\w+)=\"", words)) <= labels[name]


def test_what_is_shown_of_the_demo_is_the_demos() -> None:
    metrics = hostdoctor("check", "--demo", "--format", "prometheus").out.splitlines()
    shown = re.findall(r"^hostdoctor_\w+\{.*\} \d+$", TEXT, re.MULTILINE)
    assert len(shown) == 4
    assert set(shown) <= set(metrics)
    assert sum(not line.startswith("#") for line in metrics) == pytest.approx(200, abs=25)  # "some 200"
    labels = "".join(f"{line}\n" for line in re.findall(r"^feature\.node.*$", TEXT, re.MULTILINE))
    assert labels == hostdoctor("check", "--demo", "--format", "nfd").out


def test_the_limits_are_those_of_the_code() -> None:
    assert (MAX_LINE_BYTES, MAX_HEAD_BYTES, MAX_CONNECTIONS, DEADLINE_S) == (2 << 10, 8 << 10, 64, 5.0)
    assert (MAX_LABEL_CHARACTERS, MAX_SERIES, MAX_AGE_S) == (100, 500, 120.0)
    words = " ".join(TEXT.split())
    for told in (
        "above 2 KiB 414",
        "above 8 KiB 431",
        "64 clients",
        "for 5 s",
        "100 characters",
        "500 series",
        "120 s",
    ):
        assert told in words


def test_every_alert_and_every_template_is_named() -> None:
    alerts = yaml.safe_load((ROOT / "templates" / "monitoring" / "alerts.yaml").read_text(encoding="utf-8"))
    assert all(rule["alert"] in TEXT for group in alerts["groups"] for rule in group["rules"])
    folders = [ROOT / "templates" / name for name in ("monitoring", "kubernetes", "slurm")]
    assert all(path.name in TEXT for folder in folders for path in folder.iterdir())
