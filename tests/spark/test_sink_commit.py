"""The driver's commit of a batch, and failures in the middle of it. No Spark runs here."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.types import BinaryType, IntegerType, StructField, StructType

from headrace.client.admin.admin import Admin, NewTopic
from headrace.client.error import BrokerError, ConnectionLost
from headrace.client.network.connection import BrokerConnection
from headrace.client.network.pool import ConnectionPool
from headrace.client.settings import ClientSettings
from headrace.spark.sink.batch_transaction import BatchTransaction
from headrace.spark.sink.column import SinkColumns
from headrace.spark.sink.commit import (
    TAKEN_OVER,
    BatchChanged,
    BatchOutdated,
    SinkFenced,
    _key,
    commit_outputs,
    discard_outputs,
)
from headrace.spark.sink.option import SinkOptions, read_sink_options
from headrace.spark.sink.sink import StreamSink
from headrace.spark.sink.staging_topic import StagingTopic
from headrace.spark.sink.task import SinkTask
from headrace.spark.sink.task_output import TaskOutput
from headrace.spark.sink.transaction_ledger import NO_BATCH, LastBatch
from headrace.wire.api import ApiKey
from testkit.peer.apache_kafka import ApacheKafka
from testkit.peer.transactional import read_to_end
from testkit.process.broker_process import BrokerProcess

PARTITIONS = (0, 1, 2)
_SCHEMA = StructType([StructField("value", BinaryType()), StructField("partition", IntegerType())])

Peer = BrokerProcess | ApacheKafka


class Sink:
    """The sink of one query, as its tasks and its driver use it."""

    def __init__(self, peer: Peer, topic: str) -> None:
        self.peer = peer
        self.address = peer.address
        self.topic = topic
        self.name = f"sink-of-{topic}"
        self.options: SinkOptions = read_sink_options(
            {"kafka.bootstrap.servers": peer.address, "topic": topic}, streaming=True
        )
        with ConnectionPool(ClientSettings.of({"bootstrap.servers": peer.address})) as pool:
            outcome = Admin(pool).create_topics([NewTopic(topic, len(PARTITIONS))])
        assert outcome == {topic: None}

    def with_topic(self, topic: str) -> "Sink":
        """The same sink, for batches that go to another topic."""
        other = Sink(self.peer, topic)
        other.name = self.name
        return other

    def task(self, *values: bytes, staged: bool = False) -> TaskOutput:
        """A task whose rows go to all partitions in turn."""
        rows = pa.record_batch(
            {
                "value": pa.array(values, pa.binary()),
                "partition": pa.array(
                    [n % len(PARTITIONS) for n in range(len(values))], pa.int32()
                ),
            }
        )
        task = SinkTask(
            self.options,
            SinkColumns(_SCHEMA, self.topic),
            staging_topic=self.name,
            query_id="query",
            carry_up_to_bytes=0 if staged else 2**20,
        )
        return task.run(iter([rows]))

    def commit(self, batch_id: int | None, *outputs: TaskOutput) -> bool:
        return commit_outputs(
            self.options, outputs, sink_id=self.name, staging_topic=self.name, batch_id=batch_id
        )

    def visible(self) -> list[bytes]:
        return sorted(read_to_end(self.address, self.topic, PARTITIONS))


@pytest.fixture
def sink(broker: BrokerProcess, topic: str) -> Sink:
    return Sink(broker, topic)


def test_shows_the_rows_of_all_tasks_once_the_batch_is_committed(sink: Sink) -> None:
    outputs = [sink.task(b"a", b"b"), sink.task(b"c", staged=True)]
    before = sink.visible()

    assert sink.commit(0, *outputs)

    assert (before, sink.visible()) == ([], [b"a", b"b", b"c"])


def test_keeps_the_order_of_a_tasks_rows_within_a_partition(sink: Sink) -> None:
    values = [b"%03d" % n for n in range(300)]

    sink.commit(0, sink.task(*values, staged=True))

    for partition in PARTITIONS:
        found = read_to_end(sink.address, sink.topic, [partition])
        assert found == values[partition :: len(PARTITIONS)]


@pytest.mark.parametrize("staged", [False, True])
def test_adds_nothing_when_a_committed_batch_is_replayed(sink: Sink, staged: bool) -> None:
    for batch_id, value in enumerate([b"a", b"b"]):
        sink.commit(batch_id, sink.task(value, staged=staged))

    assert not sink.commit(1, sink.task(b"b", staged=staged))

    assert sink.visible() == [b"a", b"b"]


def test_does_not_take_a_batch_of_a_checkpoint_that_was_set_back(sink: Sink) -> None:
    for batch_id, value in enumerate([b"a", b"b"]):
        sink.commit(batch_id, sink.task(value))

    with pytest.raises(BatchOutdated, match="batches up to 1, and now gets batch 0"):
        sink.commit(0, sink.task(b"something else"))

    assert sink.visible() == [b"a", b"b"]


def test_a_replay_that_goes_to_another_topic_adds_nothing(sink: Sink) -> None:
    letters = sink.with_topic(f"{sink.topic}-dead-letters")
    letters.commit(0, letters.task(b"a"))

    assert not sink.commit(0, sink.task(b"a"))

    assert (letters.visible(), sink.visible()) == ([b"a"], [])


def test_a_checkpoint_that_was_set_back_is_refused_whatever_topic_it_writes_to(
    sink: Sink,
) -> None:
    letters = sink.with_topic(f"{sink.topic}-dead-letters")
    for batch_id in (0, 1, 2):
        letters.commit(batch_id, letters.task(b"a"))

    with pytest.raises(BatchOutdated, match="batches up to 2, and now gets batch 1"):
        sink.commit(1, sink.task(b"b"))

    assert sink.visible() == []


@pytest.mark.parametrize("staged", [False, True])
def test_does_not_take_another_batch_for_a_replay_of_the_last(sink: Sink, staged: bool) -> None:
    sink.commit(0, sink.task(b"a"), sink.task(b"b", staged=staged))

    with pytest.raises(BatchChanged, match="batch 0 with 2 records, and now gets it with 3"):
        sink.commit(0, sink.task(b"x", b"y"), sink.task(b"z", staged=staged))

    assert sink.visible() == [b"a", b"b"]


def test_goes_on_with_a_warning_where_a_replay_may_differ(
    sink: Sink, caplog: pytest.LogCaptureFixture
) -> None:
    sink.options = replace(sink.options, replay_may_differ=True)
    sink.commit(0, sink.task(b"a", b"b"))

    assert not sink.commit(0, sink.task(b"x"))
    assert sink.commit(1, sink.task(b"c"))

    assert sink.visible() == [b"a", b"b", b"c"]
    assert "replay_differs" in caplog.text
    assert "committed_records=2 replayed_records=1" in caplog.text


def test_refuses_an_older_batch_also_where_a_replay_may_differ(sink: Sink) -> None:
    sink.options = replace(sink.options, replay_may_differ=True)
    for batch_id, value in enumerate([b"a", b"b"]):
        sink.commit(batch_id, sink.task(value))

    with pytest.raises(BatchOutdated, match="batches up to 1, and now gets batch 0"):
        sink.commit(0, sink.task(b"something else"))


def test_skips_any_earlier_batch_of_a_write_that_is_repeated_from_the_start(sink: Sink) -> None:
    for batch_id, value in enumerate([b"a", b"b"]):
        sink.commit(batch_id, sink.task(value))

    written = commit_outputs(
        sink.options,
        [sink.task(b"a")],
        sink_id=sink.name,
        staging_topic=sink.name,
        batch_id=0,
        only_last_is_replayed=False,
    )

    assert not written
    assert sink.visible() == [b"a", b"b"]


def test_writes_the_next_batch_after_a_replay(sink: Sink) -> None:
    sink.commit(0, sink.task(b"a"))
    sink.commit(0, sink.task(b"a"))

    assert sink.commit(1, sink.task(b"b"))

    assert sink.visible() == [b"a", b"b"]


def test_shows_nothing_of_a_batch_whose_tasks_were_not_all_done(sink: Sink) -> None:
    output = sink.task(b"a", staged=True)

    discard_outputs(sink.options, [output], staging_topic=sink.name)

    assert sink.visible() == []


def test_empties_the_staging_topic_of_a_batch_that_spark_aborts(sink: Sink) -> None:
    options = {"kafka.bootstrap.servers": sink.address, "topic": sink.topic, "sinkIdPrefix": "ends"}
    stream = StreamSink(options, _SCHEMA)
    sink.name = "ends-query"
    output = sink.task(b"a", staged=True)

    stream.abort([output, None], 0)

    with ConnectionPool(sink.options.settings) as pool, pytest.raises(BrokerError, match="staged"):
        list(StagingTopic(pool, sink.name).read(output.in_topic))
    assert sink.visible() == []


def test_takes_only_one_of_two_attempts_at_the_same_task(sink: Sink) -> None:
    sink.task(b"a", b"b", staged=True)
    second = sink.task(b"a", b"b", staged=True)

    sink.commit(0, second)

    assert sink.visible() == [b"a", b"b"]


def test_stages_in_a_topic_that_an_administrator_has_created(sink: Sink) -> None:
    with ConnectionPool(sink.options.settings) as pool:
        assert Admin(pool).create_topics([NewTopic(sink.name, 1)]) == {sink.name: None}

    sink.commit(0, sink.task(b"a", b"b", b"c", staged=True), sink.task(b"d", staged=True))

    assert sink.visible() == [b"a", b"b", b"c", b"d"]


def test_encodes_large_rows_a_few_at_a_time(sink: Sink) -> None:
    values = [bytes([n]) * 900_000 for n in range(40)]

    sink.commit(0, sink.task(*values))

    assert sink.visible() == values


def test_fails_when_staged_rows_are_gone_and_shows_nothing(sink: Sink) -> None:
    outputs = [sink.task(b"a"), sink.task(b"b", staged=True)]
    discard_outputs(sink.options, outputs[1:], staging_topic=sink.name)
    sink.task(b"c", staged=True)

    with pytest.raises(BrokerError, match="staged"):
        sink.commit(0, *outputs)

    assert sink.visible() == []


def test_gives_up_when_staged_rows_do_not_come(sink: Sink) -> None:
    hasty = ClientSettings.of(
        {
            "bootstrap.servers": sink.address,
            # Enough for a slow broker to say where the topic is.
            "default.api.timeout.ms": "3000",
            "fetch.max.wait.ms": "50",
        }
    )
    (staged,) = sink.task(b"a", staged=True).in_topic
    beyond = staged._replace(offset=staged.offset + 1)

    with ConnectionPool(hasty) as pool, pytest.raises(BrokerError, match="staged"):
        list(StagingTopic(pool, sink.name).read([beyond]))


def test_names_a_topic_that_does_not_exist_and_is_not_created(
    own_broker: BrokerProcess, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    own_broker.settings["auto.create.topics.enable"] = "false"
    own_broker.start()
    sink = Sink(own_broker, topic)
    sink.topic = "never-created"
    monkeypatch.setattr("headrace.spark.sink.topic._PATIENCE_SECONDS", 0.2)

    with pytest.raises(BrokerError, match="never-created"):
        sink.task(b"a")


def test_lets_the_broker_make_a_topic_that_is_not_there(
    own_broker: BrokerProcess, topic: str
) -> None:
    own_broker.settings |= {"auto.create.topics.enable": "true", "num.partitions": "3"}
    own_broker.start()
    sink = Sink(own_broker, topic)
    sink.topic = "made-on-demand"

    sink.commit(0, sink.task(b"a", b"b"))

    assert sink.visible() == [b"a", b"b"]


def test_a_driver_that_another_one_has_replaced_cannot_commit(sink: Sink) -> None:
    with ConnectionPool(sink.options.settings) as pool:
        replaced = BatchTransaction(pool, sink.name, 60_000)
        replaced.write(
            sink.task(b"a").carried[0].target,
            memoryview(bytearray(sink.task(b"a").carried[0].data)),
        )
        sink.commit(0, sink.task(b"a"))

        with pytest.raises(Exception, match="taken over"), replaced:
            replaced.commit(sink.name, {})

    assert sink.visible() == [b"a"]


def test_says_that_two_drivers_run_one_query(sink: Sink, monkeypatch: pytest.MonkeyPatch) -> None:
    output = sink.task(b"a")
    other = sink.task(b"a")

    def taken_over_meanwhile(*_: object) -> LastBatch:
        monkeypatch.undo()
        sink.commit(0, other)
        return NO_BATCH

    monkeypatch.setattr("headrace.spark.sink.commit.last_batch", taken_over_meanwhile)
    with pytest.raises(SinkFenced, match="another driver"):
        sink.commit(0, output)

    assert sink.visible() == [b"a"]


@pytest.fixture
def requests(monkeypatch: pytest.MonkeyPatch) -> list[ApiKey]:
    """What this process asks of brokers, as it asks."""
    asked: list[ApiKey] = []
    send = BrokerConnection._send

    def note(self: BrokerConnection, api: ApiKey, *arguments: Any) -> Any:
        asked.append(api)
        return send(self, api, *arguments)

    monkeypatch.setattr(BrokerConnection, "_send", note)
    return asked


def test_takes_over_and_reads_the_ledger_for_its_first_batch_only(
    sink: Sink, requests: list[ApiKey]
) -> None:
    once = {ApiKey.INIT_PRODUCER_ID, ApiKey.OFFSET_FETCH, ApiKey.FIND_COORDINATOR, ApiKey.METADATA}
    first, second = sink.task(b"a"), sink.task(b"b", b"c")
    sink.commit(0, first)
    asked = set(requests)
    requests.clear()

    assert sink.commit(1, second)

    assert once <= asked
    assert once.isdisjoint(requests)
    assert sink.visible() == [b"a", b"b", b"c"]


def test_takes_over_again_after_another_driver_has(sink: Sink) -> None:
    """The ledger then decides whether the other driver has committed this batch."""
    sink.commit(0, sink.task(b"a"))
    mine = TAKEN_OVER.take(_key(sink.options, sink.name))
    assert mine is not None
    sink.commit(1, sink.task(b"b"))
    TAKEN_OVER.keep(_key(sink.options, sink.name), mine)

    assert not sink.commit(1, sink.task(b"b"))
    assert sink.commit(2, sink.task(b"c"))

    assert sink.visible() == [b"a", b"b", b"c"]


def test_goes_on_after_the_brokers_were_restarted_between_two_batches(
    own_broker: BrokerProcess, topic: str
) -> None:
    own_broker.start()
    sink = Sink(own_broker, topic)
    sink.commit(0, sink.task(b"a"))
    own_broker.kill()
    own_broker.start()

    assert sink.commit(1, sink.task(b"b"))

    assert sink.visible() == [b"a", b"b"]


class Killed(BaseException):
    """The driver is dead: nothing is cleaned up."""


@pytest.fixture
def die_at(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[int, bool], None]]:
    """Let this process die before or after it has sent its n-th request."""
    send = BrokerConnection._send

    def arm(request: int, after_sending: bool) -> None:
        left = [request]

        def sometimes(self: BrokerConnection, *arguments: Any) -> Any:
            left[0] -= 1
            if left[0] > 0:
                return send(self, *arguments)
            if left[0] == 0 and after_sending:
                send(self, *arguments)
            # A dead process sends nothing more.
            raise Killed

        monkeypatch.setattr(BrokerConnection, "_send", sometimes)

    yield arm
    monkeypatch.undo()


@pytest.mark.parametrize("after_sending", [False, True])
@pytest.mark.parametrize(("batch", "most"), [("first", 10), ("next", 3)])
def test_each_record_is_there_once_wherever_the_driver_dies(
    sink: Sink,
    die_at: Callable[[int, bool], None],
    monkeypatch: pytest.MonkeyPatch,
    after_sending: bool,
    batch: str,
    most: int,
) -> None:
    """In its first batch, or in a next one, which takes nothing over."""
    send = BrokerConnection._send
    deaths = 0
    expected: list[bytes] = []
    for batch_id in range(100):
        first, second = b"%d-first" % batch_id, b"%d-second" % batch_id
        expected += [first, second]
        outputs = [sink.task(first), sink.task(second, staged=True)]
        if batch == "first":
            TAKEN_OVER.forget()
        die_at(batch_id + 1, after_sending)
        try:
            sink.commit(batch_id, *outputs)
        except Killed:
            deaths += 1
        else:
            break
        finally:
            monkeypatch.setattr(BrokerConnection, "_send", send)
        # Spark has not written its commit log: the new driver does the whole batch again.
        sink.commit(batch_id, sink.task(first), sink.task(second, staged=True))

    assert deaths > most
    assert sink.visible() == sorted(expected)


def test_commits_after_the_broker_was_killed_while_it_did(
    own_broker: BrokerProcess, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    own_broker.start()
    sink = Sink(own_broker, topic)
    outputs = [sink.task(b"a"), sink.task(b"b", staged=True)]
    write = BatchTransaction.write
    kills = iter([True])

    def kill_in_between(self: BatchTransaction, *arguments: Any) -> None:
        write(self, *arguments)
        if next(kills, False):
            own_broker.kill()
            own_broker.start()

    monkeypatch.setattr(BatchTransaction, "write", kill_in_between)
    try:
        sink.commit(0, *outputs)
    except (BrokerError, ConnectionLost):
        sink.commit(0, *outputs)

    assert sink.visible() == [b"a", b"b"]


def test_commits_and_recognises_a_replay_on_apache_kafka(
    apache_kafka: ApacheKafka, topic: str
) -> None:
    sink = Sink(apache_kafka, topic)
    sink.commit(0, sink.task(b"a"), sink.task(b"b", staged=True))

    assert not sink.commit(0, sink.task(b"a"), sink.task(b"b", staged=True))
    assert sink.commit(1, sink.task(b"c"))

    assert sink.visible() == [b"a", b"b", b"c"]
