"""Calling functions: the client and the gateway with a real broker. A few lines of Python stand for
the function on Spark, which has its own test."""

import http.client
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pyarrow as pa
import pytest

from headrace.client.error import ClientError
from headrace.client.read.reader import Reader
from headrace.client.write.writer import Writer
from headrace.flow.drpc.client import DrpcClient
from headrace.flow.drpc.function import FunctionTopology
from headrace.flow.drpc.function_topics import (
    DrpcBusy,
    DrpcError,
    DrpcFailed,
    DrpcTimeout,
    FunctionTopics,
)
from headrace.flow.drpc.gateway import Gateway
from headrace.testing.flow_run import FlowRun
from testkit.process.broker_process import BrokerProcess


def exclaim(request: str, args: str) -> tuple[str, str] | None:
    if args == "bad":
        raise ValueError("a bad word")
    return None if args == "silent" else (request, f"{args}!")


@contextmanager
def serving(address: str, function: str) -> Iterator[None]:
    """Run the function in a thread, as Spark would run it."""
    topology = FunctionTopology(function, brokers=address)
    topology.bolt("exclaim", exclaim, output="request STRING, result STRING").shuffle("requests")
    topology.reply("exclaim")
    run = FlowRun(topology.plan())
    settings = {"bootstrap.servers": address}
    reader = Reader.of_topics(settings, FunctionTopics(function).requests, follow=True)

    def work() -> None:
        with Writer(settings, linger_ms=0) as writer:
            for chunk in reader:
                columns = chunk.columns
                run.feed(columns["value"].to_pylist(), key=columns["key"])
                for record in run.records:
                    table = {name: [record[name]] for name in ("key", "value", "headers")}
                    writer.write(
                        pa.table(table, schema=_SCHEMA),
                        topic=record["topic"],
                    )
                run.records = []
                writer.flush()

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        reader.close()
        thread.join()


_SCHEMA = pa.schema(
    {
        "key": pa.binary(),
        "value": pa.binary(),
        "headers": pa.list_(pa.struct({"key": pa.string(), "value": pa.binary()})),
    }
)


@pytest.fixture
def function(broker: BrokerProcess, topic: str) -> Iterator[str]:
    FunctionTopics(topic).create(broker.address)
    with serving(broker.address, topic):
        yield topic


def test_calls_of_many_threads_each_get_their_own_answer(
    broker: BrokerProcess, function: str
) -> None:
    words = [f"word {number}" for number in range(50)]
    with (
        DrpcClient(function, brokers=broker.address) as client,
        ThreadPoolExecutor(8) as callers,
    ):
        answers = list(callers.map(lambda word: client.execute(word, timeout_seconds=60), words))

    assert answers == [f"{word}!" for word in words]


def test_the_caller_gets_what_a_bolt_raises(broker: BrokerProcess, function: str) -> None:
    with (
        DrpcClient(function, brokers=broker.address) as client,
        pytest.raises(DrpcFailed, match=r"exclaim of .*: ValueError: a bad word"),
    ):
        client.execute("bad", timeout_seconds=60)


def test_a_call_times_out_and_too_many_are_refused(broker: BrokerProcess, function: str) -> None:
    with DrpcClient(function, brokers=broker.address, most_waiting=1) as client:
        waiting = threading.Event()
        with ThreadPoolExecutor(1) as callers:

            def wait() -> None:
                waiting.set()
                client.execute("silent", timeout_seconds=2)

            call = callers.submit(wait)
            waiting.wait(90)
            refused: list[DrpcError] = []
            while not call.done() and not refused:
                try:
                    client.execute("silent", timeout_seconds=0.01)
                except DrpcBusy as error:
                    refused.append(error)
                except DrpcTimeout:
                    continue
            with pytest.raises((DrpcTimeout, DrpcBusy)):
                call.result(60)
        assert refused or call.exception() is not None
        assert client.execute("again", timeout_seconds=60) == "again!"


def test_an_argument_that_no_record_can_hold_is_refused(
    broker: BrokerProcess, function: str
) -> None:
    with (
        DrpcClient(function, brokers=broker.address) as client,
        pytest.raises(DrpcError, match="the argument has 600,000 bytes"),
    ):
        client.execute("x" * 600_000)


def test_a_function_without_topics_cannot_be_called(broker: BrokerProcess, topic: str) -> None:
    with pytest.raises(ClientError):
        DrpcClient(f"{topic}-none", brokers=broker.address)


def test_the_gateway_answers_with_the_status_that_fits(
    broker: BrokerProcess, function: str
) -> None:
    gateway = Gateway("127.0.0.1", 0, brokers=broker.address, timeout_seconds=60)
    gateway.start()
    try:
        answers = {
            name: _ask(gateway.port, *request)
            for name, request in {
                "post": ("POST", f"/drpc/{function}", b"h\xc3\xb6"),
                "get": ("GET", f"/drpc/{function}/a%20b%2Fc"),
                "failed": ("POST", f"/drpc/{function}", b"bad"),
                "late": ("POST", f"/drpc/{function}?timeout=0.2", b"silent"),
                "unknown": ("POST", f"/drpc/{function}-none", b""),
                "odd name": ("POST", "/drpc/a%20b", b""),
                "odd path": ("GET", "/other"),
                "odd timeout": ("POST", f"/drpc/{function}?timeout=soon", b""),
                "not text": ("POST", f"/drpc/{function}", b"\xff"),
            }.items()
        }
        # Only the head: a client that is refused may still be sending the rest.
        answers["too long"] = _ask(
            gateway.port, "POST", f"/drpc/{function}", declared_bytes=600_000
        )
    finally:
        gateway.stop()

    assert answers["post"] == (200, "hö!")
    assert answers["get"] == (200, "a b/c!")
    assert answers["failed"] == (500, f"exclaim of {function}: ValueError: a bad word")
    assert {name: status for name, (status, _) in answers.items() if status != 200} == {
        "failed": 500,
        "late": 504,
        "unknown": 404,
        "odd name": 404,
        "odd path": 404,
        "odd timeout": 400,
        "not text": 400,
        "too long": 413,
    }


def test_connections_beyond_the_limit_are_refused(broker: BrokerProcess) -> None:
    gateway = Gateway("127.0.0.1", 0, brokers=broker.address, most_connections=1)
    gateway.start()
    first = http.client.HTTPConnection("127.0.0.1", gateway.port, timeout=60)
    try:
        first.request("GET", "/other")
        first.getresponse().read()  # and the connection stays open

        assert _ask(gateway.port, "GET", "/other")[0] == 503
    finally:
        first.close()
        gateway.stop()


def _ask(
    port: int, method: str, path: str, body: bytes | None = None, declared_bytes: int | None = None
) -> tuple[int, str]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
    headers = {} if declared_bytes is None else {"Content-Length": str(declared_bytes)}
    try:
        connection.request(method, path, body, headers)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()
