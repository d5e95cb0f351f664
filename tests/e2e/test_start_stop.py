"""Starting and stopping: clear refusals, clean ends, several addresses, a disk that is full."""

import ctypes
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from headrace.testing.readiness import wait_until
from headrace.wire.api import ApiKey
from headrace.wire.error_code import ErrorCode
from headrace.wire.fetch_request import FetchPartition, FetchRequest, FetchTopic
from testkit.peer.peer import require_peer
from testkit.process.broker_process import BrokerProcess
from testkit.process.wire_client import WireClient
from testkit.sample.batch import sample_batch

_PR_CAPBSET_DROP, _CAP_DAC_OVERRIDE, _CAP_DAC_READ_SEARCH = 24, 1, 2
_NOT_PERMITTED = 77
LONG_POLL_SECONDS = 60


def up(data: Path, *options: str, **more: Any) -> subprocess.CompletedProcess[str]:
    """`headrace up` that is expected to end by itself."""
    command = [sys.executable, "-m", "headrace.cli.main", "up", "--data", str(data)]
    listen = () if "--listen" in options else ("--listen", "127.0.0.1:0")
    return subprocess.run(
        [*command, *listen, *options], capture_output=True, text=True, timeout=120, **more
    )


def refusal(ended: subprocess.CompletedProcess[str]) -> str:
    """The one sentence a refused start says."""
    assert "Traceback" not in ended.stderr
    (sentence,) = [line for line in ended.stderr.splitlines() if line.startswith("headrace:")]
    return sentence


# -- refusing to start


def test_an_unknown_key_is_refused_with_the_nearest_one(tmp_path: Path) -> None:
    ended = up(tmp_path, "-X", "log.retention.mss=3")
    assert ended.returncode == 2
    assert "'log.retention.mss'" in refusal(ended)
    assert "did you mean log.retention.ms?" in refusal(ended)


def test_a_bad_value_is_refused(tmp_path: Path) -> None:
    ended = up(tmp_path, "-X", "num.partitions=many")
    assert ended.returncode == 2
    assert "num.partitions" in refusal(ended)


