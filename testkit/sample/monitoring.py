"""The dashboard and the alert rules of the repository, and the metrics that they use."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import yaml

FOLDER: Final = Path(__file__).parents[2] / "monitoring"
DASHBOARD: Final = FOLDER / "grafana-dashboard.json"
RULES: Final = FOLDER / "prometheus-alerts.yml"
RULE_TESTS: Final = FOLDER / "prometheus-alerts-test.yml"

_NAME = re.compile(r"\b(?:headrace|process)_[a-z_]+")


def panels() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(DASHBOARD.read_text())["panels"]
    return found


def dashboard_expressions() -> Iterator[str]:
    """Yield what the panels show, with plain values where Grafana puts its variables."""
    for panel in panels():
        for target in panel.get("targets", ()):
            expression = re.sub(r"\$__rate_interval", "5m", target["expr"])
            yield re.sub(r"\$\w+", ".*", expression)


def alerts() -> dict[str, str]:
    """Return the expression of each alert, by its name."""
    groups = yaml.safe_load(RULES.read_text())["groups"]
    return {rule["alert"]: rule["expr"] for group in groups for rule in group["rules"]}


def used_metrics() -> set[str]:
    """Return the names of all metrics in the dashboard and in the rules."""
    expressions = [*dashboard_expressions(), *alerts().values()]
    return {name for each in expressions for name in _NAME.findall(each)}
