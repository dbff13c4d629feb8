"""What ships for monitoring, tried on a real Prometheus that scrapes the agent's listener."""

import json
import re
import time
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
import yaml

from hostdoctor.agent.listener import ListenPublisher
from hostdoctor.agent.metrics import snapshot_families
from hostdoctor.outputs.metric_names import METRICS, PREFIX
from tests.agent.snapshots import healthy, sick
from tests.support.prometheus_server import Prometheus, free_port, prometheus, until
from tests.support.promtool import promtool

FOLDER = Path(__file__).parents[2] / "templates" / "monitoring"
DASHBOARD = json.loads((FOLDER / "grafana-dashboard.json").read_text(encoding="utf-8"))
ALERTS = yaml.safe_load((FOLDER / "alerts.yaml").read_text(encoding="utf-8"))
RULES = [rule for group in ALERTS["groups"] for rule in group["rules"]]
PANELS = [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]
QUERIES = [(panel["title"], target["expr"]) for panel in PANELS for target in panel["targets"]]
GRID_COLUMNS = 24
SCRAPES = 4


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    """Run a Prometheus that has seen a host in order and then in trouble, and an agent that does not answer."""
    folder = tmp_path_factory.mktemp("prometheus")
    publisher = ListenPublisher("127.0.0.1:0")
    publisher(healthy(time.time()))
    job = yaml.safe_load((FOLDER / "prometheus.yaml").read_text(encoding="utf-8"))["scrape_configs"][0]
    job |= {"scrape_interval": "200ms", "scrape_timeout": "200ms"}
    job["static_configs"] = [{"targets": [f"127.0.0.1:{publisher.port}", f"127.0.0.1:{free_port()}"]}]
    (folder / "prometheus.yaml").write_text(yaml.safe_dump({"scrape_configs": [job]}), encoding="utf-8")
    try:
        with prometheus(folder / "prometheus.yaml", folder) as running:
            scraped = "count_over_time(hostdoctor_build_info[1h])"
            until(lambda: any(float(s["value"][1]) >= SCRAPES for s in running.query(scraped)), "no scrape")
            publisher(sick(time.time()))
            errors = 'hostdoctor_pcie_errors_total{severity="nonfatal"}'
            seen = f"count_over_time({errors}[1h]) and {errors} > 0"
            until(lambda: bool(running.query(seen)), "the new snapshot is not scraped")
            yield running
    finally:
        publisher.close()


def series(server: Prometheus, expression: str) -> list[Any]:
    """Return what an expression has, with the dashboard's variables set to everything."""
    return server.query(expression.replace("$instance", ".+"))


@pytest.mark.parametrize(("title", "expression"), QUERIES, ids=[f"{t}-{i}" for i, (t, _) in enumerate(QUERIES)])
def test_every_query_of_the_dashboard_has_data(server: Prometheus, title: str, expression: str) -> None:
    assert series(server, expression) != []


@pytest.mark.parametrize("rule", RULES, ids=[rule["alert"] for rule in RULES])
def test_every_alert_is_raised_by_its_trouble(server: Prometheus, rule: dict[str, Any]) -> None:
    found = server.query(rule["expr"])
    assert found != []
    used = set(re.findall(r"\$labels\.(\w+)", str(rule["annotations"])))
    assert used <= set(found[0]["metric"])


def test_prometheus_has_no_complaint_about_the_target(server: Prometheus) -> None:
    targets = server.get("targets", state="active")["activeTargets"]
    assert sorted(target["health"] for target in targets) == ["down", "up"]
    assert [t["lastError"] for t in targets if t["health"] == "up"] == [""]


def test_the_hosts_to_choose_from_are_those_that_were_scraped(server: Prometheus) -> None:
    variable = next(v for v in DASHBOARD["templating"]["list"] if v["name"] == "instance")
    name = re.fullmatch(r"label_values\((\w+), instance\)", variable["definition"])
    assert name is not None
    assert len(server.query(name[1])) == 1


def test_the_types_arrive_as_they_were_meant(server: Prometheus) -> None:
    told = server.get("metadata")
    kinds = {family.name.removesuffix("_total"): family.kind for family in snapshot_families(healthy())}
    assert {name: told[name][0]["type"] for name in kinds} == kinds  # OpenMetrics names a counter without its suffix


def test_promtool_reads_rules_and_configuration() -> None:
    promtool("check", "rules", "alerts.yaml", folder=FOLDER)
    promtool("check", "config", "prometheus.yaml", folder=FOLDER)


def test_alerts_wait_and_speak_as_they_should() -> None:
    promtool("test", "rules", str(Path(__file__).with_name("alerts_test.yaml")))


def test_the_dashboard_is_whole() -> None:
    ids = [panel["id"] for panel in DASHBOARD["panels"]]
    assert len(ids) == len(set(ids))
    assert {v["name"] for v in DASHBOARD["templating"]["list"]} == {"datasource", "instance"}
    for panel in PANELS:
        assert panel["datasource"] == {"type": "prometheus", "uid": "${datasource}"}
        references = [target["refId"] for target in panel["targets"]]
        assert len(references) == len(set(references))


def test_no_panel_covers_another() -> None:
    boxes = [(p["title"], p["gridPos"]) for p in DASHBOARD["panels"]]
    assert all(box["x"] + box["w"] <= GRID_COLUMNS for _, box in boxes)
    for (one, a), (other, b) in combinations(boxes, 2):
        apart = a["x"] + a["w"] <= b["x"] or b["x"] + b["w"] <= a["x"]
        assert apart or a["y"] + a["h"] <= b["y"] or b["y"] + b["h"] <= a["y"], (one, other)


def test_only_metrics_that_there_are() -> None:
    text = json.dumps(DASHBOARD) + json.dumps(ALERTS)
    assert set(re.findall(r"\bhostdoctor_\w+", text)) <= {PREFIX + name for name in METRICS}
