"""A changed file and exactly-once sources whose sink commits nothing for a while."""

import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from headrace.ingest.agent.supervisor import AgentSupervisor
from headrace.testing.readiness import wait_until
from testkit.sample.ledger_sink import LedgerSink, SampleTopic

LINES = [b"line %d" % number for number in range(300)]
FLOW = """\
a1.sources = r1
a1.channels = c1
a1.sinks = k1
a1.sources.r1.channels = c1
a1.sources.r1.exactlyOnce = true
a1.channels.c1.type = memory
a1.channels.c1.capacity = 10000
a1.channels.c1.transactionCapacity = 1000
a1.sinks.k1.type = testkit.sample.ledger_sink:LedgerSink
a1.sinks.k1.topic = {folder}
a1.sinks.k1.channel = c1
"""
SOURCES = {
    "TAILDIR": "filegroups = f\na1.sources.r1.filegroups.f = {folder}/in/.*csv",
    "spooldir": "spoolDir = {folder}/in",
    "files": "path = {folder}/in\na1.sources.r1.pattern = *.csv\na1.sources.r1.minAge = 0",
    "sql": (
        "url = sqlite:///{folder}/rows.db\na1.sources.r1.table = rows\n"
        "a1.sources.r1.mode = incrementing\na1.sources.r1.incrementingColumn = id"
    ),
}


class Case:
    """An agent that has read 300 lines, of which the sink has committed none."""

    def __init__(self, folder: Path, source: str) -> None:
        self.folder = folder
        self.topic = LedgerSink.topics[str(folder)] = SampleTopic(str(folder))
        self.topic.failing = True
        (folder / "in").mkdir()
        text = [*LINES] if source != "files" else [b"text", *LINES]
        (folder / "in" / "a.csv").write_bytes(b"".join(each + b"\n" for each in text))
        with sqlite3.connect(folder / "rows.db") as rows:
            rows.execute("create table rows (id integer primary key, text varchar)")
            rows.executemany("insert into rows (text) values (?)", [[each] for each in LINES])
        rows.close()
        self.flow = f"{FLOW}a1.sources.r1.type = {source}\na1.sources.r1.{SOURCES[source]}\n"
        self.flow = self.flow.format(folder=folder)
        self.file = folder / "flow.conf"
        self.file.write_text(self.flow)
        self.supervisor = AgentSupervisor(self.file, "a1")
        self.supervisor.start()

    def wait_until_read(self) -> None:
        agent = self.supervisor.agent
        assert agent is not None
        channel = agent.assembly.channels["c1"]
        wait_until(lambda: channel.size == len(LINES), what="all lines in the channel")

    def check_committed_once(self) -> None:
        self.topic.failing = False
        wait_until(lambda: len(self.topic.bodies) >= len(LINES), what="all events")
        self.close()
        assert len(self.topic.bodies) == len(set(self.topic.bodies)) == len(LINES)

    def close(self) -> None:
        if self.supervisor.agent is not None:
            self.supervisor.agent.stop()
            self.supervisor.agent = None


@pytest.fixture(autouse=True)
def short_drains(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headrace.ingest.agent.supervisor._DRAIN_SECONDS", 0.05)
    monkeypatch.setattr("headrace.ingest.agent.agent._STALLED_SECONDS", 0.05)


@pytest.fixture(params=SOURCES)
def case(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Case]:
    case = Case(tmp_path, request.param)
    try:
        yield case
    finally:
        case.topic.failing = False
        case.close()


def test_a_change_does_not_wait_for_events_that_the_source_can_repeat(case: Case) -> None:
    case.wait_until_read()
    for size in (50, 60):
        case.file.write_text(f"{case.flow}a1.sources.r1.batchSize = {size}\n")
        assert case.supervisor.apply_changes()
        case.wait_until_read()
    case.check_committed_once()


def test_a_change_that_waits_for_another_channel_repeats_nothing(case: Case) -> None:
    other = """\
a1.sources = r1 r2
a1.channels = c1 c2
a1.sinks = k1 k2
a1.sources.r2.type = seq
a1.sources.r2.totalEvents = 5
a1.sources.r2.channels = c2
a1.channels.c2.type = memory
a1.sinks.k2.type = testkit.sample.ingest_agent:CollectingSink
a1.sinks.k2.failing = true
a1.sinks.k2.channel = c2
"""
    case.file.write_text(case.flow + other)
    assert case.supervisor.apply_changes()
    case.wait_until_read()
    assert case.supervisor.agent is not None
    assembly = case.supervisor.agent.assembly
    wait_until(lambda: assembly.channels["c2"].size == 5, what="events that cannot leave")
    case.file.write_text(case.flow)
    for _ in range(2):
        assert not case.supervisor.apply_changes()
    case.wait_until_read()
    assert case.supervisor.agent.assembly is assembly
    case.check_committed_once()


def test_a_change_that_cannot_start_loses_and_repeats_nothing(case: Case) -> None:
    case.wait_until_read()
    (case.folder / "in-the-way").write_text("a file where a directory should be")
    broken = f"""\
a1.channels = c1 c2
a1.sources = r1 r2
a1.sources.r2.type = seq
a1.sources.r2.channels = c2
a1.channels.c2.type = file
a1.channels.c2.dataDirs = {case.folder}/in-the-way
"""
    case.file.write_text(case.flow + broken)
    assert not case.supervisor.apply_changes()
    case.wait_until_read()
    case.check_committed_once()


OTHER_SOURCE = "a1.sources.r1.type = seq\na1.sources.r1.totalEvents = 0\n"
UNREAD: dict[str, Callable[[str], str]] = {
    "another source": lambda flow: flow.replace("exactlyOnce = true", "") + OTHER_SOURCE,
    "another name": lambda flow: flow.replace("r1", "r2"),
    "at least once": lambda flow: flow.replace("exactlyOnce = true", "exactlyOnce = false"),
    "another folder": lambda flow: flow.replace("/in", "/out").replace("rows.db", "other.db"),
    "another ledger": lambda flow: flow.replace("k1.topic = ", "k1.topic = /other"),
}


@pytest.mark.parametrize(
    ("case", "change"),
    [*(("TAILDIR", each) for each in UNREAD), *((each, "another name") for each in SOURCES)],
    indirect=["case"],
)
def test_a_change_waits_for_events_that_no_source_would_repeat(case: Case, change: str) -> None:
    case.wait_until_read()
    (case.folder / "out").mkdir()
    case.file.write_text(UNREAD[change](case.flow))
    for _ in range(2):
        assert not case.supervisor.apply_changes()
        case.wait_until_read()  # again, and none twice

    case.topic.failing = False
    wait_until(lambda: len(case.topic.bodies) >= len(LINES), what="all events")
    assert len(case.topic.bodies) == len(set(case.topic.bodies)) == len(LINES)
    wait_until(case.supervisor.apply_changes, what="the change")
