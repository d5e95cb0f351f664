"""A flow on a cluster that wants a login over TLS, and the password that must show nowhere.

The whole login is in the file that HEADRACE_CLIENT_CONFIG names, with Java's keys.
"""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer

from headrace.config.client_file import CLIENT_CONFIG_VARIABLE
from headrace.flow.monitoring.run_folder import FOLDER_VARIABLE
from headrace.process.die_with_parent import die_with_parent
from headrace.testing.quick_settings import QUICK_SETTINGS
from headrace.testing.readiness import wait_until
from testkit.peer.certificate import Certificate
from testkit.peer.peer import PeerMissing, require_peer
from testkit.peer.spark_session import quiet_config, spark_environment
from testkit.peer.transactional import read_to_end
from testkit.process.broker_process import BrokerProcess
from testkit.process.command_line import run_headrace

PASSWORD = "MARKED-7f3a91c2"
_SECONDS = 800.0

WORDS = """
from headrace.flow.storm.bolt import StatefulBolt
from headrace.flow.storm.sink import TopicSink
from headrace.flow.storm.spout import TopicSpout
from headrace.flow.storm.topology import Topology

class Count(StatefulBolt):
    def execute(self, batch, emit):
        before = self.state.get("lines", 0)
        self.state.put("lines", before + batch.num_rows)
        emit([[f"{before + row}" for row in range(batch.num_rows)]], rows=range(batch.num_rows))

def topology(brokers: str) -> Topology:
    made = Topology("secured", dead_letters=None)
    made.spout("lines", TopicSpout("secured-in", brokers=brokers, fields="value STRING"))
    made.bolt("count", Count(), output="n STRING").global_("lines")
    made.sink("out", TopicSink("secured-out", value="n")).shuffle("count")
    return made
"""


class SecureSite:
    """A broker with an open door for the test and one with TLS and a login for the flow."""

    def __init__(self, broker: BrokerProcess, folder: Path, certificate: Certificate) -> None:
        found = re.search(r"listens on (\S+), (\S+)", broker.log)
        assert found is not None
        self.open, self.secure = found[1], found[2]
        self.folder = folder
        login = f'username="anna" password="{PASSWORD}"'
        self.client = folder / "client.properties"
        self.client.write_text(
            f"bootstrap.servers={self.secure}\n"
            "security.protocol=SASL_SSL\nsasl.mechanism=PLAIN\n"
            f"sasl.jaas.config=org.x.PlainLoginModule required {login};\n"
            f"ssl.truststore.type=PEM\nssl.truststore.location={certificate.certificate}\n"
        )


@pytest.fixture
def site(tmp_path: Path) -> Iterator[SecureSite]:
    users = tmp_path / "users"
    users.write_text(f"anna={PASSWORD}\n")
    users.chmod(0o600)
    try:
        certificate = Certificate.make(tmp_path)
    except PeerMissing as missing:
        require_peer(str(missing))
    settings = {
        **QUICK_SETTINGS,
        "listeners": "PLAINTEXT://127.0.0.1:0,SASL_SSL://127.0.0.1:0",
        "sasl.enabled.mechanisms": "PLAIN",
        "headrace.sasl.plain.users.file": str(users),
        "ssl.keystore.location": str(certificate.keystore),
    }
    with BrokerProcess(tmp_path / "broker", settings) as broker:
        yield SecureSite(broker, tmp_path, certificate)


def command_lines() -> Iterator[str]:
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            yield path.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue


@pytest.mark.timeout(900)
def test_a_flow_logs_in_everywhere_and_shows_its_password_nowhere(site: SecureSite) -> None:
    folder = site.folder / "run"
    (folder / "events").mkdir(parents=True)
    program = folder / "secured_words.py"
    program.write_text(WORDS)
    environment = {
        **os.environ,
        **spark_environment(),
        FOLDER_VARIABLE: str(folder / "flows"),
        CLIENT_CONFIG_VARIABLE: str(site.client),
    }
    created = run_headrace("topic", "create", "secured-in", environment=environment)
    assert created.code == 0, created.err
    producer = Producer({"bootstrap.servers": site.open})
    for line in ("a", "b", "c"):
        producer.produce("secured-in", line)
    assert producer.flush(60) == 0
    settings = {
        **quiet_config(folder),
        "spark.log.level": "INFO",
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": str(folder / "events"),
    }
    pairs = [f"-X{key}={value}" for key, value in settings.items()]
    command = [sys.executable, "-m", "headrace.cli.main", "flow", "run", str(program)]
    options = ["--master", "local[2]", "--create-topics", "--available-now", "--audit"]
    with (folder / "output.log").open("w") as output:
        process = subprocess.Popen(
            [*command, *options, *pairs],
            env=environment,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            preexec_fn=die_with_parent,
        )
    shown: list[str] = []

    def is_over() -> bool:
        shown.extend(each[:200] for each in command_lines() if PASSWORD in each)
        return process.poll() is not None

    try:
        wait_until(is_over, what="the end of the flow", timeout_seconds=_SECONDS)
    finally:
        process.kill()
        process.wait()

    said = (folder / "output.log").read_text()
    assert process.returncode == 0, said
    assert sorted(read_to_end(site.open, "secured-out")) == [b"0", b"1", b"2"]
    files = [path for path in folder.rglob("*") if path.is_file()]
    assert any(path.is_relative_to(folder / "events") for path in files)
    assert any(path.name.endswith(".log") and "INFO" in path.read_text() for path in files)
    leaks = [str(path) for path in files if PASSWORD.encode() in path.read_bytes()]
    assert (shown, leaks) == ([], [])
