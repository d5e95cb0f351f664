"""The dashboard and the alert rules are sound; `tests/cluster/test_metrics.py` holds them to a
real broker's metrics."""

import json
from itertools import combinations
from pathlib import Path

import pytest

from testkit.peer.peer import PeerMissing, require_peer
from testkit.peer.promtool import Promtool
from testkit.sample.monitoring import (
    RULE_TESTS,
    RULES,
    alerts,
    dashboard_expressions,
    panels,
    used_metrics,
)

OPERATIONS = Path(__file__).parents[2] / "docs" / "operations.md"


@pytest.fixture(scope="module")
def promtool() -> Promtool:
    try:
        return Promtool()
    except PeerMissing as missing:
        require_peer(str(missing))


def test_prometheus_takes_the_rules(promtool: Promtool) -> None:
    assert "SUCCESS" in promtool.run("check", "rules", str(RULES))


def test_the_rules_fire_when_they_should(promtool: Promtool) -> None:
    assert "SUCCESS" in promtool.run("test", "rules", str(RULE_TESTS))


def test_prometheus_takes_what_the_dashboard_asks(promtool: Promtool, tmp_path: Path) -> None:
    rules = [
        {"record": f"panel_{number}", "expr": expression}
        for number, expression in enumerate(dashboard_expressions())
    ]
    path = tmp_path / "panels.yml"
    path.write_text(json.dumps({"groups": [{"name": "panels", "rules": rules}]}))

    assert len(rules) > 30
    assert "SUCCESS" in promtool.run("check", "rules", str(path))


def test_panels_have_their_own_id_and_place() -> None:
    ids = [panel["id"] for panel in panels()]
    assert len(set(ids)) == len(ids)
    for one, other in combinations([panel["gridPos"] for panel in panels()], 2):
        apart = (
            one["x"] + one["w"] <= other["x"]
            or other["x"] + other["w"] <= one["x"]
            or one["y"] + one["h"] <= other["y"]
            or other["y"] + other["h"] <= one["y"]
        )
        assert apart, (one, other)


def test_operations_says_what_to_do_on_each_alert() -> None:
    text = OPERATIONS.read_text()

    assert [name for name in alerts() if f"`{name}`" not in text] == []


def test_operations_explains_each_metric_that_is_used() -> None:
    text = OPERATIONS.read_text()
    names = {
        name.removesuffix("_bucket") for name in used_metrics() if name.startswith("headrace_")
    }

    assert len(names) > 30
    assert sorted(name for name in names if f"`{name}" not in text) == []
