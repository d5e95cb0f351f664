"""The command line against Headrace and Apache Kafka: the same commands, the same answers."""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer

from headrace.testing.readiness import wait_until
from testkit.peer.apache_kafka import LONG_SESSION, ApacheKafka
from testkit.peer.kafka_tool import KafkaTools
from testkit.process.broker_process import BrokerProcess
from testkit.process.command_line import Finished, run_headrace


@pytest.fixture(scope="module")
def kafka_address(
    kafka_tools: KafkaTools, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    with ApacheKafka(tmp_path_factory.mktemp("apache-kafka"), settings=LONG_SESSION) as kafka:
        yield kafka.address


@dataclass(frozen=True)
class Cluster:
    """Where the commands of a test go."""

    address: str

    def run(self, *arguments: str, stdin: bytes = b"") -> Finished:
        environment = {"HEADRACE_BROKERS": self.address}
        return run_headrace(*arguments, stdin=stdin, environment=environment)

    def ok(self, *arguments: str, stdin: bytes = b"") -> Finished:
        ended = self.run(*arguments, stdin=stdin)
        assert (ended.code, ended.err) == (0, ""), ended
        return ended

    def json(self, *arguments: str, stdin: bytes = b"") -> Any:
        return json.loads(self.ok(*arguments, "--format", "json", stdin=stdin).out)


@pytest.fixture(params=["headrace", "kafka"])
def cluster(request: pytest.FixtureRequest) -> Cluster:
    if request.param == "headrace":
        broker: BrokerProcess = request.getfixturevalue("broker")
        return Cluster(broker.address)
    return Cluster(request.getfixturevalue("kafka_address"))


@pytest.fixture
def make_topic(cluster: Cluster, topic: str) -> Callable[..., str]:
    """Creates the test's topic; returns when every partition can be written to."""

    def make(partitions: int = 1, *options: str) -> str:
        cluster.ok("topic", "create", topic, "-p", str(partitions), *options)
        wait_until(
            lambda: cluster.run("topic", "describe", topic, "-p").code == 0,
            what="the topic's leaders",
        )
        return topic

    return make


def produced(cluster: Cluster, topic: str, *lines: str, options: tuple[str, ...] = ()) -> None:
    cluster.ok("topic", "produce", topic, *options, stdin="\n".join(lines).encode())


def test_topics_are_created_listed_and_deleted(cluster: Cluster, topic: str) -> None:
    names = [f"{topic}-a", f"{topic}-b"]
    created = cluster.json("topic", "create", *names, "-p", "3")
    assert created == [{"topic": name, "status": "OK"} for name in names]

    def listed(*which: str) -> dict[str, int]:
        found = cluster.json("topic", "list", *which)
        return {each["name"]: each["partitions"] for each in found}

    # Apache Kafka answers before all of its brokers know the change.
    wait_until(lambda: list(listed(f"{topic}-.*", "-r")) == names, what="both topics")
    assert listed(*names) == dict.fromkeys(names, 3)

    cluster.ok("topic", "delete", f"{topic}-.*", "-r")
    wait_until(
        lambda: cluster.json("topic", "list", f"{topic}-.*", "-r") == [], what="the deletion"
    )


def test_one_failed_item_is_reported_and_fails_the_command(cluster: Cluster, topic: str) -> None:
    cluster.ok("topic", "create", topic)
    ended = cluster.run("topic", "create", topic, f"{topic}-new", "not/a/topic")
    assert ended.code == 1
    first, second, third = ended.lines[1:]
    assert "TOPIC_ALREADY_EXISTS: " in first
    assert second.split() == [f"{topic}-new", "OK"]
    assert "INVALID_TOPIC_EXCEPTION: " in third

    assert cluster.run("topic", "create", topic, "--if-not-exists").code == 0
    assert "UNKNOWN_TOPIC_OR_PARTITION" in cluster.run("topic", "delete", "never-was").out


def test_a_dry_run_creates_nothing(cluster: Cluster, topic: str) -> None:
    cluster.ok("topic", "create", topic, "--dry")
    assert cluster.run("topic", "list", topic).code == 1


def test_a_wrong_configuration_creates_nothing(cluster: Cluster, topic: str) -> None:
    ended = cluster.run("topic", "create", topic, "-c", "retention.ms=long")
    assert ended.code == 1
    assert "INVALID_CONFIG" in ended.out


def test_lines_are_produced_and_consumed(cluster: Cluster, make_topic: Callable[..., str]) -> None:
    topic = make_topic(3)
    reported = cluster.json("topic", "produce", topic, stdin=b"one\ntwo\nthree")
    assert sum(each["records"] for each in reported) == 3

    consumed = cluster.ok("topic", "consume", topic, "-o", ":end")

    assert consumed.lines == ["one", "two", "three"]


def test_keys_choose_the_partition_that_other_clients_choose(
    cluster: Cluster, make_topic: Callable[..., str]
) -> None:
    topic = make_topic(5)
    keys = [f"key-{number}" for number in range(20)]
    produced(cluster, topic, *[f"{key}\tours" for key in keys], options=("-f", r"%k\t%v"))
    producer = Producer({"bootstrap.servers": cluster.address, "partitioner": "murmur2_random"})
    for key in keys:
        producer.produce(topic, key=key, value="theirs")
    assert producer.flush(90) == 0

    lines = cluster.ok("topic", "consume", topic, "-n", "40", "-f", "%k %p").lines

    assert len(lines) == 40
    assert len(set(lines)) == 20


def test_many_short_lines_fill_several_batches(
    cluster: Cluster, make_topic: Callable[..., str]
) -> None:
    name = make_topic(1)
    lines = b"".join(b"%d\n" % number for number in range(150_000))

    produced = cluster.ok("topic", "produce", name, stdin=lines)

    assert produced.lines[1].split() == [name, "0", "150000", "0", "149999"]
    last = cluster.ok("topic", "consume", name, "-o", "-2:end")
    assert last.lines == ["149998", "149999"]


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_every_codec_goes_there_and_back(
    cluster: Cluster, make_topic: Callable[..., str], codec: str
) -> None:
    topic = make_topic()
    lines = [f"line {number}" for number in range(1000)]
    produced(cluster, topic, *lines, options=("-Z", codec))
    assert cluster.ok("topic", "consume", topic, "-o", ":end").lines == lines


def test_headers_keys_and_tombstones_are_kept(
    cluster: Cluster, make_topic: Callable[..., str]
) -> None:
    topic = make_topic()
    produced(cluster, topic, "v", options=("-k", "k", "-H", "a:1", "-H", "b:x:y"))
    cluster.ok("topic", "produce", topic, "-k", "k", "--tombstone", stdin=b"\n")

    consumed = cluster.ok("topic", "consume", topic, "-n", "2", "--format", "json")

    first, second = map(json.loads, consumed.lines)
    assert (first["key"], first["value"], first["offset"]) == ("k", "v", 0)
    assert first["headers"] == [{"key": "a", "value": "1"}, {"key": "b", "value": "x:y"}]
    assert (second["key"], second["value"]) == ("k", None)


@pytest.mark.parametrize(
    ("place", "expected"),
    [
        (":end", range(10)),
        ("end:end", range(0)),
        ("4:7", range(4, 7)),
        ("+8:end", range(8, 10)),
        ("-3:end", range(7, 10)),
        ("-100:+1", range(1)),
        ("@0:end", range(10)),
        ("@-1h:end", range(10)),
    ],
)
def test_a_range_is_consumed(
    cluster: Cluster, make_topic: Callable[..., str], place: str, expected: range
) -> None:
    topic = make_topic()
    produced(cluster, topic, *map(str, range(10)))
    consumed = cluster.ok("topic", "consume", topic, "-o", place, "-f", "%o")
    assert consumed.lines == list(map(str, expected))


def test_a_number_of_records_is_consumed(cluster: Cluster, make_topic: Callable[..., str]) -> None:
    topic = make_topic()
    produced(cluster, topic, *map(str, range(10)))
    assert cluster.ok("topic", "consume", topic, "-o", "-5", "-n", "2").lines == ["5", "6"]


def test_an_offset_past_the_end_is_reported(
    cluster: Cluster, make_topic: Callable[..., str]
) -> None:
    topic = make_topic()
    ended = cluster.run("topic", "consume", topic, "-o", "47")
    assert ended.code == 1
    assert f"{topic}-0 ends at 0, before offset 47" in ended.err


def test_an_offset_that_is_gone_goes_on_at_the_start(
    cluster: Cluster, make_topic: Callable[..., str]
) -> None:
    topic = make_topic()
    produced(cluster, topic, *map(str, range(10)))
    trimmed = cluster.json("topic", "trim-prefix", topic, "-o", "6")
    assert trimmed == [{"topic": topic, "partition": 0, "log_start": 6, "status": "OK"}]

    ended = cluster.run("topic", "consume", topic, "-o", "2:end")

    assert (ended.code, ended.lines) == (0, ["6", "7", "8", "9"])
    assert "begins at 6 now" in ended.err


def test_a_topic_or_partition_that_is_not_there_is_one_sentence(
    cluster: Cluster, make_topic: Callable[..., str]
) -> None:
    ended = cluster.run("topic", "consume", "never-was")
    assert (ended.code, ended.err.count("\n")) == (1, 1)
    assert "create it with: headrace topic create never-was" in ended.err
    topic = make_topic()
    assert "has no partition 4, only 0 to 0" in cluster.run("topic", "consume", topic, "-p4").err


def test_aborted_transactions_are_left_out_on_request(
    cluster: Cluster, make_topic: Callable[..., str]
) -> None:
    topic = make_topic()
    settings = {"bootstrap.servers": cluster.address, "transactional.id": f"{topic}-writer"}
    producer = Producer(settings)
    producer.init_transactions(90)
    for value, commit in (("kept", True), ("dropped", False), ("kept too", True)):
        producer.begin_transaction()
        producer.produce(topic, value)
        if commit:
            producer.commit_transaction(90)
        else:
            assert producer.flush(90) == 0
            producer.abort_transaction(90)

    everything = cluster.ok("topic", "consume", topic, "-o", ":end").lines
    committed = cluster.ok("topic", "consume", topic, "-o", ":end", "--read-committed").lines

    assert everything == ["kept", "dropped", "kept too"]
    assert committed == ["kept", "kept too"]


def test_a_topic_is_described(cluster: Cluster, make_topic: Callable[..., str]) -> None:
    topic = make_topic(2, "-c", "retention.ms=123456789")
    produced(cluster, topic, "a", "b", options=("-p", "1"))

    (described,) = cluster.json("topic", "describe", topic)

    assert (described["summary"]["name"], described["summary"]["partitions"]) == (topic, 2)
    assert [each["records"] for each in described["partitions"]] == [0, 2]
    assert [each["leader"] for each in described["partitions"]] == [1, 1]
    configs = {each["key"]: (each["value"], each["source"]) for each in described["configs"]}
    assert configs["retention.ms"] == ("123456789", "DYNAMIC_TOPIC_CONFIG")
    assert configs["max.message.bytes"] == ("1048588", "DEFAULT_CONFIG")


def test_configuration_is_altered(cluster: Cluster, make_topic: Callable[..., str]) -> None:
    topic = make_topic(1, "-c", "retention.ms=1000", "-c", "cleanup.policy=compact")

    cluster.ok(
        *("topic", "alter-config", topic, "--set", "segment.ms=5000", "--delete", "retention.ms"),
        *("--append", "cleanup.policy=delete"),
    )

    def described() -> dict[str, str]:
        (found,) = cluster.json("topic", "describe", topic, "-c")
        return {each["key"]: each["value"] for each in found["configs"]}

    # Apache Kafka answers before all of its brokers know the change.
    wait_until(lambda: described()["segment.ms"] == "5000", what="the configuration")
    configs = described()
    assert configs["retention.ms"] == "604800000"
    assert sorted(configs["cleanup.policy"].split(",")) == ["compact", "delete"]
    refused = cluster.run("topic", "alter-config", topic, "--set", "no.such.key=1")
    assert (refused.code, "INVALID_CONFIG" in refused.out) == (1, True)


def test_partitions_are_added(cluster: Cluster, make_topic: Callable[..., str]) -> None:
    topic = make_topic(2)
    ended = cluster.run("topic", "add-partitions", topic, "never-was", "-n", "3")
    assert ended.code == 1
    assert "UNKNOWN_TOPIC_OR_PARTITION" in ended.out

    def listed() -> int:
        (found,) = cluster.json("topic", "list", topic)
        return int(found["partitions"])

    wait_until(lambda: listed() == 5, what="five partitions")


def test_a_group_goes_on_where_it_was(
    cluster: Cluster, make_topic: Callable[..., str], group: str
) -> None:
    topic = make_topic(2)
    produced(cluster, topic, *map(str, range(10)), options=("-p", "0"))
    produced(cluster, topic, *map(str, range(10, 20)), options=("-p", "1"))

    first = cluster.ok("topic", "consume", topic, "-g", group, "-n", "7").lines
    second = cluster.ok("topic", "consume", topic, "-g", group, "-n", "13").lines

    assert sorted(first + second, key=int) == list(map(str, range(20)))
    (described,) = cluster.json("group", "describe", group)
    assert (described["state"], described["members"], described["total_lag"]) == ("Empty", 0, 0)
    assert {each["offset"] for each in described["partitions"]} == {10}


def test_a_group_is_listed_described_and_deleted(
    cluster: Cluster, make_topic: Callable[..., str], group: str
) -> None:
    topic = make_topic()
    produced(cluster, topic, "a", "b", "c")
    cluster.ok("topic", "consume", topic, "-g", group, "-n", "1")

    assert group in [each["group"] for each in cluster.json("group", "list")]
    (described,) = cluster.json("group", "describe", group)
    (row,) = described["partitions"]
    assert (row["offset"], row["log_end"], row["lag"]) == (1, 3, 2)

    ended = cluster.run("group", "delete", group, "never-was")
    assert ended.code == 1
    assert ended.lines[1].split() == [group, "OK"]
    assert "GROUP_ID_NOT_FOUND" in ended.lines[2]
    assert cluster.run("group", "describe", group).code == 1


@pytest.mark.parametrize(
    ("to", "expected"), [("start", 0), ("end", 5), ("3", 3), ("+1", 1), ("-2", 3), ("@0", 0)]
)
def test_a_group_seeks(
    cluster: Cluster, make_topic: Callable[..., str], group: str, to: str, expected: int
) -> None:
    topic = make_topic()
    produced(cluster, topic, *"abcde")
    (row,) = cluster.json("group", "seek", group, "--to", to, "--topics", topic)
    assert (row["prior_offset"], row["current_offset"], row["status"]) == (None, expected, "OK")

    (moved,) = cluster.json("group", "seek", f"{group}-2", "--to-group", group)
    assert moved["current_offset"] == expected


def test_a_seek_outside_the_log_is_refused(
    cluster: Cluster, make_topic: Callable[..., str], group: str
) -> None:
    topic = make_topic()
    ended = cluster.run("group", "seek", group, "--to", "1700000000", "--topics", topic)
    assert ended.code == 1
    assert "lies outside 0 to 0 (a time is written as @TIME)" in ended.out
    nothing = cluster.run("group", "seek", group, "--to", "start")
    assert "has committed nothing yet: name its topics" in nothing.err


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_group_with_members_is_described_and_left_alone(
    cluster: Cluster, make_topic: Callable[..., str], group: str, protocol: str
) -> None:
    topic = make_topic(2)
    settings = {"bootstrap.servers": cluster.address, "group.id": group, "client.id": "billing-1"}
    consumer = Consumer({**settings, "group.protocol": protocol})
    consumer.subscribe([topic])

    def has_partitions() -> bool:
        consumer.poll(0.05)
        return len(consumer.assignment()) == 2

    wait_until(has_partitions, what="the assignment")

    def described() -> Any:
        consumer.poll(0)
        return cluster.json("group", "describe", group)[0]

    wait_until(lambda: described()["state"] == "Stable", what="a stable group")
    shown = described()
    assert (shown["type"], shown["members"]) == (protocol, 1)
    assert [(each["partition"], each["client_id"]) for each in shown["partitions"]] == [
        (0, "billing-1"),
        (1, "billing-1"),
    ]
    refused = cluster.run("group", "seek", group, "--to", "start", "--topics", topic)
    assert (refused.code, "stop them first" in refused.out) == (1, True)
    refused = cluster.run("group", "delete", group)
    assert (refused.code, "NON_EMPTY_GROUP" in refused.out) == (1, True)
    consumer.close()


def test_committed_offsets_are_deleted(
    cluster: Cluster, make_topic: Callable[..., str], group: str
) -> None:
    topic = make_topic(2)
    cluster.ok("group", "seek", group, "--to", "end", "--topics", topic)
    cluster.ok("group", "offset-delete", group, "--topics", f"{topic}:1")
    (described,) = cluster.json("group", "describe", group)
    assert [each["partition"] for each in described["partitions"]] == [0]


def test_a_cluster_is_shown(cluster: Cluster) -> None:
    shown = cluster.json("cluster", "info")
    (broker,) = shown["brokers"]
    assert f"{broker['host']}:{broker['port']}" == cluster.address
    assert shown["features"]["group.version"] == 1
    assert cluster.json("cluster", "health")["healthy"] is True


def test_broker_configuration_is_shown(cluster: Cluster) -> None:
    (row,) = cluster.json("cluster", "configs", "group.initial.rebalance.delay.ms")
    assert (row["value"], row["source"]) == ("0", "STATIC_BROKER_CONFIG")
    named = {each["key"] for each in cluster.json("cluster", "configs", "--all")}
    assert {"log.dirs", "num.partitions", "log.retention.ms"} <= named
    unknown = cluster.run("cluster", "configs", "no.such.key")
    assert (unknown.code, "no configuration key no.such.key" in unknown.err) == (1, True)


def test_a_hundred_thousand_records_go_there_and_back(
    cluster: Cluster, make_topic: Callable[..., str]
) -> None:
    topic = make_topic(4)
    lines = [f"{number:0100d}" for number in range(100_000)]
    produced(cluster, topic, *lines, options=("-Z", "lz4"))
    assert sorted(cluster.ok("topic", "consume", topic, "-o", ":end").lines) == lines
