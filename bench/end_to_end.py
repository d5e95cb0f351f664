"""From a producer to a consumer in another process, at a steady rate.

`python -m bench.end_to_end ADDRESS TOPIC COUNT RATE` is the producer: every record carries the time
at which it was handed to the client, by the clock that all processes of the machine share.
"""

import subprocess
import sys
import time
from struct import Struct

from confluent_kafka import OFFSET_END, Consumer, KafkaException, Producer, TopicPartition

_TIME = Struct(">q")
_VALUE_BYTES = 100
_STALL_SECONDS = 30.0


def latencies_ms(
    address: str, topic: str, *, count: int, rate: int, copied_to: str | None = None
) -> list[float]:
    """How long each record took, but for the first tenth, in which clients still connect.

    With `copied_to`, until it came out of that topic, to which another process copies the first.
    """
    read = copied_to or topic
    consumer = Consumer(
        {
            "bootstrap.servers": address,
            "group.id": f"{read}-readers",
            "enable.auto.commit": "false",
        }
    )
    consumer.assign([TopicPartition(read, 0, OFFSET_END)])
    # The end is looked up by the first fetch: nothing may be sent before.
    consumer.get_watermark_offsets(TopicPartition(read, 0), 10)
    consumer.poll(1.0)
    arguments = [address, topic, str(count), str(rate)]
    child = subprocess.Popen([sys.executable, "-m", "bench.end_to_end", *arguments])
    taken: list[float] = []
    try:
        deadline = time.monotonic() + count / rate + _STALL_SECONDS
        while len(taken) < count:
            message = consumer.poll(1.0)
            if message is None:
                if time.monotonic() > deadline:
                    raise AssertionError(f"{len(taken)} of {count} records came")
                continue
            now = time.monotonic_ns()
            error = message.error()
            if error is not None:
                raise KafkaException(error)
            value = message.value()
            assert isinstance(value, bytes)
            (sent,) = _TIME.unpack_from(value)
            taken.append((now - sent) / 1e6)
        if child.wait(_STALL_SECONDS):
            raise AssertionError("the producer failed")
    finally:
        child.kill()
        child.wait()
        consumer.close()
    return taken[count // 10 :]


def send(address: str, topic: str, count: int, rate: int) -> None:
    producer = Producer({"bootstrap.servers": address, "acks": "1", "linger.ms": "0"})
    producer.list_topics(topic, 10)
    padding = b"x" * (_VALUE_BYTES - _TIME.size)
    start = time.monotonic_ns()
    step_ns = 1_000_000_000 // rate
    for number in range(count):
        wait = start + number * step_ns - time.monotonic_ns()
        if wait > 0:
            time.sleep(wait / 1e9)
        producer.produce(topic, _TIME.pack(time.monotonic_ns()) + padding, partition=0)
        producer.poll(0)
    if producer.flush(_STALL_SECONDS):
        raise AssertionError("records were not acknowledged")


if __name__ == "__main__":
    send(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
