"""Bytes that are no requests, clients that misbehave: the broker stays small, alive and polite."""

import random
import resource
import socket
import struct
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pytest

from headrace.testing.readiness import wait_until
from headrace.wire.api import APIS, ApiKey
from headrace.wire.error_code import ErrorCode
from headrace.wire.fetch_request import FetchPartition, FetchRequest, FetchTopic
from headrace.wire.primitive import pack_uvarint
from headrace.wire.produce_request import ProducePartition, ProduceRequest, ProduceTopic
from testkit.peer.peer import require_peer
from testkit.process.broker_process import BrokerProcess
from testkit.process.wire_client import WireClient
from testkit.sample.batch import sample_batch

MIB = 1024 * 1024
CROWD = 2000
_FETCH_WAIT_MS = 60_000


# Looks in a row at a broker that has loaded everything.
SAME_SIZES = 50


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """A broker without other clients: its connections, files and memory are counted here."""
    with BrokerProcess(tmp_path_factory.mktemp("broker")) as process:
        # The kernels take 140 MB, and whichever test comes first would see them.
        create(process, "compacted", **{"cleanup.policy": "compact"})
        sizes: list[int] = []

        def is_settled() -> bool:
            sizes.append(process.usage().rss_bytes)
            loaded = "llvmlite" in Path(f"/proc/{process.pid}/maps").read_text()
            return loaded and len(sizes) > SAME_SIZES and len(set(sizes[-SAME_SIZES:])) == 1

        wait_until(is_settled, what="a broker with its kernels")
        yield process


@pytest.fixture
def clicks(broker: BrokerProcess, topic: str) -> str:
    """A topic of one partition."""
    create(broker, topic)
    return topic


def create(broker: BrokerProcess, topic: str, **configs: str) -> None:
    with WireClient(broker.address) as client:
        wanted = {
            "name": topic,
            "num_partitions": 1,
            "replication_factor": 1,
            "configs": [{"name": key, "value": value} for key, value in configs.items()],
        }
        answer = client.ask(ApiKey.CREATE_TOPICS, 7, {"topics": [wanted]})
        assert answer.topics[0].error_code == ErrorCode.none


def metrics(broker: BrokerProcess) -> dict[str, float]:
    host, _, port = broker.admin_url.removeprefix("http://").rpartition(":")
    with socket.create_connection((host, int(port)), timeout=60) as connection:
        connection.sendall(b"GET /metrics HTTP/1.1\r\n\r\n")
        page = b"".join(iter(lambda: connection.recv(65536), b""))
    lines = page.partition(b"\r\n\r\n")[2].decode().splitlines()
    return {
        name: float(value)
        for name, _, value in (line.rpartition(" ") for line in lines if not line.startswith("#"))
    }


def connections(broker: BrokerProcess) -> int:
    return int(metrics(broker)["headrace_connections"])


def wait_for_connections(broker: BrokerProcess, count: int) -> None:
    """Return when the broker has accepted so many, and noticed the end of all others."""
    wait_until(lambda: connections(broker) == count, what=f"{count} connections")


@contextmanager
def growth_below(broker: BrokerProcess, limit_bytes: int) -> Iterator[None]:
    """The broker grows by less than this while and after something is done to it."""
    wait_for_connections(broker, 0)  # what an earlier test has sent is no part of it
    before = broker.usage()
    yield
    after = broker.usage()
    assert after.rss_bytes - before.rss_bytes < limit_bytes
    assert after.peak_rss_bytes - before.peak_rss_bytes < limit_bytes


def serves(broker: BrokerProcess) -> bool:
    with WireClient(broker.address) as client:
        return bool(client.ask(ApiKey.API_VERSIONS, 0, {}).error_code == ErrorCode.none)


