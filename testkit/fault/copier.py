"""A worker that copies a topic exactly once, in a process of its own that a test can kill.

    python -m testkit.fault.copier ADDRESS SOURCE TARGET GROUP TRANSACTIONAL_ID HOLD

It reads as a member of GROUP and writes each value to the same partition of TARGET, the offsets in
the same transaction. It prints a line for each transaction it committed. Before the commit of the
transaction number HOLD (from 1; 0 for never) it says `holding` and waits to be killed: a worker
that dies at the worst moment.
"""

import subprocess
import sys
import time

from confluent_kafka import Consumer

from testkit.peer.transactional import transactional_producer

_SECONDS = 90.0
_BATCH = 20


class Copier:
    """The process. Use it in a `with` block, which kills it at the end.

    Example:
        with Copier(address, "in", "out", "group", "copier", hold=3) as copier:
            assert copier.line() == "20"
    """

    def __init__(
        self,
        address: str,
        source: str,
        target: str,
        group: str,
        transactional_id: str,
        *,
        hold: int = 0,
    ) -> None:
        self._process = subprocess.Popen(
            [
                *(sys.executable, "-m", "testkit.fault.copier"),
                *(address, source, target, group, transactional_id, str(hold)),
            ],
            stdout=subprocess.PIPE,
            text=True,
        )

    def line(self) -> str:
        """Return the next line it prints, waiting for it; empty when it has ended."""
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()

    def __enter__(self) -> "Copier":
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()


def copy(
    address: str, source: str, target: str, group: str, transactional_id: str, hold: int
) -> None:
    """Copy for ever; see the module."""
    producer = transactional_producer(address, transactional_id)
    consumer = Consumer(
        {
            "bootstrap.servers": address,
            "group.id": group,
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "isolation.level": "read_committed",
            # A static member (KIP-345) replaces the one that was killed without waiting for it.
            "group.instance.id": transactional_id,
        }
    )
    consumer.subscribe([source])
    number = 0
    while True:
        messages = [each for each in consumer.consume(_BATCH, 0.1) if each.error() is None]
        if not messages:
            continue
        number += 1
        producer.begin_transaction()
        for message in messages:
            producer.produce(target, message.value(), partition=message.partition() or 0)
        assert producer.flush(_SECONDS) == 0
        positions = consumer.position(consumer.assignment())
        producer.send_offsets_to_transaction(
            positions, consumer.consumer_group_metadata(), _SECONDS
        )
        if number == hold:
            _say("holding")
            time.sleep(3600)
        producer.commit_transaction(_SECONDS)
        _say(str(len(messages)))


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    _, *names, held = sys.argv
    copy(*names, hold=int(held))  # type: ignore[misc,arg-type]
