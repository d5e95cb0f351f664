"""Change capture from PostgreSQL beside Debezium in Kafka Connect, into one broker.

Both write exactly once, JSON without schemas, to topics with one partition. A transaction inserts a
row and updates another one; every tenth deletes one as well: 2.2 events and tombstones on average.

- Throughput: both are stopped while the transactions are committed, and then read that backlog, one
  after the other. The time runs from the first new record that a reader sees to the last, so that
  the start of a process is not in it. A first backlog, as large as one of a round, counts for
  nothing: Java compiles. All rounds together have 100,000 transactions.
- Latency: transactions are committed at a fixed pace, and the age of a record is the time from the
  commit, which PostgreSQL writes into its log, to the moment in which a reader with
  `read_committed` has it.

Debezium has settings that suit both. By default it sleeps 500 ms whenever its connection to
PostgreSQL has nothing more to read, and it writes a transaction of at most 2,048 records for each
poll of Connect: with a small backlog that is nearly all that is measured.

`HEADRACE_BENCH_SCALE` makes the amounts smaller (0.1: a tenth).
"""

import json
import os
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import quantiles
from typing import Any, Final

import psycopg
from confluent_kafka import Consumer, TopicPartition

from bench.row import Row, median, spread
from headrace.client.admin.admin import Admin, NewTopic
from headrace.client.network.pool import ConnectionPool
from headrace.client.settings import ClientSettings
from headrace.testing.readiness import wait_until
from testkit.peer.connect_worker import ConnectWorker
from testkit.peer.debezium import DebeziumConnector
from testkit.peer.debezium_jars import DEBEZIUM_JARS
from testkit.peer.postgres import PostgresServer
from testkit.process.agent_process import AgentProcess
from testkit.process.broker_process import BrokerProcess
from testkit.sample.change_capture import WIRING

ROUNDS = int(os.environ.get("HEADRACE_BENCH_ROUNDS", "3"))
SCALE = float(os.environ.get("HEADRACE_BENCH_SCALE", "1"))
TRANSACTIONS = max(1000, int(100_000 * SCALE) // ROUNDS)
PACE = 200
PACED_SECONDS = max(3.0, 5.0 * SCALE)
_WAIT_SECONDS = 600.0
_HEAP = ("-Xms1g", "-Xmx1g")
_SIDES: Final = ("ours", "theirs")
_DEBEZIUM: Final = {
    "poll_interval_ms": "10",
    "max_batch_size": "8192",
    "max_queue_size": "32768",
}
_SCHEMA = """
CREATE TABLE orders (
    id bigint PRIMARY KEY, customer int NOT NULL, status text NOT NULL, total numeric(10, 2),
    placed timestamptz NOT NULL DEFAULT now(), note varchar(80)
);
INSERT INTO orders SELECT g, g % 100, 'new', g, now(), repeat('n', 40)
FROM generate_series(1, 100) g;
CREATE PROCEDURE buy(first bigint, transactions int) LANGUAGE plpgsql AS $$
BEGIN
    FOR number IN first .. first + transactions - 1 LOOP
        INSERT INTO orders VALUES
            (number, number % 1000, 'new', number / 100.0, now(), 'note of order ' || number);
        UPDATE orders SET status = 'paid' WHERE id = number - 50;
        IF number % 10 = 0 THEN
            DELETE FROM orders WHERE id = number - 90;
        END IF;
        COMMIT;
    END LOOP;
END $$;
"""


@dataclass(slots=True)
class Bench:
    """A database, both captures of it, and a reader of their topics.

    Attributes:
        next_id: of the next row.
    """

    broker: str
    database: "psycopg.Connection[Any]"
    agent: AgentProcess
    debezium: DebeziumConnector
    next_id: int = 101

    @contextmanager
    def running(self, side: str) -> Iterator[None]:
        """Run one side inside the block."""
        if side == "ours":
            with self.agent:
                yield
                self.agent.stop()
        else:
            self.debezium.resume()
            try:
                yield
            finally:
                self.debezium.stop()
        wait_until(lambda: not self._is_active(side), what="the slot", timeout_seconds=60)

    def streams(self, side: str) -> bool:
        """Return whether a side has read the table, and follows its slot."""
        self.debezium.check()
        query = (
            "SELECT 1 FROM pg_replication_slots s JOIN pg_stat_replication r ON r.pid = "
            "s.active_pid WHERE s.slot_name = %s AND r.state IN ('catchup', 'streaming')"
        )
        return bool(self.database.execute(query, [side]).fetchall())

    def _is_active(self, side: str) -> bool:
        query = "SELECT 1 FROM pg_replication_slots WHERE slot_name = %s AND active"
        return bool(self.database.execute(query, [side]).fetchall())

    def buy(self, transactions: int) -> int:
        """Commit transactions, and return the id of the last row."""
        self.database.execute("CALL buy(%s, %s)", [self.next_id, transactions])
        self.next_id += transactions
        return self.next_id - 1

    def reader(self, side: str) -> Consumer:
        """Return a reader of a side's topic from its end on."""
        consumer = Consumer(
            {
                "bootstrap.servers": self.broker,
                "group.id": f"bench-{side}",
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
                "fetch.wait.max.ms": 100,
            }
        )
        topic = f"{side}.public.orders"
        _, end = consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=30)
        consumer.assign([TopicPartition(topic, 0, end)])
        return consumer


