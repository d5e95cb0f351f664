"""What clients have pushed as a page for Prometheus."""

import re
from collections.abc import Iterable, Mapping
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
    lines: dict[str, list[str]] = {}
    kinds: dict[str, str] = {}
    for push in pushes:
        for sample in push.samples:
            name = _NOT_IN_NAMES.sub("_", sample.metric)
            kinds.setdefault(name, "counter" if sample.monotonic else "gauge")
            labels = {
                **dict(sample.attributes),
                "client_id": push.client_id,
                "client_instance_id": str(push.instance_id),
            }
            lines.setdefault(name, []).append(f"{name}{_labels(labels)} {sample.value}\n")
    return "".join(
        line for name in sorted(lines) for line in (f"# TYPE {name} {kinds[name]}\n", *lines[name])
    ).encode()


def _labels(labels: Mapping[str, str]) -> str:
    pairs = ",".join(
        f'{_NOT_IN_NAMES.sub("_", name)}="{_escaped(text)}"'
        for name, text in sorted(labels.items())
        if name
    )
    return f"{{{pairs}}}"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
