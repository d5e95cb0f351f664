"""Topologies in Spark's real-time mode, and what Spark says to a bolt in Python there."""

from pathlib import Path

import headrace.spark
from headrace.flow.aggregate import Aggregate
from headrace.flow.job import start
from headrace.flow.select import Select
from headrace.flow.storm.sink import TopicSink
from headrace.flow.storm.spout import TopicSpout
from headrace.flow.storm.topology import Topology
from headrace.testing.readiness import wait_until
from headrace.testing.spark_driver import answer, driver_task
from headrace.testing.spark_session import quiet_config
from headrace.testing.transactional import read_to_end

task = driver_task()
folder = Path(task["folder"])
# Real-time mode holds a slot for every task of every stage at once.
spark = headrace.spark.session(
    "realtime", master="local[4]", realtime=True, config=quiet_config(folder)
)


def views():
    return TopicSpout(
        task["source"], brokers=task["address"], fields="page STRING, ms INT", format="json"
    )


def topology(name):
    made = Topology(name, latency="realtime", guarantee="at-least-once", dead_letters=None)
    made.spout("views", views())
    made.bolt("slow", Select(where="ms > 1")).shuffle("views")
    return made


def two_bolts():
    made = topology("two-bolts")
    shown = Select(page="upper(page)", twice="ms * 2")
    made.bolt("shown", shown, output="page STRING, twice INT").shuffle("slow")
    made.sink("out", TopicSink(task["bolts"])).shuffle("shown")
    return made


def totals():
    made = topology("totals")
    made.bolt("totals", Aggregate("page", n="count", most="max(ms)")).fields("slow", "page")
    made.sink("out", TopicSink(task["totals"])).shuffle("totals")
    return made


def run(made, target, last):
    """Until a record that only the last view can make is there."""
    query = start(
        made.plan(), spark, brokers=task["address"], checkpoint=folder / f"checkpoint-{made.name}"
    )
    try:
        wait_until(
            lambda: query.exception() is not None or last in read(target),
            what=f"records of {made.name}",
            timeout_seconds=240,
        )
        if query.exception() is not None:
            raise query.exception()
    finally:
        query.stop()
    return read(target)


def read(topic):
    return [each.decode() for each in read_to_end(task["address"], topic, committed=False)]


def refusal():
    """What Spark says when there is Python between its source and its sink."""
    rows = views().kafka_frame(spark).mapInArrow(lambda batches: batches, "page STRING, ms INT")
    writer = rows.selectExpr("page AS value").writeStream.format("kafka")
    writer = writer.options(**{"kafka.bootstrap.servers": task["address"], "topic": task["bolts"]})
    writer = writer.option("checkpointLocation", str(folder / "checkpoint-python"))
    query = writer.outputMode("update").trigger(realTime="5 seconds").start()
    try:
        wait_until(
            lambda: query.exception() is not None or not query.isActive,
            what="Spark's refusal",
            timeout_seconds=240,
        )
        return str(query.exception())
    finally:
        query.stop()


answer(
    {
        "bolts": run(two_bolts(), task["bolts"], '{"page":"/A","twice":8}'),
        "totals": run(totals(), task["totals"], '{"page":"/a","n":2,"most":4}'),
        "refusal": refusal(),
    }
)
spark.stop()