@contextmanager
def bench(folder: Path) -> Iterator[Bench]:
    """Start everything. Both sides have read the table, and are stopped."""
    with ExitStack() as stack:
        server = stack.enter_context(PostgresServer({"wal_level": "logical"}))
        broker = stack.enter_context(BrokerProcess(folder / "broker", settings={}))
        database = stack.enter_context(psycopg.connect(server.url, autocommit=True))
        database.execute(_SCHEMA.encode())
        _create_topics(broker.address)
        worker = ConnectWorker(
            folder / "connect", broker.address, "connect", [DEBEZIUM_JARS], java_options=_HEAP
        )
        stack.enter_context(worker)
        converters = {f"{part}_converter_schemas_enable": "false" for part in ("key", "value")}
        connector = DebeziumConnector(
            worker, "theirs", server.url, "public", **converters, **_DEBEZIUM
        )
        agent = AgentProcess(folder / "agent", _configuration(broker.address, server.url))
        made = Bench(broker.address, database, agent, connector)
        stack.enter_context(connector)
        wait_until(lambda: made.streams("theirs"), what="theirs", timeout_seconds=_WAIT_SECONDS)
        connector.stop()
        with made.running("ours"):
            wait_until(lambda: made.streams("ours"), what="ours", timeout_seconds=_WAIT_SECONDS)
        yield made


def _create_topics(address: str) -> None:
    with ConnectionPool(ClientSettings.of({"bootstrap.servers": address})) as pool:
        topics = [NewTopic(f"{side}.public.orders", 1, 1) for side in _SIDES]
        for error in Admin(pool).create_topics(topics).values():
            if error is not None:
                raise error


def _configuration(address: str, url: str) -> str:
    settings = {
        "type": "postgres_cdc",
        "url": url,
        "slot.name": "ours",
        "publication.name": "ours",
        "topic.prefix": "ours",
        "batchSize": "1000",
    }
    lines = [f"a1.sources.r1.{key} = {value}" for key, value in settings.items()]
    wiring = WIRING.replace("flumeBatchSize = 500", "flumeBatchSize = 1000")
    return wiring.format(broker=address, id="bench") + "\n".join(lines)


def run() -> list[Row]:
    with (
        tempfile.TemporaryDirectory(prefix="headrace-bench-") as name,
        bench(Path(name)) as made,
    ):
        return [_throughput(made), *_latency(made)]


# Throughput


def _throughput(made: Bench) -> Row:
    figures: dict[str, list[float]] = {side: [] for side in _SIDES}
    made.buy(TRANSACTIONS)
    for side in _SIDES:  # the first time counts for nothing: Java compiles
        _drain(made, side)
    for number in range(ROUNDS):
        made.buy(TRANSACTIONS)
        for side in _SIDES if number % 2 == 0 else reversed(_SIDES):
            figures[side].append(_drain(made, side))
    ours, theirs = figures["ours"], figures["theirs"]
    return Row(
        name=f"backlogs of {TRANSACTIONS:,} transactions; against Debezium",
        ours=median(ours),
        theirs=median(theirs),
        unit="events/s",
        spread=spread(ours),
        bar="≥ 1×",
        reached=median(ours) >= median(theirs),
    )


