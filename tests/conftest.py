"""What every kind of test may ask for: a broker, names of one's own, Apache Kafka.

Whatever takes seconds to start lives as long as the run, and starts when it is first asked for.
A missing peer skips the test, or fails it in CI.
"""

from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

from headrace.testing.apache_kafka import ApacheKafka
from headrace.testing.broker_process import BrokerProcess
from headrace.testing.kafka_tool import KafkaTools
from headrace.testing.peer import PeerMissing, require_peer

_numbers = count()


_SPARK = Path(__file__).with_name("spark")


def pytest_itemcollected(item: pytest.Item) -> None:
    """Divide a run between processes (`-n 2 --dist loadgroup`) by file, and keep everything that
    uses the one Spark session in one of them.

    pytest-xdist 3.8 does not do so with pytest 9.2: tests are dealt one by one, and each process
    starts a session when it first needs one.
    """
    group = "spark" if item.path.parent == _SPARK else str(item.path)
    item.add_marker(pytest.mark.xdist_group(group))


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The process that has Spark has most to do, so it begins with that."""
    items.sort(key=lambda item: item.path.parent != _SPARK)


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """One broker for everybody: use topics and groups of your own, and leave it running."""
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
    """A name nobody else uses."""
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
    """A running Apache Kafka broker for everybody: use topics of your own."""
    with ApacheKafka(tmp_path_factory.mktemp("apache-kafka")) as kafka:
        yield kafka