def test_a_port_in_use_is_refused_before_the_data_is_touched(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        ended = up(tmp_path / "data", "--listen", address)
    assert ended.returncode == 2
    assert address in refusal(ended)
    assert "another program listens there" in refusal(ended)


def test_an_admin_port_in_use_is_refused(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        ended = up(tmp_path, "-X", f"headrace.admin.listener={address}")
    assert ended.returncode == 2
    assert address in refusal(ended)


def test_data_that_another_broker_uses_is_refused(own_broker: BrokerProcess) -> None:
    own_broker.start()
    ended = up(own_broker.data)
    assert ended.returncode == 1
    assert "in use by another process" in refusal(ended)
    with WireClient(own_broker.address) as client:
        assert client.ask(ApiKey.METADATA, 12, {"topics": []}).brokers


def test_a_data_path_that_is_a_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "data"
    path.write_text("not a directory")
    ended = up(path)
    assert ended.returncode == 1
    assert str(path) in refusal(ended)
    assert path.read_text() == "not a directory"


def _obey_permissions() -> None:
    """Root may write anywhere; without these two capabilities it may not."""
    libc = ctypes.CDLL(None, use_errno=True)
    for capability in (_CAP_DAC_OVERRIDE, _CAP_DAC_READ_SEARCH):
        if libc.prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0) != 0:
            os._exit(_NOT_PERMITTED)


def test_a_data_directory_without_permission_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "data"
    path.mkdir(mode=0o500)
    ended = up(path, preexec_fn=_obey_permissions if os.getuid() == 0 else None)
    if ended.returncode == _NOT_PERMITTED:
        require_peer("root cannot give up its right to write anywhere here")
    assert ended.returncode == 1
    assert str(path) in refusal(ended)
    assert "Permission denied" in refusal(ended)


# -- stopping


class Load:
    """Clients that produce and long-poll until the broker goes away."""

    def __init__(self, address: str, topic: str) -> None:
        self.acknowledged = 0
        self._address = address
        self._topic = topic
        self._threads = [threading.Thread(target=self._produce) for _ in range(2)]
        self._threads.append(threading.Thread(target=self._poll))
        for thread in self._threads:
            thread.start()

    def _produce(self) -> None:
        try:
            with WireClient(self._address) as client:
                while client.produce(self._topic, sample_batch(b"x" * 100)).error_code == 0:
                    self.acknowledged += 1
        except OSError:
            pass

    def _poll(self) -> None:
        partition = FetchPartition(0, -1, 0, -1, -1, 1 << 20)
        waiting = FetchRequest(
            LONG_POLL_SECONDS * 1000, 2**30, 2**30, 0, [FetchTopic(self._topic, None, [partition])]
        )
        try:
            with WireClient(self._address) as client:
                client.fetch(12, waiting)
        except OSError:
            pass

    def join(self) -> None:
        for thread in self._threads:
            thread.join(60)


def created(address: str, topic: str) -> str:
    with WireClient(address) as client:
        wanted = {"name": topic, "num_partitions": 1, "replication_factor": 1}
        answer = client.ask(ApiKey.CREATE_TOPICS, 7, {"topics": [wanted]})
        assert answer.topics[0].error_code == ErrorCode.none
    return topic


def end_offset(address: str, topic: str) -> int:
    consumer = Consumer({"bootstrap.servers": address, "group.id": "unused"})
    try:
        _, end = consumer.get_watermark_offsets(TopicPartition(topic, 0), 60)
        return int(end)
    finally:
        consumer.close()


def test_a_busy_broker_stops_cleanly_and_starts_clean(own_broker: BrokerProcess) -> None:
    own_broker.start()
    topic = created(own_broker.address, "clicks")
    load = Load(own_broker.address, topic)
    wait_until(lambda: load.acknowledged > 200, what="some load")

    started = time.monotonic()
    assert own_broker.stop() == 0
    assert time.monotonic() - started < LONG_POLL_SECONDS / 2  # it was not waited for
    load.join()

    assert (own_broker.data / ".kafka_cleanshutdown").exists()
    own_broker.start()
    assert "clean=True" in own_broker.log
    assert end_offset(own_broker.address, topic) >= load.acknowledged


def test_ctrl_c_stops_cleanly(own_broker: BrokerProcess) -> None:
    own_broker.start()
    assert own_broker.stop(signal.SIGINT) == 0
    assert "Stopped." in own_broker.log


def test_a_second_ctrl_c_does_not_wait_and_harms_nothing(own_broker: BrokerProcess) -> None:
    own_broker.start()
    topic = created(own_broker.address, "clicks")
    load = Load(own_broker.address, topic)
    wait_until(lambda: load.acknowledged > 50, what="some load")
    # The second one may come when the first is nearly done, and no handler is there any more.
    assert own_broker.stop(signal.SIGINT, signal.SIGTERM) in (0, 130, 143, -signal.SIGTERM)
    load.join()
    own_broker.start()
    assert end_offset(own_broker.address, topic) >= load.acknowledged


# -- addresses


def test_every_listener_tells_its_own_address(own_broker: BrokerProcess) -> None:
    own_broker.settings["listeners"] = "PLAINTEXT://127.0.0.1:0,INSIDE://[::1]:0"
    own_broker.settings["listener.security.protocol.map"] = "INSIDE:PLAINTEXT"
    own_broker.start()
    first = own_broker.log.split("listens on ")[1].splitlines()[0]
    ipv4, ipv6 = first.split(", ")
    for address in (ipv4, ipv6.replace("[", "").replace("]", "")):
        with WireClient(address) as client:
            (node,) = client.ask(ApiKey.METADATA, 12, {"topics": []}).brokers
            assert f"{node.host}:{node.port}" == address


def test_a_stock_client_works_over_ipv6(own_broker: BrokerProcess) -> None:
    own_broker.settings["listeners"] = "PLAINTEXT://127.0.0.1:0,INSIDE://[::1]:0"
    own_broker.settings["listener.security.protocol.map"] = "INSIDE:PLAINTEXT"
    own_broker.start()
    first = own_broker.log.split("listens on ")[1].splitlines()[0]
    producer = Producer({"bootstrap.servers": first.split(", ")[1]})
    producer.produce("clicks", b"over IPv6")
    assert producer.flush(60) == 0
    assert end_offset(own_broker.address, "clicks") == 1


def test_clients_are_told_the_advertised_address(own_broker: BrokerProcess) -> None:
    own_broker.settings["advertised.listeners"] = "PLAINTEXT://kafka.example:19092"
    own_broker.start()
    with WireClient(own_broker.address) as client:
        (node,) = client.ask(ApiKey.METADATA, 12, {"topics": []}).brokers
    assert (node.host, node.port) == ("kafka.example", 19092)


def test_health_readiness_and_metrics_are_served(broker: BrokerProcess) -> None:
    for page, content in (("healthz", b"ok\n"), ("readyz", b"ready\n")):
        with urlopen(f"{broker.admin_url}/{page}", timeout=60) as answer:
            assert answer.read() == content
    with urlopen(f"{broker.admin_url}/metrics", timeout=60) as answer:
        content = answer.read()
    assert b"headrace_connections " in content
    assert b'headrace_request_failures_total{api="CreateAcls"} 0.0' in content, "no first failure"
    with pytest.raises(HTTPError, match="404"):
        urlopen(f"{broker.admin_url}/other", timeout=60)


def test_bytes_are_counted(own_broker: BrokerProcess, topic: str) -> None:
    """On a broker without other clients: what those of earlier tests do counts as well."""
    own_broker.start()

    def counted(name: str) -> float:
        with urlopen(f"{own_broker.admin_url}/metrics", timeout=60) as answer:
            lines = answer.read().decode().splitlines()
        return sum(float(line.split()[-1]) for line in lines if line.startswith(f"{name} "))

    created(own_broker.address, topic)
    batch = sample_batch(b"x" * 100_000)
    produced = counted("headrace_produced_bytes_total")
    fetched = counted("headrace_fetched_bytes_total")
    partition = FetchPartition(0, -1, 0, -1, -1, 1 << 20)
    with WireClient(own_broker.address) as client:
        client.produce(topic, batch)
        client.fetch(12, FetchRequest(0, 1, 1 << 20, 0, [FetchTopic(topic, None, [partition])]))
    assert counted("headrace_produced_bytes_total") - produced == len(batch)
    assert counted("headrace_fetched_bytes_total") - fetched == len(batch)


def test_what_went_wrong_is_counted_by_api_and_error(own_broker: BrokerProcess) -> None:
    own_broker.start()

    def counted(api: str) -> float:
        labels = f'{{api="{api}",error="UNKNOWN_TOPIC_OR_PARTITION"}}'
        with urlopen(f"{own_broker.admin_url}/metrics", timeout=60) as answer:
            lines = answer.read().decode().splitlines()
        name = f"headrace_request_errors_total{labels} "
        return sum(float(line.split()[-1]) for line in lines if line.startswith(name))

    before = {api: counted(api) for api in ("Produce", "Fetch", "DeleteTopics")}
    partition = FetchPartition(0, -1, 0, -1, -1, 1 << 20)
    with WireClient(own_broker.address) as client:
        client.produce("missing", sample_batch(b"x"))
        client.fetch(12, FetchRequest(0, 1, 1 << 20, 0, [FetchTopic("missing", None, [partition])]))
        client.ask(ApiKey.DELETE_TOPICS, 5, {"topic_names": ["missing"], "timeout": 1000})
    assert {api: counted(api) - before[api] for api in before} == dict.fromkeys(before, 1.0)


# -- a full disk


@pytest.fixture
def small_disk(own_broker: BrokerProcess) -> Iterator[Path]:
    """The broker's data on a file system of 24 MiB."""
    own_broker.data.mkdir(parents=True)
    mount = ["mount", "-t", "tmpfs", "-o", "size=24m", "tmpfs", str(own_broker.data)]
    try:
        mounted = subprocess.run(mount, capture_output=True, text=True)
    except FileNotFoundError:
        require_peer("there is no mount command to make a small disk with")
    if mounted.returncode != 0:
        require_peer(f"a small disk cannot be mounted here: {mounted.stderr.strip()}")
    try:
        yield own_broker.data
    finally:
        own_broker.kill()
        subprocess.run(["umount", str(own_broker.data)], check=True)


def test_a_full_disk_is_a_clear_error_and_costs_no_record(
    own_broker: BrokerProcess, small_disk: Path
) -> None:
    own_broker.start()
    topic = created(own_broker.address, "clicks")
    batch = sample_batch(b"x" * 500_000)
    acknowledged = 0
    with WireClient(own_broker.address) as client:
        while (result := client.produce(topic, batch)).error_code == ErrorCode.none:
            acknowledged += 1
            assert acknowledged < 100
        assert result.error_code == ErrorCode.kafka_storage_error
        assert "no room" in str(result.error_message)
        assert acknowledged > 20

        remount = ["mount", "-o", "remount,size=64m", str(small_disk)]
        subprocess.run(remount, check=True)
        assert client.produce(topic, batch).base_offset == acknowledged

    own_broker.kill()
    own_broker.start()
    assert end_offset(own_broker.address, topic) == acknowledged + 1


def test_a_start_on_a_full_disk_is_one_clear_sentence(
    own_broker: BrokerProcess, small_disk: Path
) -> None:
    filler = small_disk / "filler"
    with filler.open("wb") as file, pytest.raises(OSError, match="No space"):
        while True:
            file.write(b"x" * 65536)
            file.flush()
    ended = up(small_disk)
    assert ended.returncode == 1
    assert "No space left" in refusal(ended)
    filler.unlink()
    own_broker.start()
    with pytest.raises(KafkaException):
        Consumer({"bootstrap.servers": own_broker.address, "group.id": "x"}).get_watermark_offsets(
            TopicPartition("none", 0), 5
        )
