"""`--from` and `--to` of a batch: offsets and times in topics of a real broker."""

import json

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from headrace.cli.flow.plan_range import bounded
from headrace.cli.flow.topic import create_missing
from headrace.cli.record.offset_spec import parse_offset_spec
from headrace.flow.plan.plan import Plan
from headrace.flow.storm.sink import TopicSink
from headrace.flow.storm.spout import SparkSpout, TopicSpout
from headrace.flow.storm.topology import Topology
from headrace.model.clock import SystemClock
from headrace.model.error import ConfigError
from testkit.process.broker_process import BrokerProcess


def copying(broker: BrokerProcess, topic: str) -> Plan:
    made = Topology("copy", dead_letters=None)
    made.spout("in", TopicSpout(topic, brokers=broker.address, fields="value STRING"))
    made.sink("out", TopicSink(f"{topic}-out")).shuffle("in")
    return made.plan()


def test_bounds_become_offsets_of_each_partition(broker: BrokerProcess, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": broker.address})
    admin.create_topics([NewTopic(topic, 2, 1)])[topic].result(90)
    producer = Producer({"bootstrap.servers": broker.address})
    for partition, count in ((0, 5), (1, 3)):
        for number in range(count):
            producer.produce(topic, str(number), partition=partition, timestamp=1_000 + number)
    assert producer.flush(60) == 0
    clock = SystemClock()
    plan = copying(broker, topic)

    in_range = bounded(plan, parse_offset_spec("@1002", clock), parse_offset_spec("-1", clock))
    by_time = bounded(plan, parse_offset_spec("@1970-01-01T00:00:01.002Z", clock), None)

    spout = in_range.components["in"].work
    assert json.loads(spout.ending) == {topic: {"0": 4, "1": 2}}
    begun = by_time.components["in"].work
    assert json.loads(begun.starting) == {topic: {"0": 2, "1": 2}}
    assert begun.ending == "latest"
    assert plan.components["in"].work.starting == "earliest"  # as it was


def test_a_plan_without_bounds_does_not_change(broker: BrokerProcess, topic: str) -> None:
    plan = copying(broker, topic)

    assert bounded(plan, None, None) is plan


def test_a_spout_that_reads_no_topic_has_no_bounds(broker: BrokerProcess, topic: str) -> None:
    made = Topology("rate", dead_letters=None)
    made.spout("in", SparkSpout(lambda spark, streaming: spark.range(1), fields="id BIGINT"))
    start = parse_offset_spec("start", SystemClock())

    with pytest.raises(ConfigError, match="the spout in reads no topic"):
        bounded(made.plan(), start, None)
    with pytest.raises(ConfigError, match="there is no topic"):
        bounded(copying(broker, f"{topic}-none"), start, None)


def test_missing_topics_are_created_once(broker: BrokerProcess, topic: str) -> None:
    plan = copying(broker, topic)

    assert sorted(create_missing(plan, broker.address)) == [topic, f"{topic}-out"]
    assert create_missing(plan, broker.address) == []
