"""What clients have pushed as a page for Prometheus.

One name that Prometheus does not take would cost it the whole page, the figures of all clients. So
names are made to fit, and what becomes equal by that is merged: the texts of two attributes stand
in one label, with a semicolon, and of two samples the later one stays.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from uuid import UUID

from headrace.broker.client_metrics.otlp import Sample

_NOT_IN_NAMES = re.compile(r"[^a-zA-Z0-9_]")


@dataclass(frozen=True, slots=True, kw_only=True)
class PushedMetrics:
    """One push of one client.

    Attributes:
        interval_ms: how often this client pushes.
        pushed_ms: when it came, by the monotonic clock.
        terminated: it was the client's last one.
    """

    instance_id: UUID
    client_id: str
    interval_ms: int
    pushed_ms: int
    samples: tuple[Sample, ...]
    terminated: bool


def render_page(pushes: Iterable[PushedMetrics]) -> bytes:
    """Return the samples in Prometheus' text format, those of one metric together. The dots of a
    metric's name become underscores. It takes a while: call it in a thread.
    """
    values: dict[str, dict[str, float]] = {}
    kinds: dict[str, str] = {}
    for push in pushes:
        for sample in push.samples:
            name = _name(sample.metric)
            if name:
                kinds.setdefault(name, "counter" if sample.monotonic else "gauge")
                values.setdefault(name, {})[_labels(push, sample)] = sample.value
    return "".join(
        line
        for name in sorted(values)
        for line in (
            f"# TYPE {name} {kinds[name]}\n",
            *(f"{name}{labels} {value}\n" for labels, value in values[name].items()),
        )
    ).encode()


def _labels(push: PushedMetrics, sample: Sample) -> str:
    texts: dict[str, str] = {}
    for attribute, text in sorted(sample.attributes):
        name = _name(attribute)
        if name:
            texts[name] = f"{texts[name]};{text}" if name in texts else text
    texts["client_id"] = push.client_id
    texts["client_instance_id"] = str(push.instance_id)
    pairs = ",".join(f'{name}="{_escaped(text)}"' for name, text in sorted(texts.items()))
    return f"{{{pairs}}}"


def _name(text: str) -> str:
    """Return a name that Prometheus takes, of a metric or a label; "" if there is none. It keeps
    names with two underscores in front for itself."""
    name = _NOT_IN_NAMES.sub("_", text)
    if name.startswith("__"):
        name = "_" + name.lstrip("_")
    return "_" + name if name[:1].isdigit() else name


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
