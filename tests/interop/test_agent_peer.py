"""Programs from elsewhere on the other side of an agent: rsyslog, logger, curl, kcat."""

import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from headrace.ingest.sources.http import HttpSource
from headrace.ingest.sources.syslog_tcp import SyslogTcpSource
from headrace.ingest.sources.syslog_udp import SyslogUdpSource
from headrace.process.die_with_parent import die_with_parent
from headrace.testing.readiness import wait_until
from testkit.peer.peer import PeerMissing, find_program, require_peer
from testkit.process.broker_process import BrokerProcess
from testkit.sample.ingest_agent import running, source_alone

pytestmark = pytest.mark.interop

LOCAL = {"host": "127.0.0.1", "port": "0"}


def program(name: str, package: str) -> str:
    try:
        return str(find_program(name, package=package))
    except PeerMissing as missing:
        require_peer(str(missing))


def call(*command: str, sent: bytes = b"") -> bytes:
    done = subprocess.run(command, input=sent, capture_output=True, timeout=60, check=True)
    return done.stdout


@pytest.mark.parametrize("style", ["--rfc3164", "--rfc5424"])
@pytest.mark.parametrize("framing", [(), ("--octet-count",)])
def test_logger_over_tcp(style: str, framing: tuple[str, ...]) -> None:
    logger = program("logger", "bsdutils")
    with source_alone("syslogtcp", LOCAL) as (source, got):
        assert isinstance(source, SyslogTcpSource)
        where = ("--server", "127.0.0.1", "--port", str(source.listener.port), "--tcp")
        before = time.time() - 2
        call(logger, *where, style, *framing, "-p", "local0.warning", "-t", "app", "grüezi")
        wait_until(lambda: len(got.bodies) == 1, what="the message")
    (event,) = got.events
    assert event.body.endswith("grüezi".encode())
    assert (event.headers["Facility"], event.headers["Severity"]) == ("16", "4")
    assert before <= int(event.headers["timestamp"]) / 1000 <= time.time() + 2
    assert "host" in event.headers


def test_logger_over_udp() -> None:
    logger = program("logger", "bsdutils")
    with source_alone("syslogudp", LOCAL) as (source, got):
        assert isinstance(source, SyslogUdpSource)
        where = ("--server", "127.0.0.1", "--port", str(source.server.port), "--udp")
        call(logger, *where, "-t", "app", "hello")
        wait_until(lambda: len(got.bodies) == 1, what="the message")
    assert got.bodies[0].endswith(b"hello")


RSYSLOG = """\
module(load="imuxsock" SysSock.Use="off")
input(type="imuxsock" Socket="{socket}" CreatePath="on")
action(type="omfwd" target="127.0.0.1" port="{port}" protocol="tcp" template="{template}"
       TCP_Framing="{framing}" queue.type="Direct")
"""


@contextmanager
def rsyslog(folder: Path, port: int, template: str, framing: str) -> Iterator[Path]:
    daemon = program("rsyslogd", "rsyslog")
    listening = folder / "log.socket"
    text = RSYSLOG.format(socket=listening, port=port, template=template, framing=framing)
    (folder / "rsyslog.conf").write_text(text)
    process = subprocess.Popen(
        [daemon, "-n", "-f", str(folder / "rsyslog.conf"), "-i", str(folder / "pid")],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        preexec_fn=die_with_parent,
    )
    try:
        wait_until(listening.exists, what="rsyslog's socket")
        yield listening
    finally:
        process.kill()
        process.wait()


@pytest.mark.parametrize(
    ("template", "framing"),
    [("RSYSLOG_ForwardFormat", "traditional"), ("RSYSLOG_SyslogProtocol23Format", "octet-counted")],
)
def test_rsyslog_forwards_to_an_agent(tmp_path: Path, template: str, framing: str) -> None:
    logger = program("logger", "bsdutils")
    with source_alone("syslogtcp", LOCAL) as (source, got):
        assert isinstance(source, SyslogTcpSource)
        with rsyslog(tmp_path, source.listener.port, template, framing) as listening:
            for number in range(20):
                call(logger, "-u", str(listening), "-t", "app", f"message {number}")
            wait_until(lambda: len(got.bodies) >= 20, what="20 messages")
    assert all(b"message %d" % n in body for n, body in enumerate(got.bodies[:20]))
    assert all("timestamp" in event.headers and "host" in event.headers for event in got.events)


def test_curl_posts_events() -> None:
    curl = program("curl", "curl")
    with source_alone("http", {"bind": "127.0.0.1", "port": "0"}) as (source, got):
        assert isinstance(source, HttpSource)
        url = f"http://127.0.0.1:{source.port}"
        body = '[{"headers": {"a": "b"}, "body": "posted"}]'
        answer = call(curl, "-sS", "-o", "/dev/null", "-w", "%{http_code}", "-d", body, url)
    assert (answer, got.bodies) == (b"200", [b"posted"])


def test_kcat_reads_what_an_agent_wrote(tmp_path: Path, kcat: Path) -> None:
    with BrokerProcess(tmp_path / "broker") as broker:
        text = f"""
        a1.sources = r1
        a1.channels = c1
        a1.sinks = k1
        a1.sources.r1.type = seq
        a1.sources.r1.totalEvents = 100
        a1.sources.r1.batchSize = 10
        a1.sources.r1.channels = c1
        a1.channels.c1.type = memory
        a1.sinks.k1.type = kafka
        a1.sinks.k1.kafka.bootstrap.servers = {broker.address}
        a1.sinks.k1.kafka.topic = numbers
        a1.sinks.k1.defaultPartitionId = 0
        a1.sinks.k1.channel = c1
        """
        with running(text) as agent:
            sink = agent.assembly.sinks["k1"]
            wait_until(lambda: sink.counters["EventDrainSuccessCount"] == 100, what="all events")
        found = call(str(kcat), "-b", broker.address, "-t", "numbers", "-C", "-e", "-q")
    assert found.split() == [b"%d" % number for number in range(100)]