def framed(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


def head(api: int, version: int, number: int = 7) -> bytes:
    """The head of a request without a client id, before its tagged fields."""
    return struct.pack(">hhih", api, version, number, -1)


# -- frames


@pytest.mark.parametrize("size", [-1, -(2**31), 100 * MIB + 1, 2**31 - 1])
def test_a_size_that_cannot_be_ends_the_connection(broker: BrokerProcess, size: int) -> None:
    with growth_below(broker, 8 * MIB), WireClient(broker.address) as client:
        client.send_bytes(struct.pack(">i", size) + b"x" * 1000)
        assert client.ended()
    assert serves(broker)


def test_requests_before_a_bad_size_are_answered(broker: BrokerProcess) -> None:
    with WireClient(broker.address) as client:
        number = client.send(ApiKey.METADATA, 12, {"topics": []})
        client.send_bytes(b"\xff\xff\xff\xff")
        assert client.receive(ApiKey.METADATA, 12, number).brokers
        assert client.ended()


def test_a_size_that_is_announced_takes_no_memory_until_the_bytes_come(
    broker: BrokerProcess,
) -> None:
    with growth_below(broker, 16 * MIB), ExitStack() as stack:
        for _ in range(100):
            client = stack.enter_context(WireClient(broker.address))
            client.send_bytes(struct.pack(">i", 99 * MIB) + b"\x00" * 100)
        assert serves(broker)


@pytest.mark.parametrize("length", [0, 1, 3, 4, 9])
def test_a_truncated_frame_harms_nobody(broker: BrokerProcess, length: int) -> None:
    whole = framed(head(ApiKey.METADATA, 1) + b"\x00\x00\x00\x00")
    with WireClient(broker.address) as client:
        client.send_bytes(whole[:length])
    assert serves(broker)


@pytest.mark.parametrize("length", [0, 1, 7, 9])
def test_a_frame_too_short_for_its_head_ends_the_connection(
    broker: BrokerProcess, length: int
) -> None:
    with WireClient(broker.address) as client:
        client.send_bytes(framed(head(ApiKey.METADATA, 1)[:length]))
        assert client.ended()


@pytest.mark.parametrize("greeting", [b"GET / HTTP/1.1\r\n\r\n", b"\x16\x03\x01\x02\x00" * 20])
def test_other_protocols_are_cut_off(broker: BrokerProcess, greeting: bytes) -> None:
    with WireClient(broker.address) as client:
        client.send_bytes(greeting)
        assert client.ended()


# -- requests


@pytest.mark.parametrize("api", [-1, 4, 999, 32767])
def test_an_unknown_api_ends_the_connection(broker: BrokerProcess, api: int) -> None:
    with WireClient(broker.address) as client:
        client.send_bytes(framed(head(api, 0)))
        assert client.ended()


@pytest.mark.parametrize("version", [-1, 99])
def test_an_unserved_version_ends_the_connection(broker: BrokerProcess, version: int) -> None:
    with WireClient(broker.address) as client:
        client.send_bytes(framed(head(ApiKey.METADATA, version)))
        assert client.ended()


def test_an_unserved_version_of_api_versions_is_answered_with_what_is_served(
    broker: BrokerProcess,
) -> None:
    with WireClient(broker.address) as client:
        client.send_bytes(framed(head(ApiKey.API_VERSIONS, 99, 1)))
        answer = client.receive(ApiKey.API_VERSIONS, 0, 1)
        assert answer.error_code == ErrorCode.unsupported_version
        ranges = {each.api_key: (each.min_version, each.max_version) for each in answer.api_keys}
        assert ranges[ApiKey.API_VERSIONS] == (0, 4)
        number = client.send(ApiKey.API_VERSIONS, 3, {})
        assert client.receive(ApiKey.API_VERSIONS, 3, number).error_code == ErrorCode.none


def test_random_bodies_of_every_api_harm_nobody(broker: BrokerProcess) -> None:
    dice = random.Random(848)
    failures = sum(value for name, value in metrics(broker).items() if "failures_total" in name)
    with growth_below(broker, 64 * MIB):
        for api in APIS.values():
            for version in (api.lowest, api.highest):
                body = dice.randbytes(dice.randint(0, 200))
                flexible = b"\x00" if api.flexible(version) else b""
                with WireClient(broker.address) as client:
                    client.send_bytes(framed(head(api.key, version) + flexible + body))
    assert serves(broker)
    after = sum(value for name, value in metrics(broker).items() if "failures_total" in name)
    assert after == failures


def test_a_count_of_two_billion_ends_the_connection(broker: BrokerProcess) -> None:
    with growth_below(broker, 8 * MIB), WireClient(broker.address) as client:
        client.send_bytes(framed(head(ApiKey.METADATA, 1) + b"\x7f\xff\xff\xff"))
        assert client.ended()


@pytest.mark.parametrize("where", ["head", "body"])
def test_tagged_fields_by_the_million_end_the_connection(broker: BrokerProcess, where: str) -> None:
    count = 1_000_000
    tags = pack_uvarint(count) + b"".join(pack_uvarint(n) + b"\x00" for n in range(count))
    body = tags if where == "head" else b"\x00" + b"\x00\x01\x00" + tags
    with growth_below(broker, 64 * MIB), WireClient(broker.address) as client:
        client.send_bytes(framed(head(ApiKey.METADATA, 12) + body))
        assert client.ended()
    assert serves(broker)


# -- records


def test_a_batch_whose_bytes_changed_is_refused(broker: BrokerProcess, clicks: str) -> None:
    batch = bytearray(sample_batch(b"abc"))
    batch[-2] ^= 1
    with WireClient(broker.address) as client:
        assert client.produce(clicks, bytes(batch)).error_code == ErrorCode.corrupt_message
        assert client.produce(clicks, sample_batch(b"abc")).base_offset == 0


@pytest.mark.parametrize("cut", [0, 1, 11, 60, 61])
def test_a_batch_that_is_cut_off_is_refused(broker: BrokerProcess, clicks: str, cut: int) -> None:
    with WireClient(broker.address) as client:
        result = client.produce(clicks, sample_batch(b"abc")[:cut])
        assert result.error_code in (ErrorCode.corrupt_message, ErrorCode.invalid_record)
        assert client.produce(clicks, sample_batch(b"abc")).base_offset == 0


def test_a_wrong_sequence_is_refused(broker: BrokerProcess, clicks: str) -> None:
    with WireClient(broker.address) as client:
        producer = client.ask(
            ApiKey.INIT_PRODUCER_ID,
            4,
            {"transactional_id": None, "transaction_timeout": 1000},
        )

        def batch(sequence: int) -> bytes:
            return sample_batch(
                b"abc",
                producer_id=producer.producer_id,
                producer_epoch=producer.producer_epoch,
                sequence=sequence,
            )

        assert client.produce(clicks, batch(0)).error_code == ErrorCode.none
        wrong = client.produce(clicks, batch(5))
        assert wrong.error_code == ErrorCode.out_of_order_sequence_number
        assert client.produce(clicks, batch(1)).error_code == ErrorCode.none


def test_records_above_the_topics_limit_are_refused(broker: BrokerProcess, topic: str) -> None:
    create(broker, topic, **{"max.message.bytes": "1000"})
    with WireClient(broker.address) as client:
        too_large = client.produce(topic, sample_batch(b"x" * 2000))
        assert too_large.error_code == ErrorCode.message_too_large
        assert client.produce(topic, sample_batch(b"x" * 500)).base_offset == 0


def test_a_failed_produce_that_wants_no_answer_ends_the_connection(
    broker: BrokerProcess, clicks: str
) -> None:
    broken = [ProduceTopic(clicks, None, [ProducePartition(0, memoryview(b"garbage" * 20))])]
    with WireClient(broker.address) as client:
        client.send_produce(9, ProduceRequest(None, 0, 1000, broken))
        assert client.ended()


# -- crowds and floods


@pytest.fixture
def room_for_a_crowd() -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 2 * CROWD
    if hard != resource.RLIM_INFINITY and hard < wanted:
        require_peer(f"a process may open only {hard} files here, and {wanted} are needed")
    soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, wanted), hard))


