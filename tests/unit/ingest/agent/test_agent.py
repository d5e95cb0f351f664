"""An agent: start, flow, failing components, stop, and a changed file."""

import json
import urllib.request
from pathlib import Path

import pytest

from headrace.client.address import Address
from headrace.ingest.agent.agent import Agent
from headrace.ingest.agent.monitor import Monitor
from headrace.ingest.agent.supervisor import AgentSupervisor
from headrace.model.error import ConfigError
from headrace.testing.readiness import wait_until
from testkit.sample.ingest_agent import CollectingSink, running

FLOW = """\
a1.sources = r1
a1.channels = c1
a1.sinks = k1
a1.sources.r1.type = seq
a1.sources.r1.batchSize = 10
a1.sources.r1.totalEvents = 500
a1.sources.r1.channels = c1
a1.channels.c1.type = memory
a1.sinks.k1.type = testkit.sample.ingest_agent:CollectingSink
a1.sinks.k1.channel = c1
"""


def collected(agent: Agent, name: str = "k1") -> CollectingSink:
    sink = agent.assembly.sinks[name]
    assert isinstance(sink, CollectingSink)
    return sink


def test_everything_a_source_makes_reaches_the_sink_in_order() -> None:
    with running(FLOW) as agent:
        sink = collected(agent)
        wait_until(lambda: len(sink.bodies) == 500, what="all events")
    assert sink.bodies == [b"%d" % number for number in range(500)]


def test_a_sink_that_fails_holds_the_source_up_and_loses_nothing() -> None:
    with running(f"{FLOW}a1.sinks.k1.failing = true\n") as agent:
        source, sink = agent.assembly.sources["r1"], collected(agent)
        wait_until(lambda: sink.counters["EventWriteFail"] > 0, what="a failure")
        wait_until(lambda: source.counters["EventAcceptedCount"] == 100, what="a full channel")
        assert sink.bodies == []
        sink.failing = False
        wait_until(lambda: len(sink.bodies) == 500, what="all events")
    assert sink.bodies == [b"%d" % number for number in range(500)]


def test_a_stop_delivers_the_events_of_a_memory_channel(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headrace.ingest.agent.agent._STALLED_SECONDS", 60)
    text = FLOW.replace("k1.channel = c1", "k1.channel = c1\na1.channels.c1.capacity = 1000")
    with running(text) as agent:
        source, sink = agent.assembly.sources["r1"], collected(agent)
        wait_until(lambda: source.counters["EventAcceptedCount"] == 500, what="all accepted")
    assert len(sink.bodies) == 500


def test_the_monitor_speaks_flume_s_json_and_prometheus() -> None:
    with running(FLOW) as agent:
        wait_until(lambda: len(collected(agent).bodies) == 500, what="all events")
        monitor = Monitor(Address("127.0.0.1", 0), lambda: agent.assembly)
        monitor.start()
        url = f"http://127.0.0.1:{monitor.port}"
        try:
            found = json.load(urllib.request.urlopen(f"{url}/metrics"))
            text = urllib.request.urlopen(f"{url}/prometheus").read().decode()
        finally:
            monitor.stop()
    assert found["CHANNEL.c1"]["Type"] == "CHANNEL"
    assert found["CHANNEL.c1"]["EventPutSuccessCount"] == "500"
    assert found["CHANNEL.c1"]["ChannelCapacity"] == "100"
    assert found["SOURCE.r1"]["EventAcceptedCount"] == "500"
    assert found["SINK.k1"]["EventDrainSuccessCount"] == "500"
    line = 'headrace_agent_sink_event_drain_success_total{agent="a1",name="k1"} 500'
    assert line in text.splitlines()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "flow.conf"
    path.write_text(FLOW)
    return path


def test_a_changed_file_is_applied_and_the_channel_stays(file: Path) -> None:
    supervisor = AgentSupervisor(file, "a1")
    before = supervisor.start()
    try:
        assert not supervisor.apply_changes()
        wait_until(lambda: len(collected(before).bodies) == 500, what="all events")
        file.write_text(FLOW.replace("k1", "k2"))
        assert supervisor.apply_changes()
        assert supervisor.agent is not None
        after = supervisor.agent
        assert after.assembly.channels["c1"] is before.assembly.channels["c1"]
        wait_until(lambda: len(collected(after, "k2").bodies) == 500, what="the events again")
    finally:
        assert supervisor.agent is not None
        supervisor.agent.stop()


def test_a_changed_file_with_a_mistake_changes_nothing(file: Path) -> None:
    supervisor = AgentSupervisor(file, "a1")
    agent = supervisor.start()
    try:
        file.write_text(FLOW.replace("type = seq", "type = sek"))
        assert not supervisor.apply_changes()
        assert supervisor.agent is agent
        wait_until(lambda: len(collected(agent).bodies) == 500, what="all events")
    finally:
        agent.stop()


def test_a_changed_file_whose_channel_cannot_start_changes_nothing(
    file: Path, tmp_path: Path
) -> None:
    (tmp_path / "in-the-way").write_text("a file where a directory should be")
    supervisor = AgentSupervisor(file, "a1")
    agent = supervisor.start()
    try:
        wait_until(lambda: len(collected(agent).bodies) == 500, what="all events")
        channel = f"type = file\na1.channels.c1.dataDirs = {tmp_path}/in-the-way"
        file.write_text(FLOW.replace("type = memory", channel))
        assert not supervisor.apply_changes()
        assert supervisor.agent is agent
        assert agent.wait_ready()
    finally:
        agent.stop()


def test_a_file_without_anything_to_run_is_refused(file: Path) -> None:
    file.write_text("a1.sources = r1\na1.sources.r1.type = none\n")
    with pytest.raises(ConfigError, match=r"nothing in .* can run as agent a1"):
        AgentSupervisor(file, "a1").start()


def test_fan_in_and_fan_out() -> None:
    text = """\
    a1.sources = r1 r2
    a1.channels = c1 c2
    a1.sinks = k1 k2
    a1.sources.r1.type = seq
    a1.sources.r1.totalEvents = 50
    a1.sources.r1.channels = c1 c2
    a1.sources.r2.type = stress
    a1.sources.r2.maxTotalEvents = 30
    a1.sources.r2.size = 3
    a1.sources.r2.channels = c1
    a1.channels.c1.type = memory
    a1.channels.c2.type = memory
    a1.sinks.k1.type = testkit.sample.ingest_agent:CollectingSink
    a1.sinks.k1.channel = c1
    a1.sinks.k2.type = testkit.sample.ingest_agent:CollectingSink
    a1.sinks.k2.channel = c2
    """
    with running(text) as agent:
        one, two = collected(agent, "k1"), collected(agent, "k2")
        wait_until(lambda: len(one.bodies) == 80 and len(two.bodies) == 50, what="all events")
    assert one.bodies.count(b"\xff" * 3) == 30
