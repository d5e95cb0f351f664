"""The Kinesis gateway's protocol: bodies, errors, keys and TLS, on a real broker."""

import http.client
import itertools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from botocore.exceptions import ClientError, SSLError

from headrace.gateway.kinesis.protocol.cbor_body import read_cbor, write_cbor
from headrace.gateway.kinesis.request_body import MOST_BODY_BYTES
from headrace.gateway.kinesis.server import KinesisServer
from headrace.model.error import ConfigError
from headrace.testing.readiness import wait_until
from testkit.peer.certificate import Certificate
from testkit.peer.peer import PeerMissing, require_peer
from testkit.process.broker_process import BrokerProcess
from testkit.process.kinesis_client import (
    code_of,
    create_stream,
    kinesis_client,
    read_shard,
)
from testkit.process.kinesis_gateway import kinesis_gateway
from testkit.process.kinesis_process import KinesisProcess

FIRST = "shardId-000000000000"
_numbers = itertools.count()


@pytest.fixture(scope="module")
def gateway(broker: BrokerProcess) -> Iterator[KinesisServer]:
    with kinesis_gateway(broker.address, limits=False) as server:
        yield server


@pytest.fixture
def client(gateway: KinesisServer) -> Any:
    return kinesis_client(gateway.url)


@pytest.fixture
def name() -> str:
    return f"protocol-{next(_numbers)}"


@pytest.fixture
def stream(client: Any, name: str) -> str:
    create_stream(client, name)
    return name


def post(
    url: str, body: bytes, target: str = "ListStreams", **headers: str
) -> tuple[int, dict[str, str], bytes]:
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=90)
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    connection.request(
        "POST",
        "/",
        body,
        {
            "X-Amz-Target": f"Kinesis_20131202.{target}",
            "Content-Type": "application/x-amz-json-1.1",
            **named,
        },
    )
    answer = connection.getresponse()
    found = answer.status, {k.lower(): v for k, v in answer.getheaders()}, answer.read()
    connection.close()
    return found


def test_cbor_is_spoken_by_content_type(gateway: KinesisServer, stream: str) -> None:
    code, headers, body = post(
        gateway.url,
        write_cbor({"StreamName": stream, "Data": b"\0\1", "PartitionKey": "k"}),
        "PutRecord",
        Content_Type="application/x-amz-cbor-1.1",
    )
    refused = post(
        gateway.url, b"\x9b" + b"\x7f" * 8, "PutRecord", Content_Type="application/x-amz-cbor-1.1"
    )

    assert (code, headers["content-type"]) == (200, "application/x-amz-cbor-1.1")
    assert read_cbor(body)["ShardId"] == FIRST
    assert refused[0] == 400 and read_cbor(refused[2])["__type"] == "SerializationException"


@pytest.mark.parametrize(
    ("target", "body", "kind"),
    [
        ("NoSuchOperation", b"{}", "UnknownOperationException"),
        ("ListStreams", b"{", "SerializationException"),
        ("ListStreams", b"[]", "SerializationException"),
        ("ListStreams", b'{"Limit": "x"}', "SerializationException"),
        ("ListStreams", b'{"Limit": 0}', "ValidationException"),
        ("PutRecord", b'{"Data": "%%%", "StreamName": "x"}', "SerializationException"),
    ],
)
def test_a_bad_request_gets_the_services_error(
    gateway: KinesisServer, target: str, body: bytes, kind: str
) -> None:
    code, headers, answer = post(gateway.url, body, target)

    assert (code, json.loads(answer)["__type"]) == (400, kind)
    assert headers["x-amzn-errortype"] == kind


def test_a_body_above_the_limit_is_refused_before_it_is_sent(gateway: KinesisServer) -> None:
    connection = http.client.HTTPConnection(urlsplit(gateway.url).netloc, timeout=90)
    connection.putrequest("POST", "/")
    connection.putheader("Content-Length", str(MOST_BODY_BYTES + 1))
    connection.endheaders()
    answer = connection.getresponse()

    assert answer.status == 413
    assert json.loads(answer.read())["__type"] == "RequestEntityTooLargeException"
    connection.close()


def test_a_web_page_may_not_use_a_gateway_without_keys(gateway: KinesisServer) -> None:
    foreign = post(gateway.url, b"{}", Origin="http://evil.example")
    rebound = post(gateway.url, b"{}", Host="evil.example")

    assert (foreign[0], rebound[0]) == (403, 403)


def test_keys(broker: BrokerProcess, tmp_path: Path) -> None:
    file = tmp_path / "keys.txt"
    file.touch(mode=0o600)
    file.write_text("AKIDONE secret-of-one\n")
    keys = {"AKIDONE": "secret-of-one"}
    with kinesis_gateway(broker.address, keys=keys, key_file=file) as server:
        allowed = kinesis_client(server.url, key="AKIDONE", secret="secret-of-one")
        assert "StreamNames" in allowed.list_streams()
        for key, secret, code in (
            ("AKIDONE", "wrong", "InvalidSignatureException"),
            ("AKIDTWO", "secret-of-one", "UnrecognizedClientException"),
        ):
            with pytest.raises(ClientError) as error:
                kinesis_client(server.url, key=key, secret=secret).list_streams()
            assert code_of(error.value) == code
        assert post(server.url, b"{}")[0] == 403

        def is_refused() -> bool:
            try:
                allowed.list_streams()
            except ClientError:
                return True
            return False

        # In one step: a file that is half written could be read.
        changed = tmp_path / "changed-keys.txt"
        changed.touch(mode=0o600)
        changed.write_text("AKIDTWO secret-of-two\n")
        changed.replace(file)
        wait_until(is_refused, what="the end of a key that was taken away")
        two = kinesis_client(server.url, key="AKIDTWO", secret="secret-of-two")
        assert "StreamNames" in two.list_streams()


def test_tls(broker: BrokerProcess, tmp_path: Path, name: str) -> None:
    try:
        made = Certificate.make(tmp_path)
    except PeerMissing as missing:
        require_peer(str(missing))
    options = ("--tls-certificate", str(made.certificate), "--tls-key", str(made.key))
    with KinesisProcess(tmp_path / "kinesis", broker.address, *options) as process:
        assert process.url.startswith("https://")
        client = kinesis_client(process.url, authority=made.certificate)
        create_stream(client, name)
        client.put_record(StreamName=name, Data=b"x" * 100_000, PartitionKey="k")
        assert [len(each["Data"]) for each in read_shard(client, name, FIRST)] == [100_000]
        with pytest.raises(SSLError):
            kinesis_client(process.url).list_streams()


def test_a_certificate_without_its_key_is_refused(broker: BrokerProcess, tmp_path: Path) -> None:
    (tmp_path / "empty.pem").write_text("")
    for chosen in ({"certificate": tmp_path / "empty.pem"}, {"certificate_key": tmp_path / "a"}):
        with pytest.raises(ConfigError, match="certificate"):
            kinesis_gateway(broker.address, **chosen)