def _drain(made: Bench, side: str) -> float:
    """Return the records per second that a side writes of what it has not yet read."""
    last = b'"after":{"id":%d,' % (made.next_id - 1)
    reader = made.reader(side)
    first_seen = count = at_first = 0
    deadline = time.monotonic() + _WAIT_SECONDS
    began = 0.0
    try:
        with made.running(side):
            while True:
                if time.monotonic() > deadline:
                    raise TimeoutError(f"{side} did not write its backlog in {_WAIT_SECONDS} s")
                messages = reader.consume(10_000, timeout=0.05)
                if not messages:
                    continue
                count += len(messages)
                if not first_seen:
                    began, at_first, first_seen = time.perf_counter(), count, 1
                if any(last in (each.value() or b"") for each in messages[-100:]):
                    if count < 2 * TRANSACTIONS:
                        raise RuntimeError(f"{side} wrote {count} records, which is too few")
                    return (count - at_first) / (time.perf_counter() - began)
    finally:
        reader.close()


# Latency


def _latency(made: Bench) -> list[Row]:
    figures: dict[str, dict[str, list[float]]] = {side: {"p50": [], "p99": []} for side in _SIDES}
    for number in range(ROUNDS):
        for side in _SIDES if number % 2 == 0 else reversed(_SIDES):
            percentiles = quantiles(_ages_ms(made, side), n=100)
            figures[side]["p50"].append(percentiles[49])
            figures[side]["p99"].append(percentiles[98])
    rows = []
    for name in ("p50", "p99"):
        ours, theirs = figures["ours"][name], figures["theirs"][name]
        judged = name == "p99"
        rows.append(
            Row(
                name=f"{PACE} transactions/s, from commit to reader: {name}; against Debezium",
                ours=median(ours),
                theirs=median(theirs),
                unit="ms",
                spread=spread(ours),
                bar="≤ 0.5×" if judged else "",
                reached=median(ours) <= 0.5 * median(theirs) if judged else None,
            )
        )
    return rows


def _ages_ms(made: Bench, side: str) -> list[float]:
    """Return the age of every event when a reader has it."""
    arrivals: list[tuple[float, list[bytes]]] = []
    with made.running(side):
        wait_until(lambda: made.streams(side), what=side, timeout_seconds=_WAIT_SECONDS)
        reader = made.reader(side)
        try:
            _read_until(reader, made.buy(PACE), [])  # it is warm, and has nothing left to read
            last = made.next_id + int(PACE * PACED_SECONDS) - 1
            writer = threading.Thread(target=_write_paced, args=(made, last))
            writer.start()
            _read_until(reader, last, arrivals)
            writer.join()
        finally:
            reader.close()
    return [
        at * 1000 - event["source"]["ts_us"] / 1000
        for at, values in arrivals
        for event in map(json.loads, values)
    ]


def _write_paced(made: Bench, last: int) -> None:
    began, first = time.monotonic(), made.next_id
    while made.next_id <= last:
        made.buy(1)
        time.sleep(max(0.0, began + (made.next_id - first) / PACE - time.monotonic()))


def _read_until(reader: Consumer, last: int, arrivals: list[tuple[float, list[bytes]]]) -> None:
    end = b'"after":{"id":%d,' % last
    deadline = time.monotonic() + _WAIT_SECONDS
    while True:
        if time.monotonic() > deadline:
            raise TimeoutError(f"row {last} did not arrive in {_WAIT_SECONDS} s")
        message = reader.poll(0.05)
        if message is None:
            continue
        now = time.time()
        messages = [message, *reader.consume(1000, timeout=0)]
        values = [value for each in messages if (value := each.value()) is not None]
        arrivals.append((now, values))
        if any(end in each for each in values):
            return