def test_thousands_of_half_open_connections_cost_little_and_hold_up_nobody(
    broker: BrokerProcess, clicks: str, room_for_a_crowd: None
) -> None:
    with growth_below(broker, 48 * MIB), ExitStack() as stack:
        for number in range(CROWD):
            stranger = stack.enter_context(WireClient(broker.address))
            # A fourth says nothing, others a part of a size, of a head, of a large body.
            stranger.send_bytes(
                (b"", b"\x00\x00", b"\x00\x00\x01\x00\x00", b"\x05\xff\xff\xff" * 9)[number % 4]
            )
        wait_for_connections(broker, CROWD)
        with WireClient(broker.address) as client:
            assert client.produce(clicks, sample_batch(b"abc")).error_code == ErrorCode.none
    wait_for_connections(broker, 0)


def test_ten_thousand_pipelined_requests_are_answered_in_order(broker: BrokerProcess) -> None:
    with growth_below(broker, 32 * MIB), WireClient(broker.address) as client:

        def send() -> list[int]:
            return [client.send(ApiKey.API_VERSIONS, 0, {}) for _ in range(10_000)]

        with ThreadPoolExecutor(1) as sender:
            numbers = sender.submit(send)
            for number in range(1, 10_001):
                client.receive(ApiKey.API_VERSIONS, 0, number)
            assert numbers.result() == list(range(1, 10_001))


