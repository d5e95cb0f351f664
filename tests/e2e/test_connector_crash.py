"""Sources with one position into a topic: kill -9 of the agent loses no event and repeats none."""

import json
import os
import sqlite3
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from headrace.client.error import ClientError
from headrace.client.read.reader import Reader
from headrace.testing.quick_settings import QUICK_SETTINGS
from headrace.testing.readiness import wait_until
from testkit.process.agent_process import AgentProcess
from testkit.process.broker_process import BrokerProcess
from testkit.sample import singer_program

ROWS = 600
SECONDS = 240.0
# A memory channel forgets, and small batches make many transactions.
WIRING = """\
a1.sources = r1
a1.channels = c1
a1.sinks = k1
a1.sources.r1.channels = c1
a1.sources.r1.batchSize = 5
a1.sources.r1.exactlyOnce = true
a1.channels.c1.type = memory
a1.sinks.k1.channel = c1
a1.sinks.k1.type = kafka
a1.sinks.k1.kafka.bootstrap.servers = {broker}
a1.sinks.k1.kafka.topic = {topic}
a1.sinks.k1.kafka.transactional.id = {topic}
"""
SQL = """\
a1.sources.r1.type = sql
a1.sources.r1.url = sqlite:///{folder}/shop.db
a1.sources.r1.table = orders
a1.sources.r1.incrementingColumn = id
a1.sources.r1.pollInterval = 50
"""
SINGER = """\
a1.sources.r1.type = singer
a1.sources.r1.command = {python} {program} tap
a1.sources.r1.config = {folder}/tap.json
a1.sources.r1.positionFile = {folder}/position.json
a1.sources.r1.runInterval = 100
"""
FILES = """\
a1.sources.r1.type = files
a1.sources.r1.path = {folder}/in
a1.sources.r1.minAge = 0
a1.sources.r1.pollDelay = 50
a1.sources.r1.afterRead = delete
"""


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    settings = {**QUICK_SETTINGS, "num.partitions": "1", "auto.create.topics.enable": "true"}
    with BrokerProcess(tmp_path_factory.mktemp("broker"), settings) as running:
        yield running


def values(broker: BrokerProcess, topic: str) -> list[int]:
    """Return the ids of the committed records; none while there is no topic."""
    try:
        with Reader.of_topics(
            {"bootstrap.servers": broker.address}, topic, read_committed=True
        ) as reader:
            return [json.loads(each)["id"] for each in reader.read_all()["value"].to_pylist()]
    except ClientError:
        return []


def kill_and_finish(
    agent: AgentProcess,
    found: Callable[[], list[int]],
    is_done: Callable[[], bool] = lambda: True,
) -> None:
    """Kill the agent while events flow, and let the next one finish."""
    with agent:
        wait_until(lambda: len(found()) > 0, what="some events", timeout_seconds=SECONDS)
    with agent:
        wait_until(
            lambda: len(set(found())) == ROWS and is_done(),
            what="all events",
            timeout_seconds=SECONDS,
        )
        assert agent.stop() == 0


def test_rows_of_a_table_are_in_the_topic_once(
    tmp_path: Path, broker: BrokerProcess, topic: str
) -> None:
    with closing(sqlite3.connect(tmp_path / "shop.db")) as connection, connection:
        connection.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY)")
        connection.executemany("INSERT INTO orders VALUES (?)", [(row,) for row in range(ROWS)])
    text = (WIRING + SQL).format(folder=tmp_path, broker=broker.address, topic=topic)
    kill_and_finish(AgentProcess(tmp_path, text), lambda: values(broker, topic))
    assert values(broker, topic) == list(range(ROWS))


@pytest.mark.parametrize("state_every", [7, 1_000_000])
def test_records_of_a_tap_are_in_the_topic_once(
    tmp_path: Path, broker: BrokerProcess, topic: str, state_every: int
) -> None:
    config = {"rows": ROWS, "state_every": state_every}
    (tmp_path / "tap.json").write_text(json.dumps(config))
    text = (WIRING + SINGER).format(
        folder=tmp_path,
        broker=broker.address,
        topic=topic,
        python=sys.executable,
        program=singer_program.__file__,
    )
    kill_and_finish(AgentProcess(tmp_path, text), lambda: values(broker, topic))
    assert values(broker, topic) == list(range(ROWS))


def test_rows_of_files_are_in_the_topic_once(
    tmp_path: Path, broker: BrokerProcess, topic: str
) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    for start in range(0, ROWS, 200):
        table = pa.table({"id": list(range(start, start + 200))})
        pq.write_table(table, folder / f"{start}.parquet", row_group_size=30)
        os.utime(folder / f"{start}.parquet", (start, start))
    text = (WIRING + FILES).format(folder=tmp_path, broker=broker.address, topic=topic)
    kill_and_finish(
        AgentProcess(tmp_path, text),
        lambda: values(broker, topic),
        # A file is deleted once its last row is committed.
        is_done=lambda: not any(folder.iterdir()),
    )
    assert values(broker, topic) == list(range(ROWS))
