"""The memory of a REST proxy, a process of its own, with many instances and clients that read
nothing."""

import http.client
import json
import socket
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from confluent_kafka import Producer

from testkit.process.broker_process import BrokerProcess
from testkit.process.rest_process import RestProcess

MIB = 1 << 20
INSTANCES = 60
STREAMS = 24
RECORDS = 2000
VALUE = b"x" * 4096
TOPIC = "rest-memory"


@pytest.fixture
def proxy(broker: BrokerProcess, tmp_path: Path) -> Iterator[RestProcess]:
    """A proxy, and a topic whose few compressed bytes are 8 MiB of records."""
    config = {
        "bootstrap.servers": broker.address,
        "compression.type": "gzip",
        "linger.ms": 1000,
        "batch.size": 16 * MIB,
        "message.max.bytes": 16 * MIB,
    }
    producer = Producer(config)
    for _ in range(RECORDS):
        producer.produce(TOPIC, VALUE, partition=0)
    assert producer.flush(60) == 0
    with RestProcess(tmp_path, broker.address) as process:
        yield process


def call(connection: http.client.HTTPConnection, method: str, path: str, body: object) -> bytes:
    headers = {"Content-Type": "application/vnd.kafka.v2+json"}
    connection.request(method, path, json.dumps(body) if method == "POST" else None, headers)
    response = connection.getresponse()
    text = response.read()
    assert response.status < 300, text
    return text


def test_instances_hold_no_records(proxy: RestProcess) -> None:
    connection = http.client.HTTPConnection(urlsplit(proxy.url).netloc, timeout=60)
    partitions = {"partitions": [{"topic": TOPIC, "partition": 0}]}
    sizes = []
    for number in range(INSTANCES):
        config = {
            "name": f"i-{number}",
            "auto.offset.reset": "earliest",
            "auto.commit.enable": "false",
        }
        call(connection, "POST", "/consumers/memory", config)
        path = f"/consumers/memory/instances/i-{number}"
        call(connection, "POST", f"{path}/assignments", partitions)
        text = call(connection, "GET", f"{path}/records?timeout=30000", None)
        assert len(text) > MIB
        sizes.append(proxy.usage().rss_bytes)
    connection.close()

    # The first ones load code and fill pools of memory, which vary by some 20 MiB. An instance that
    # held what it has fetched would hold 8 MiB.
    half = INSTANCES // 2
    assert sizes[-1] - sizes[half] < (INSTANCES - half) * 2 * MIB


def test_streams_that_are_not_read_hold_a_piece_each(proxy: RestProcess) -> None:
    host, _, port = urlsplit(proxy.url).netloc.rpartition(":")
    request = f"GET /topics/{TOPIC}/stream?from=earliest HTTP/1.1\r\nHost: {host}\r\n\r\n".encode()
    with ExitStack() as stack:
        sizes = []
        for _ in range(STREAMS):
            connection = stack.enter_context(socket.socket())
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            connection.settimeout(60)
            connection.connect((host, int(port)))
            connection.sendall(request)
            seen = b""
            while b"data: " not in seen:  # its first piece is there
                seen += connection.recv(256)
            sizes.append(proxy.usage().rss_bytes)

        # The first ones fill pools of memory, which vary by 50 MiB. The records of each stream are
        # 8 MiB, which would be held twice: as events, and in the buffer of the connection.
        half = STREAMS // 2
        assert sizes[-1] - sizes[half] < (STREAMS - half) * 8 * MIB
