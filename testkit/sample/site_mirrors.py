"""Mirrors of a console's site: to another cluster, back from it, and to one that is away."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from headrace.mirror.config.mirror_file import MirrorFile
from headrace.testing.readiness import wait_until
from testkit.process.broker_process import BrokerProcess
from testkit.process.member import create_topic
from testkit.process.mirror_process import MirrorProcess

_INVOICES: Final = 40
_FLOWS: Final = {
    "us->eu.enabled": "true",
    "us->eu.topics": "page-views, searches",
    "eu->us.enabled": "true",
    "eu->us.topics": "invoices",
    "emit.heartbeats.enabled": "false",
}


@contextmanager
def site_mirrors(folder: Path, address: str) -> Iterator[MirrorFile]:
    """Copy between the site's broker and another one inside the block.

    Args:
        address: of the site's broker, which has the topics `page-views` and `searches`.

    Yields:
        The file that a console draws. It names one more cluster, which does not answer.
    """
    with BrokerProcess(folder / "eu") as other:
        create_topic(other.address, "invoices", 1)
        _write_invoices(other.address)
        clusters = {"us": address, "eu": other.address}
        with MirrorProcess(folder / "mirror", clusters, _FLOWS) as mirror:
            wait_until(lambda: _is_copied(address), what="the first copies", timeout_seconds=120)
            keys = {
                "clusters": "us, eu, ap",
                **{f"{alias}.bootstrap.servers": at for alias, at in clusters.items()},
                "ap.bootstrap.servers": "127.0.0.1:1",
                **mirror.settings,
                "us->ap.enabled": "true",
                "us->ap.topics": "alerts",
            }
            yield MirrorFile.of(keys)


def _write_invoices(address: str) -> None:
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": address})
    for number in range(_INVOICES):
        producer.produce("invoices", f'{{"number": {number}}}')
    assert producer.flush(60) == 0


def _is_copied(address: str) -> bool:
    from confluent_kafka import Consumer, KafkaException, TopicPartition

    consumer = Consumer({"bootstrap.servers": address, "group.id": "unused", "log_level": 0})
    try:
        _, end = consumer.get_watermark_offsets(TopicPartition("eu.invoices", 0), timeout=5)
    except KafkaException:
        return False
    finally:
        consumer.close()
    return int(end) >= _INVOICES
