"""Logs that move between directories of a broker: under load, kill -9, and by Kafka's tools."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest
from confluent_kafka import Producer

from headrace.client import Reader, ReadRange
from headrace.model.ids import TopicPartition
from headrace.testing.readiness import wait_until
from headrace.wire.api import ApiKey
from headrace.wire.error_code import ErrorCode
from testkit.peer.kafka_tool import KafkaTool, KafkaTools
from testkit.process.broker_process import BrokerProcess
from testkit.process.command_line import run_headrace
from testkit.process.wire_client import WireClient

THROTTLE = "replica.alter.log.dirs.io.max.bytes.per.second"


class TwoDisks:
    """A broker with the log directories `a` and `b`."""

    def __init__(self, folder: Path) -> None:
        self.paths = [folder / "a", folder / "b"]
        self.broker = BrokerProcess(folder / "broker")
        self.broker.settings["log.dirs"] = ",".join(map(str, self.paths))
        self.broker.settings["log.segment.bytes"] = "200000"

    def create(self, topic: str) -> None:
        with WireClient(self.broker.address) as client:
            new = {"name": topic, "num_partitions": 1, "replication_factor": 1}
            client.ask(ApiKey.CREATE_TOPICS, 6, {"topics": [new], "timeout": 10_000})

    def move(self, topic: str, target: Path | str, version: int = 2) -> ErrorCode:
        with WireClient(self.broker.address) as client:
            wanted = {"path": str(target), "topics": [{"name": topic, "partitions": [0]}]}
            answer = client.ask(ApiKey.ALTER_REPLICA_LOG_DIRS, version, {"dirs": [wanted]})
            return answer.results[0].partitions[0].error_code

    def shown(self, topic: str) -> dict[Path, bool]:
        """Return where DescribeLogDirs shows the log, and whether as one that is coming."""
        with WireClient(self.broker.address) as client:
            answer = client.ask(ApiKey.DESCRIBE_LOG_DIRS, 4, {"topics": None})
        return {
            Path(each.log_dir): partition.is_future_key
            for each in answer.results
            for found in each.topics
            if found.name == topic
            for partition in found.partitions
        }

    def home(self, topic: str) -> Path:
        return next(path for path, future in self.shown(topic).items() if not future)

    def other(self, topic: str) -> Path:
        return next(path for path in self.paths if path != self.home(topic))

    def throttle(self, rate: int | None) -> None:
        change = {
            "name": THROTTLE,
            "config_operation": 0 if rate else 1,
            "value": rate and str(rate),
        }
        body = {
            "resources": [{"resource_type": 4, "resource_name": "1", "configs": [change]}],
            "validate_only": False,
        }
        with WireClient(self.broker.address) as client:
            answer = client.ask(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, body)
        assert answer.responses[0].error_code == ErrorCode.none


@pytest.fixture(scope="module")
def disks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TwoDisks]:
    disks = TwoDisks(tmp_path_factory.mktemp("disks"))
    with disks.broker:
        yield disks


def values(broker: BrokerProcess, topic: str) -> list[int]:
    ranges = {TopicPartition(topic, 0): ReadRange()}
    with Reader({"bootstrap.servers": broker.address}, ranges) as reader:
        return [int(value) for value in reader.read_all()["value"].to_pylist()]


def test_every_record_is_there_once_after_moves_under_load_and_kill_9(
    disks: TwoDisks, topic: str
) -> None:
    """An idempotent producer, whose requests take the fast path, sends while the log moves."""
    disks.create(topic)
    producer = Producer(
        {
            "bootstrap.servers": disks.broker.address,
            "enable.idempotence": True,
            "linger.ms": 1,
            "message.timeout.ms": 120_000,
        }
    )
    outcomes: list[object] = []
    sent, stop = [0], Event()

    def produce() -> None:
        while not stop.is_set():
            if len(producer) < 2000:
                for _ in range(50):
                    producer.produce(
                        topic, b"%d" % sent[0], on_delivery=lambda error, _: outcomes.append(error)
                    )
                    sent[0] += 1
            producer.poll(0.005)
        producer.flush()

    def more_are_sent() -> None:
        enough = len(outcomes) + 1000
        wait_until(lambda: len(outcomes) > enough, what="records")

    thread = Thread(target=produce)
    thread.start()
    try:
        for _ in range(3):
            more_are_sent()
            target = disks.other(topic)
            assert disks.move(topic, target) is ErrorCode.none
            wait_until(lambda: disks.home(topic) == target, what="the move")  # noqa: B023
        more_are_sent()
        disks.throttle(2000)
        target = disks.other(topic)
        disks.move(topic, target)
        wait_until(lambda: disks.shown(topic).get(target) is True, what="a copy")
        disks.broker.kill()
        disks.broker.start()
        wait_until(lambda: target in disks.shown(topic), what="the move begins again")
        disks.throttle(None)
        wait_until(lambda: disks.home(topic) == target, what="the move after the crash")
        more_are_sent()
    finally:
        stop.set()
        thread.join()

    assert not any(outcomes)
    assert values(disks.broker, topic) == list(range(sent[0]))
    assert not list(disks.paths[0].glob("*-future")) + list(disks.paths[1].glob("*-future"))


@pytest.mark.parametrize("version", [1, 2])
def test_what_is_refused(disks: TwoDisks, topic: str, version: int) -> None:
    target = disks.paths[1]

    assert disks.move(topic, "/nowhere", version) is ErrorCode.log_dir_not_found
    assert disks.move(topic, target, version) is ErrorCode.replica_not_available
    disks.create(topic)

    assert disks.home(topic) == target, "the choice is remembered"


def headrace(disks: TwoDisks, *words: str) -> Any:
    done = run_headrace("cluster", *words, "-b", disks.broker.address, "--format", "json")
    return json.loads(done.out) if done.code == 0 else done.err


def test_the_command_line_shows_and_moves_a_log(disks: TwoDisks, topic: str) -> None:
    disks.create(topic)
    producer = Producer({"bootstrap.servers": disks.broker.address})
    producer.produce(topic, b"7")
    producer.flush()
    target, log = disks.other(topic), f"{topic}-0"

    moved = headrace(disks, "move-log", log, str(target), "--broker", "1")
    shown = headrace(disks, "log-dirs", "--broker", "1", "--logs")
    directories = headrace(disks, "log-dirs")

    assert moved == [{"partition": log, "broker": 1, "directory": str(target), "status": "moved"}]
    assert [each["directory"] for each in shown if each["log"] == log] == [str(target)]
    assert {each["directory"] for each in directories} == set(map(str, disks.paths))
    assert all(each["free"] > 0 and each["error"] is None for each in directories)
    assert values(disks.broker, topic) == [7]


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("{topic}-0", "/nowhere", "--broker", "1"), "no log directory /nowhere"),
        (("other-0", "{path}", "--broker", "1"), "broker 1 has no replica of other-0"),
        (("{topic}-0", "{path}", "--broker", "9"), "there is no broker 9"),
        (("nonsense", "{path}", "--broker", "1"), "nonsense"),
    ],
)
def test_a_move_that_cannot_be(
    disks: TwoDisks, topic: str, words: tuple[str, ...], sentence: str
) -> None:
    disks.create(topic)
    said = headrace(
        disks, "move-log", *(each.format(topic=topic, path=disks.paths[0]) for each in words)
    )

    assert sentence in said


@pytest.mark.interop
def test_kafkas_tools_move_a_log(
    disks: TwoDisks, kafka_tools: KafkaTools, topic: str, tmp_path: Path
) -> None:
    disks.create(topic)
    producer = Producer({"bootstrap.servers": disks.broker.address})
    for number in range(500):
        producer.produce(topic, b"%06d" % number + b"x" * 200)
    producer.flush()
    target = disks.other(topic)
    server = ("--bootstrap-server", disks.broker.address)
    move = {"topic": topic, "partition": 0, "replicas": [1], "log_dirs": [str(target)]}
    plan = tmp_path / "plan.json"
    plan.write_text(json.dumps({"version": 1, "partitions": [move]}))

    def reassign(*arguments: str) -> str:
        tool = (KafkaTool.REASSIGN_PARTITIONS, *server, "--reassignment-json-file", str(plan))
        return kafka_tools.run(*tool, *arguments).checked().stdout

    # So slow that it lasts for longer than the tools take to start, also on a busy machine.
    executed = reassign("--execute", "--replica-alter-log-dirs-throttle", "100")
    described = kafka_tools.run(
        KafkaTool.LOG_DIRS, *server, "--describe", "--topic-list", topic
    ).checked()
    (found,) = re.findall(r"^\{.*\}$", described.stdout, re.MULTILINE)
    (shown,) = [
        partition
        for each in json.loads(found)["brokers"][0]["logDirs"]
        if each["logDir"] == str(target)
        for partition in each["partitions"]
    ]
    waiting = reassign("--verify", "--preserve-throttles")
    disks.throttle(10**9)
    wait_until(lambda: disks.home(topic) == target, what="the move")
    verified = reassign("--verify")

    assert "Successfully started moving log directory to" in executed
    assert shown["isFuture"] is True
    assert 0 < shown["offsetLag"] <= 500
    assert re.search(rf"{topic}-0-1.*is still in progress", waiting), waiting
    assert re.search(rf"{topic}-0-1.*completed successfully", verified), verified
