"""Tasks, batch by batch, without Spark."""

import datetime
import json
from typing import Any

import pyarrow as pa
import pytest

from headrace.flow.error import Unrecoverable
from headrace.flow.samza.config import read_config
from headrace.flow.samza.envelope import OutgoingMessageEnvelope
from headrace.flow.samza.job import SamzaJob, _offsets
from headrace.flow.samza.shutdown import ShutdownRequests
from headrace.flow.samza.task import ClosableTask, InitableTask, StreamTask, WindowableTask
from headrace.testing.flow_run import FlowRun

AT = datetime.datetime(2026, 11, 15, tzinfo=datetime.UTC)


class Recorder(StreamTask):
    """Sends the origin of each message and how many the task has had, which is an attribute."""

    def __init__(self) -> None:
        self.seen = 0

    def process(self, envelope: Any, collector: Any, coordinator: Any) -> None:
        if envelope.message == "bad":
            self.seen += 100
            raise ValueError("a bad message")
        self.seen += 1
        place = [envelope.partition, envelope.offset, envelope.message, self.seen]
        collector.send(OutgoingMessageEnvelope("kafka.out", place))


class Counter(StreamTask, InitableTask, WindowableTask, ClosableTask):
    """Counts words in a store; each window sends all counts."""

    def init(self, context: Any) -> None:
        self.counts = context.store("counts")
        self.name = context.task_name
        self.limit = int(context.config.get("limit", "3"))

    def process(self, envelope: Any, collector: Any, coordinator: Any) -> None:
        word = envelope.message
        self.counts.put(word, (self.counts.get(word) or 0) + 1)
        if word == "stop":
            coordinator.shutdown()
        if self.counts.get(word) >= self.limit:
            self.counts.delete(word)

    def window(self, collector: Any, coordinator: Any) -> None:
        message = {"task": self.name, **dict(self.counts.all())}
        collector.send(OutgoingMessageEnvelope("kafka.out", message, key="all"))

    def close(self) -> None:
        raise RuntimeError("whatever close says, it must not hide the first error")


def run(task: type[StreamTask], partitions: int = 2, **keys: str) -> FlowRun:
    texts = {
        "job.name": "job",
        "task.class": f"{__name__}:{task.__name__}",
        "task.inputs": "kafka.in",
        "systems.kafka.producer.bootstrap.servers": "127.0.0.1:1",
        "systems.kafka.samza.key.serde": "string",
        "systems.kafka.samza.msg.serde": "string",
        "systems.kafka.streams.out.samza.msg.serde": "json",
        **{key.replace("__", "."): text for key, text in keys.items()},
    }
    counts = {"kafka.in": partitions, "kafka.others": partitions}
    return FlowRun(SamzaJob(_config(texts, task)).plan(counts))


def _config(texts: dict[str, str], task: type[StreamTask]) -> Any:
    """Return a configuration with this class: pytest's modules cannot be imported by name."""
    import dataclasses

    window = int(texts.pop("task.window.ms", "0")) or None
    read = read_config({**texts, "task.class": "headrace.flow.samza.task:StreamTask"})
    return dataclasses.replace(read, task=task, window_ms=window)


def feed(flow: FlowRun, *partitions: list[str]) -> None:
    count = max(len(each) for each in partitions)
    assert all(len(each) in (0, count) for each in partitions)
    spouts = [name for name in ("kafka-broadcast", "kafka-inputs") if name in flow._plan.components]
    flow.feed(
        *(pa.array(each, pa.string()).cast(pa.binary()) for each in partitions if each),
        spout=spouts[0],
        key=pa.nulls(count, pa.binary()),
        timestamp=pa.array([AT] * count, pa.timestamp("us", "UTC")),
    )


def sent(flow: FlowRun) -> list[Any]:
    return [json.loads(each) for each in flow.take("out")]


def test_a_partition_has_one_task_that_receives_its_messages_in_order() -> None:
    flow = run(Recorder)
    feed(flow, ["a", "b"], ["x", "y"])
    assert sorted(sent(flow)) == [[0, 0, "a", 1], [0, 1, "b", 2], [1, 0, "x", 1], [1, 1, "y", 2]]


def test_attributes_belong_to_the_task_in_every_process() -> None:
    flow = run(Recorder)
    feed(flow, ["a"])
    flow.restart()
    feed(flow, ["b"])
    assert sent(flow) == [[0, 0, "a", 1], [0, 1, "b", 2]]


def test_a_message_that_raises_leaves_nothing_behind_but_a_dead_letter() -> None:
    flow = run(Recorder, headrace__dead__letters="dead")
    feed(flow, ["a", "bad", "b"])
    assert sent(flow) == [[0, 0, "a", 1], [0, 2, "b", 2]]
    assert len(flow.values("dead")) == 1


