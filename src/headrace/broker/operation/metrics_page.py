"""The page /metrics: figures read on the event loop, text made of them in a thread."""

from headrace.broker.broker import Broker
from headrace.broker.operation.broker_readings import traffic_readings
from headrace.broker.operation.mirror_readings import mirror_readings
from headrace.broker.operation.partition_health import PartitionHealth, partition_health
from headrace.telemetry.reading import Reading, collect, load_prometheus, process_figures, render


class MetricsPage:
    """Makes the page once per scrape. Nothing is counted or kept between two scrapes."""

    def __init__(self, broker: Broker, readings: list[Reading]) -> None:
        self._broker = broker
        self._readings = readings

    async def __call__(self) -> bytes:
        await self._broker.in_thread(load_prometheus)
        health = await partition_health(self._broker)
        now = [
            *traffic_readings(self._broker.metrics),
            *_health_readings(health),
            *mirror_readings(self._broker.mirror_links, self._broker.clock.wall_ms()),
        ]
        families = collect([*self._readings, *now])
        return await self._broker.in_thread(lambda: render([*families, *process_figures()]))


def _health_readings(health: PartitionHealth) -> list[Reading]:
    gauge = Reading.gauge
    return [
        gauge("headrace_partitions", "Partitions this broker leads.", lambda: health.led),
        gauge(
            "headrace_followed_partitions",
            "Partitions this broker copies from their leaders.",
            lambda: health.followed,
        ),
        gauge(
            "headrace_under_replicated_partitions",
            "Partitions led here with fewer replicas in sync than they have.",
            lambda: health.under_replicated,
        ),
        gauge(
            "headrace_under_min_isr_partitions",
            "Partitions led here that refuse acks=all: fewer in sync than min.insync.replicas.",
            lambda: health.under_min_isr,
        ),
        gauge(
            "headrace_at_min_isr_partitions",
            "Partitions led here that refuse acks=all when one more replica falls out of sync.",
            lambda: health.at_min_isr,
        ),
        gauge(
            "headrace_offline_partitions",
            "Partitions without a leader, on the controller; or on a failed directory here.",
            lambda: health.offline,
        ),
        gauge(
            "headrace_preferred_replica_imbalance",
            "Partitions led by another replica than their first, on the controller.",
            lambda: health.not_preferred,
        ),
        gauge(
            "headrace_log_size_bytes",
            "Bytes in the segments of the partitions this broker leads.",
            lambda: health.size_bytes,
        ),
    ]
