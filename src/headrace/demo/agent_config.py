"""The configuration of the demo's agent, which writes the access log to a topic exactly once."""

from pathlib import Path

from headrace.audit.reconciliation import SOURCE_TIER
from headrace.demo.demo_audit import BUCKET_MS
from headrace.demo.topic import ACCESS

NAME = "site"


def write_agent_config(path: Path, *, log: Path, positions: Path, brokers: str) -> None:
    """Write a Flume configuration: TAILDIR, a memory channel, a Kafka sink.

    File names are a regular expression, so that the agent also reads rotated files to their end.
    The sink commits positions in its transactions: a killed agent repeats and loses nothing.
    """
    keys = {
        "sources": "log",
        "channels": "memory",
        "sinks": "topic",
        "sources.log.type": "TAILDIR",
        "sources.log.channels": "memory",
        "sources.log.filegroups": "site",
        "sources.log.filegroups.site": f"{log.parent}/{log.stem}\\\\.log.*",
        "sources.log.positionFile": str(positions),
        "sources.log.exactlyOnce": "true",
        "channels.memory.type": "memory",
        "channels.memory.capacity": "20000",
        "channels.memory.transactionCapacity": "5000",
        "sinks.topic.type": "kafka",
        "sinks.topic.channel": "memory",
        "sinks.topic.kafka.bootstrap.servers": brokers,
        "sinks.topic.kafka.topic": ACCESS,
        "sinks.topic.kafka.transactional.id": "demo-access-log",
        "sinks.topic.audit.tier": SOURCE_TIER,
        "sinks.topic.audit.bucketMs": str(BUCKET_MS),
    }
    lines = [f"{NAME}.{key} = {value}" for key, value in keys.items()]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