def test_a_flood_of_metadata_requests_without_a_reader_is_held_back(
    broker: BrokerProcess, clicks: str
) -> None:
    request = framed(head(ApiKey.METADATA, 1) + b"\xff\xff\xff\xff")
    with growth_below(broker, 32 * MIB), ExitStack() as stack:
        for _ in range(20):
            flood = stack.enter_context(socket.create_connection(_address(broker)))
            flood.settimeout(0.2)
            with pytest.raises(TimeoutError):  # the broker stops reading, so we cannot send on
                while True:
                    flood.sendall(request * 10_000)
        with WireClient(broker.address) as client:
            assert client.produce(clicks, sample_batch(b"abc")).error_code == ErrorCode.none


def test_slow_readers_of_large_fetches_cost_no_memory(broker: BrokerProcess, clicks: str) -> None:
    with WireClient(broker.address) as client:
        for _ in range(32):
            client.produce(clicks, sample_batch(b"x" * 1_000_000))
    with growth_below(broker, 16 * MIB), ExitStack() as stack:
        for _ in range(50):
            reader = stack.enter_context(WireClient(broker.address))
            for _ in range(5):
                reader.send_fetch(12, fetch_of(clicks))
        with WireClient(broker.address) as client:
            records = client.fetch(12, fetch_of(clicks)).topics[0].partitions[0].records
            assert len(records) > 30_000_000


def test_clients_that_leave_in_the_middle_of_a_fetch_leave_nothing(
    broker: BrokerProcess, clicks: str
) -> None:
    with WireClient(broker.address) as client:
        for _ in range(8):
            client.produce(clicks, sample_batch(b"x" * 1_000_000))
    wait_for_connections(broker, 0)
    before = open_files(broker)
    for _ in range(50):
        with WireClient(broker.address) as client:
            client.send_fetch(12, fetch_of(clicks))
            client.ended()  # one byte of the answer has come
    wait_for_connections(broker, 0)
    wait_until(lambda: open_files(broker) <= before, what="everything let go of")


def test_a_long_poll_whose_client_leaves_is_forgotten(broker: BrokerProcess, clicks: str) -> None:
    wait_for_connections(broker, 0)
    with ExitStack() as stack:
        for _ in range(100):
            client = stack.enter_context(WireClient(broker.address))
            client.send_fetch(12, fetch_of(clicks, max_wait_ms=_FETCH_WAIT_MS))
        wait_for_connections(broker, 100)
    wait_for_connections(broker, 0)


def fetch_of(topic: str, offset: int = 0, **changes: int) -> FetchRequest:
    fields = {"max_wait_ms": 0, "min_bytes": 1, "max_bytes": 50 * MIB, "isolation_level": 0}
    partition = FetchPartition(0, -1, offset, -1, -1, 50 * MIB)
    return FetchRequest(**fields | changes, topics=[FetchTopic(topic, None, [partition])])


def open_files(broker: BrokerProcess) -> int:
    return len(list(Path(f"/proc/{broker.pid}/fd").iterdir()))


def _address(broker: BrokerProcess) -> tuple[str, int]:
    host, _, port = broker.address.rpartition(":")
    return host, int(port)


def test_requests_that_never_end_hold_only_so_much_together(own_broker: BrokerProcess) -> None:
    own_broker.settings |= {"queued.max.request.bytes": str(20 << 20)}
    own_broker.start()
    host, port = own_broker.address.split(":")
    before = own_broker.usage().rss_bytes
    stalled = [socket.create_connection((host, int(port))) for _ in range(10)]
    try:
        for peer in stalled:
            peer.sendall(struct.pack(">i", 90 << 20))
            with suppress(OSError):
                peer.sendall(bytes(8 << 20))

        def given_up() -> bool:
            return "queued.max.request.bytes" in own_broker.log

        wait_until(given_up, what="giving the oldest up")
        with WireClient(own_broker.address) as client:
            assert client.ask(ApiKey.METADATA, 12, {"topics": []}).brokers
        assert own_broker.usage().rss_bytes - before < 80 << 20
    finally:
        for peer in stalled:
            peer.close()
