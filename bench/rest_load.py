"""Produces by HTTP as fast as a proxy answers: threads with a socket each, and ready bytes."""

import json
import socket
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from urllib.parse import urlsplit

VALUE = "x" * 1022
"""1 KiB with its quotation marks."""


@dataclass(frozen=True, slots=True)
class Load:
    """What was done: records per second, and how long each request took."""

    records_per_second: float
    times_ms: list[float]


def produce(
    url: str, topic: str, *, connections: int, records_per_request: int, seconds: float
) -> Load:
    """Produce records of 1 KiB for some seconds."""
    host = urlsplit(url).netloc
    body = json.dumps({"records": [{"value": VALUE}] * records_per_request}).encode()
    head = (
        f"POST /topics/{topic} HTTP/1.1\r\nHost: {host}\r\n"
        "Content-Type: application/vnd.kafka.json.v2+json\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    )
    request = head.encode() + body
    began = time.perf_counter()
    with ThreadPoolExecutor(connections) as threads:
        taken = list(
            threads.map(
                lambda _: _repeat(host, request, began + seconds, records_per_request),
                range(connections),
            )
        )
    passed = time.perf_counter() - began
    times = [each for one in taken for each in one]
    return Load(len(times) * records_per_request / passed, times)


def _repeat(host: str, request: bytes, until: float, records: int) -> list[float]:
    """Send one request after the other; return how long each took, in ms."""
    name, _, port = host.rpartition(":")
    taken = []
    with socket.create_connection((name, int(port)), timeout=60) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        while (began := time.perf_counter()) < until:
            connection.sendall(request)
            body = _response(connection)
            taken.append((time.perf_counter() - began) * 1000)
            if body.count(b'"offset":') != records or b'"offset":null' in body:
                raise AssertionError(f"not all was written: {body[:300]!r}")
    return taken


def _response(connection: socket.socket) -> bytes:
    """Read one response; return its body."""
    data = connection.recv(262144)
    while b"\r\n\r\n" not in data:
        data += connection.recv(262144)
    head, _, body = data.partition(b"\r\n\r\n")
    if not head.startswith(b"HTTP/1.1 200"):
        raise AssertionError(f"the proxy answered {head[:300]!r}")
    size = int(head.lower().partition(b"content-length:")[2].partition(b"\r\n")[0])
    while len(body) < size:
        body += connection.recv(262144)
    return body
