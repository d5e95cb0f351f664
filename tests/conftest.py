"""What every kind of test may ask for: a broker, names of one's own, Apache Kafka.

Whatever takes seconds to start lives as long as the run, and starts when it is first asked for.
A missing peer skips the test, or fails it in CI.
"""

import gc
import os
import sys
from collections.abc import Generator, Iterator
from itertools import count
from typing import Any

import pytest
import structlog

from testkit.peer.apache_kafka import LONG_SESSION, ApacheKafka
from testkit.peer.kafka_tool import KafkaTools
from testkit.peer.peer import PeerMissing, require_peer
from testkit.peer.postgres import PostgresServer
from testkit.process.broker_process import BrokerProcess
from testkit.process.child_process import start_as_forks
from testkit.process.file_schedule import FileSchedule

_numbers = count()

# Python compiles what tests import once, and not in each of their thousands of processes, also
# where the environment (as that of many containers) says otherwise.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# What servers in threads of this process log is not the output of a command that runs beside them.
structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.__stderr__))
start_as_forks()


# What starts once for these files: a Spark session, a cluster, the directories of an Apache Kafka.
_UNITS = {
    "tests/spark/": ["tests/spark/"],
    "cluster": [
        "tests/cluster/test_cluster_cli.py",
        "tests/cluster/test_failover.py",
        "tests/cluster/test_hanging_transactions.py",
    ],
    "kafka directories": [
        "tests/interop/test_apache_kafka.py",
        "tests/interop/test_kafka_",
        "tests/interop/test_log_dump.py",
    ],
}
# Several Javas each, or a browser and a Java: they take all cores there are.
_BUSY = ("tests/spark/", "tests/driver/", "tests/console/test_page.py")
# Where single tests take longest: what comes last must be short, or one process ends alone.
_ORDER = (
    *_BUSY,
    *("tests/interop/", "tests/cluster/", "tests/console/", "tests/crash/", "tests/e2e/"),
    "tests/property/",
)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Keep the garbage collector from walking what collection makes: it stays until the end, and
    each full round would look at all of it again, in every test that causes one."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> FileSchedule:
    return FileSchedule(config, log, units=_UNITS, busy=_BUSY)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Whatever takes long begins early."""

    def turn(item: pytest.Item) -> int:
        return next((at for at, path in enumerate(_ORDER) if item.nodeid.startswith(path)), 99)

    items.sort(key=turn)


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """One broker for all tests: use topics and groups of your own, and leave it running."""
    with BrokerProcess(tmp_path_factory.mktemp("broker")) as process:
        yield process


@pytest.fixture
def own_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """A broker for one test that kills, restarts or reconfigures it. Not started yet."""
    process = BrokerProcess(tmp_path_factory.mktemp("own-broker"))
    yield process
    process.kill()


@pytest.fixture
def topic() -> str:
    """Return a name that no other test uses."""
    return f"topic-{next(_numbers)}"


@pytest.fixture
def group() -> str:
    return f"group-{next(_numbers)}"


@pytest.fixture(scope="session")
def kafka_tools(tmp_path_factory: pytest.TempPathFactory) -> KafkaTools:
    """Apache Kafka's command line tools."""
    try:
        return KafkaTools.find(tmp_path_factory.mktemp("kafka-tools"))
    except PeerMissing as missing:
        require_peer(str(missing))


@pytest.fixture(scope="session")
def apache_kafka(
    kafka_tools: KafkaTools, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ApacheKafka]:
    """A running Apache Kafka broker for all tests: use topics of your own."""
    with ApacheKafka(tmp_path_factory.mktemp("apache-kafka"), settings=LONG_SESSION) as kafka:
        yield kafka


@pytest.fixture(scope="module")
def postgres() -> Iterator[PostgresServer]:
    """A server whose tables belong to one file of tests."""
    try:
        server = PostgresServer()
    except PeerMissing as missing:
        require_peer(str(missing))
    with server:
        yield server