def test_attributes_count_each_message_once_while_bad_ones_are_looked_for() -> None:
    flow = run(Recorder, headrace__dead__letters="dead")
    feed(flow, ["a", "b", "bad", "c"])
    feed(flow, ["d", "bad", "e", "bad"])
    assert [seen for *_, seen in sent(flow)] == [1, 2, 3, 4, 5]
    assert len(flow.values("dead")) == 3


def test_without_dead_letters_a_message_that_raises_ends_the_job() -> None:
    flow = run(Recorder)
    with pytest.raises(ValueError, match="a bad message"):
        feed(flow, ["bad"])


def test_ignored_exceptions_do_not_fail_the_batch() -> None:
    flow = run(Recorder, task__ignored__exceptions="ValueError")
    feed(flow, ["bad", "a"])
    assert sent(flow) == [[0, 1, "a", 101]]


def test_what_a_serde_cannot_read_is_dropped_when_asked() -> None:
    flow = run(Recorder, task__drop__deserialization__errors="true")
    count = {"key": pa.nulls(2, pa.binary())}
    at = pa.array([AT] * 2, pa.timestamp("us", "UTC"))
    flow.feed(pa.array([b"\xff", b"a"], pa.binary()), timestamp=at, **count)
    assert sent(flow) == [[0, 1, "a", 1]]


STORE = {
    "stores__counts__key__serde": "string",
    "stores__counts__msg__serde": "integer",
    "stores__counts__changelog": "kafka.log",
}


def test_a_store_is_kept_and_its_changes_go_to_the_tasks_changelog_partition() -> None:
    flow = run(Counter, task__window__ms="1000", **STORE)
    feed(flow, ["a", "a", "b"], ["a", "a", "a"])
    flow.restart()
    flow.tick(1.5)
    counts = sorted(sent(flow), key=lambda each: each["task"])
    assert counts == [{"task": "Partition 0", "a": 2, "b": 1}, {"task": "Partition 1"}]
    log = [
        (each["partition"], each["key"], each["value"])
        for each in flow.records
        if each["topic"] == "log"
    ]
    two, one = (2).to_bytes(4, "big"), (1).to_bytes(4, "big")
    assert sorted(log, key=str) == sorted(
        [(0, b"a", two), (0, b"b", one), (1, b"a", None)], key=str
    )


def test_a_stream_of_another_system_is_refused_with_the_systems_there_are() -> None:
    class Lost(StreamTask):
        def process(self, envelope: Any, collector: Any, coordinator: Any) -> None:
            collector.send(OutgoingMessageEnvelope("kafak.out", "x"))

    flow = run(Lost, headrace__dead__letters="dead")
    with pytest.raises(Unrecoverable, match="there are kafka"):
        feed(flow, ["a"])


@pytest.mark.parametrize("partitions", [1, 2])
def test_a_new_partition_requires_a_restart(partitions: int) -> None:
    flow = run(Recorder, partitions=partitions)
    with pytest.raises(Unrecoverable, match="start it again"):
        feed(flow, ["a"], ["b"], ["c"])


def test_every_task_gets_a_broadcast_partition() -> None:
    flow = run(
        Recorder, task__inputs="kafka.others", task__broadcast__inputs="kafka.in#0", partitions=2
    )
    feed(flow, ["a"], ["not this one"])
    assert sent(flow) == [[0, 0, "a", 1], [0, 0, "a", 1]]


def test_an_attribute_that_is_too_large_for_a_checkpoint_is_named() -> None:
    class Hoarder(StreamTask):
        def process(self, envelope: Any, collector: Any, coordinator: Any) -> None:
            self.hoard = b"x" * 2_000_000

    with pytest.raises(Unrecoverable, match=r"attribute hoard .* put it into a store"):
        feed(run(Hoarder), ["a"])


def test_a_job_ends_when_every_task_requested_it_or_one_did_for_all() -> None:
    requests = ShutdownRequests(2)
    requests.add(b'{"task": 0, "shutdown": "current-task"}')
    requests.add(b'{"task": 0, "shutdown": "current-task"}')
    for noise in (b"something else", b"[" * 30_000, b'{"task": Infinity}'):
        requests.add(noise)
    assert not requests.is_over
    requests.add(b'{"task": 1, "shutdown": "current-task"}')
    assert requests.is_over
    of_one_task = ShutdownRequests(5)
    of_one_task.add(b'{"task": 3, "shutdown": "all-tasks"}')
    assert of_one_task.is_over


def test_a_broadcast_partition_goes_on_where_the_slowest_task_was() -> None:
    def key(task: int, partition: int) -> bytes:
        place = {"task": f"Partition {task}", "stream": "kafka.rules", "partition": partition}
        return json.dumps(place).encode()

    records = {key(0, 0): b'{"next": 5}', key(1, 0): b'{"next": 3}', key(0, 1): b'{"next": 9}'}
    assert _offsets(records) == {"kafka.rules": {0: 3, 1: 9}}
