"""The extension API: one import, light, and every name explained."""

import subprocess
import sys
from pathlib import Path

import pytest

import headrace.ingest
from headrace.testing.readiness import wait_until
from testkit.sample.ingest_agent import running

OWN = """\
from headrace.ingest import EventBatch, Event, Interceptor, PollableSource, Sink, number, text

class Countdown(PollableSource):
    SETTINGS = (number("from", "Where to begin.", 3),)
    left = None

    def poll(self) -> bool:
        if self.left is None:
            self.left = self.settings.number("from")
        if not self.left:
            return False
        self.deliver(EventBatch.plain([b"%d" % self.left]))
        self.left -= 1
        return True

class Marked(Interceptor):
    SETTINGS = (text("mark", "What to append.", "!"),)

    def intercept_event(self, event: Event) -> Event | None:
        return event._replace(body=event.body + self.settings.text("mark").encode())

class Keep(Sink):
    kept = []

    def deliver(self, batch: EventBatch) -> None:
        self.kept += batch.bodies
"""
FLOW = """\
a1.sources = r1
a1.channels = c1
a1.sinks = k1
a1.sources.r1.type = own_components:Countdown
a1.sources.r1.channels = c1
a1.sources.r1.interceptors = i1
a1.sources.r1.interceptors.i1.type = own_components:Marked
a1.channels.c1.type = memory
a1.sinks.k1.type = own_components:Keep
a1.sinks.k1.channel = c1
"""


def test_importing_the_package_loads_no_component() -> None:
    program = "import sys, headrace.ingest; print(*sorted(sys.modules), sep='\\n')"

    loaded = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    ).stdout.split()

    assert [name for name in loaded if name.startswith("headrace.ingest.")] == []
    assert not {"pyarrow", "numpy", "structlog", "confluent_kafka"} & set(loaded)


@pytest.mark.parametrize("name", headrace.ingest.__all__)
def test_every_public_name_exists_and_is_in_the_docstring(name: str) -> None:
    assert getattr(headrace.ingest, name) is not None
    assert f" {name} " in f" {headrace.ingest.__doc__} ".replace(",", " ")


def test_custom_components_need_only_this_import(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "own_components.py").write_text(OWN)
    monkeypatch.syspath_prepend(str(tmp_path))

    with running(FLOW) as agent:
        source = agent.assembly.sources["r1"]
        wait_until(lambda: source.counters["EventAcceptedCount"] == 3, what="all events")

    assert agent.assembly.sinks["k1"].kept == [b"3!", b"2!", b"1!"]  # type: ignore[attr-defined]
