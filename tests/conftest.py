"""What every kind of test may ask for: a broker, names of one's own, Apache Kafka.

Whatever takes seconds to start lives as long as the run, and starts when it is first asked for.
A missing peer skips the test, or fails it in CI.
"""

from collections.abc import Iterator
from itertools import count
from typing import Any

import pytest
from xdist.scheduler import LoadScopeScheduling

from testkit.peer.apache_kafka import ApacheKafka
from testkit.peer.kafka_tool import KafkaTools
from testkit.peer.peer import PeerMissing, require_peer
from testkit.peer.postgres import PostgresServer
from testkit.process.broker_process import BrokerProcess

_numbers = count()


_SPARK = "tests/spark/"
# Where single tests take longest: what comes last must be short, or one process ends alone.
_SLOW = ("tests/driver/", "tests/cluster/", "tests/console/", "tests/crash/")


class _ByFile(LoadScopeScheduling):
    """Divides a run between processes by file, and keeps all of the one Spark session in one."""

    def _split_scope(self, nodeid: str) -> str:
        return _SPARK if nodeid.startswith(_SPARK) else nodeid.split("::", 1)[0]


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadScopeScheduling:
    return _ByFile(config, log)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The process that has Spark has most to do, so it begins with that."""
    order = (_SPARK, *_SLOW)

    def turn(item: pytest.Item) -> int:
        return next((at for at, folder in enumerate(order) if item.nodeid.startswith(folder)), 99)

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
    with ApacheKafka(tmp_path_factory.mktemp("apache-kafka")) as kafka:
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
