"""Nothing is lost, doubled or reordered, whatever a cluster does to its producers."""

import pyarrow as pa
import pytest

from headrace.client.error import WriteFailed
from headrace.client.network.connection import BrokerConnection
from headrace.client.write.writer import Writer
from testkit.fault.faulty_cluster import FaultyCluster

PARTITIONS = 4


def rows(first: int, past: int) -> pa.Table:
    """Numbered rows, dealt out to all partitions."""
    numbers = range(first, past)
    return pa.table(
        {
            "partition": [number % PARTITIONS for number in numbers],
            "value": [str(number) for number in numbers],
        }
    )


def expected(partition: int, past: int) -> list[bytes]:
    return [b"%d" % number for number in range(partition, past, PARTITIONS)]


def settings(cluster: FaultyCluster) -> dict[str, str]:
    return {
        "bootstrap.servers": cluster.address,
        "retry.backoff.ms": "1",
        "default.api.timeout.ms": "20000",
    }


@pytest.mark.parametrize("seed", range(12))
def test_every_record_once_and_in_order(seed: int) -> None:
    with FaultyCluster("clicks", nodes=3, partitions=PARTITIONS, seed=seed, faults=40) as cluster:
        with Writer(settings(cluster), "clicks", batch_bytes=200, memory_bytes=4000) as writer:
            for first in range(0, 2000, 50):
                writer.write(rows(first, first + 50))

        assert cluster.faults == 0
        for partition in range(PARTITIONS):
            assert cluster.values(partition) == expected(partition, 2000)


def test_five_requests_are_in_flight_to_each_leader() -> None:
    with FaultyCluster("clicks", nodes=2, partitions=PARTITIONS) as cluster:
        with Writer(settings(cluster), "clicks", batch_bytes=200) as writer:
            writer.write(rows(0, 4))
            writer.flush()
            cluster.gate = 5
            writer.write(rows(4, 1000))
            writer.flush()

        for partition in range(PARTITIONS):
            assert cluster.values(partition) == expected(partition, 1000)


def test_without_idempotence_nothing_is_lost() -> None:
    with FaultyCluster("clicks", nodes=2, partitions=PARTITIONS, faults=20) as cluster:
        with Writer(
            settings(cluster), "clicks", acks=1, idempotent=False, batch_bytes=200
        ) as writer:
            for first in range(0, 1000, 50):
                writer.write(rows(first, first + 50))
                writer.flush()

        for partition in range(PARTITIONS):
            assert set(cluster.values(partition)) == set(expected(partition, 1000))


def test_retries_end_and_the_error_names_a_partition() -> None:
    with FaultyCluster("clicks", nodes=2, partitions=PARTITIONS, faults=10**9) as cluster:
        cluster._next_fault = lambda: "closed before"  # type: ignore[method-assign]
        hasty = settings(cluster) | {"default.api.timeout.ms": "200"}
        writer = Writer(hasty, "clicks")
        writer.write(rows(0, 4))

        with pytest.raises(WriteFailed, match=r"cannot write to clicks-\d: .*closed the conn"):
            writer.flush()
        with pytest.raises(WriteFailed):
            writer.close()


@pytest.mark.parametrize("call", ["begin", "finish"])
def test_after_ctrl_c_a_flush_writes_the_rest(call: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with FaultyCluster("clicks", nodes=2, partitions=PARTITIONS) as cluster:
        with Writer(settings(cluster), "clicks") as writer:
            writer.write(rows(0, 4))
            writer.flush()
            writer.write(rows(4, 40))
            with monkeypatch.context() as patch:

                def interrupted(
                    connection: BrokerConnection, *rest: object, **more: object
                ) -> None:
                    connection.close()
                    raise KeyboardInterrupt

                patch.setattr(BrokerConnection, call, interrupted)
                with pytest.raises(KeyboardInterrupt):
                    writer.flush()

            writer.flush()

        for partition in range(PARTITIONS):
            assert cluster.values(partition) == expected(partition, 40)


def test_accumulated_rows_are_sent_before_they_take_much_memory() -> None:
    with FaultyCluster("clicks", nodes=1, partitions=PARTITIONS) as cluster:
        with Writer(
            settings(cluster), "clicks", batch_bytes=10_000, memory_bytes=40_000, linger_ms=10**6
        ) as writer:
            for first in range(0, 4000, 50):
                writer.write(rows(first, first + 50))

            assert cluster.values(0)

        assert cluster.values(0) == expected(0, 4000)
