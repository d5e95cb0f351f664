"""`headrace log dump` sees in a broker's files what Kafka's own tool sees."""

import json
from typing import Any

from confluent_kafka import Producer

from testkit.peer.kafka_tool import KafkaTools
from testkit.peer.log_dump import dump_log
from testkit.process.broker_process import BrokerProcess
from testkit.process.command_line import run_headrace


def test_batches_and_records_are_those_of_kafkas_own_tool(
    own_broker: BrokerProcess, kafka_tools: KafkaTools, topic: str
) -> None:
    own_broker.start()
    environment = {"HEADRACE_BROKERS": own_broker.address}

    def run(*arguments: str, stdin: bytes = b"") -> None:
        assert run_headrace(*arguments, stdin=stdin, environment=environment).code == 0

    run("topic", "create", topic)
    for codec in ("none", "gzip", "snappy", "lz4", "zstd"):
        lines = "\n".join(f"{codec} {number}" for number in range(50))
        run("topic", "produce", topic, "-Z", codec, "-H", "a:b", stdin=lines.encode())
    producer = Producer({"bootstrap.servers": own_broker.address, "transactional.id": topic})
    producer.init_transactions(90)
    for commits in (True, False):
        producer.begin_transaction()
        producer.produce(topic, "in a transaction", key="k")
        assert producer.flush(90) == 0
        (producer.commit_transaction if commits else producer.abort_transaction)(90)
    del producer
    assert own_broker.stop() == 0
    partition = own_broker.data / f"{topic}-0"

    theirs = dump_log(kafka_tools, [partition])
    dumped = run_headrace("log", "dump", str(partition), "--records", "--format", "json")

    assert (dumped.code, dumped.err, theirs.complaints) == (0, "", [])
    entries = [json.loads(line) for line in dumped.lines]
    ours = [entry for entry in entries if entry["file"].endswith(".log")]
    file = partition / f"{0:020d}.log"
    assert [shown(entry) for entry in ours] == [
        {name: batch[name] for name in shown(ours[0])} for batch in theirs.batches[file]
    ]
    assert [
        (record["offset"], record["timestamp"], record.get("value"), record.get("control"))
        for entry in ours
        for record in entry["records"]
    ] == [
        (record.offset, record.timestamp_ms, record.value, record.marker)
        for record in theirs.records[file]
    ]
    assert [entry["last_offset"] for entry in entries if "last_stable_offset" in entry] == [253]


def shown(entry: dict[str, Any]) -> dict[str, str]:
    """A batch of ours in the words of Kafka's tool."""
    return {
        "baseOffset": str(entry["base_offset"]),
        "lastOffset": str(entry["last_offset"]),
        "count": str(entry["count"]),
        "producerId": str(entry["producer_id"]),
        "partitionLeaderEpoch": str(entry["leader_epoch"]),
        "isTransactional": str(entry["transactional"]).lower(),
        "isControl": str(entry["control"] is not None).lower(),
        "position": str(entry["position"]),
        "size": str(entry["size_bytes"]),
        "compresscodec": entry["codec"],
        "crc": str(int(entry["crc"], 16)),
    }
