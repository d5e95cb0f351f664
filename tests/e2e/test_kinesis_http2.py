"""HTTP/2 on the gateway's own port: curl speaks it, in plain text and in TLS, and signs."""

import json
import subprocess
from pathlib import Path

import pytest

from testkit.peer.certificate import Certificate
from testkit.peer.peer import PeerMissing, find_program, require_peer
from testkit.process.broker_process import BrokerProcess
from testkit.process.kinesis_client import create_stream, kinesis_client, read_stream
from testkit.process.kinesis_process import KinesisProcess

pytestmark = pytest.mark.interop

TARGET = "X-Amz-Target: Kinesis_20131202.{}"
JSON = "Content-Type: application/x-amz-json-1.1"


@pytest.fixture(scope="module")
def curl() -> Path:
    try:
        return find_program("curl", package="curl")
    except PeerMissing as missing:
        require_peer(str(missing))


def post(curl: Path, url: str, operation: str, body: Path, *options: str) -> tuple[str, str]:
    """Return the version of HTTP and the body of a response."""
    command = [str(curl), "-sS", "--max-time", "60", "-w", "\n%{http_version}", *options]
    command += ["-H", TARGET.format(operation), "-H", JSON, "--data-binary", f"@{body}", url]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    answer, _, version = done.stdout.rpartition("\n")
    return version, answer


def test_records_go_in_and_out_over_http2(
    curl: Path, broker: BrokerProcess, topic: str, tmp_path: Path
) -> None:
    with KinesisProcess(tmp_path / "kinesis", broker.address) as gateway:
        client = kinesis_client(gateway.url)
        create_stream(client, topic)
        body = tmp_path / "put.json"
        records = [{"Data": "eHh4" * 80_000, "PartitionKey": f"k{at}"} for at in range(3)]
        body.write_text(json.dumps({"StreamName": topic, "Records": records}))

        version, answer = post(curl, gateway.url, "PutRecords", body, "--http2-prior-knowledge")

        assert (version, json.loads(answer)["FailedRecordCount"]) == ("2", 0)
        assert [each["Data"] for each in read_stream(client, topic)] == [b"xxx" * 80_000] * 3
        start = {"ShardId": "shardId-000000000000", "ShardIteratorType": "TRIM_HORIZON"}
        found = client.get_shard_iterator(StreamName=topic, **start)["ShardIterator"]
        body.write_text(json.dumps({"ShardIterator": found}))
        version, answer = post(curl, gateway.url, "GetRecords", body, "--http2-prior-knowledge")
        assert version == "2"
        assert [len(each["Data"]) for each in json.loads(answer)["Records"]] == [320_000] * 3


def test_tls_offers_http2_and_a_signature_holds_there(
    curl: Path, broker: BrokerProcess, tmp_path: Path
) -> None:
    try:
        made = Certificate.make(tmp_path)
    except PeerMissing as missing:
        require_peer(str(missing))
    keys = tmp_path / "keys.txt"
    keys.write_text("AKIDCLICKS a-secret-of-many-letters\n")
    keys.chmod(0o600)
    body = tmp_path / "list.json"
    body.write_text("{}")
    options = ("--tls-certificate", str(made.certificate), "--tls-key", str(made.key))
    trusted = ("--cacert", str(made.certificate), "--aws-sigv4", "aws:amz:us-east-1:kinesis")
    user = ("--user", "AKIDCLICKS:a-secret-of-many-letters")
    with KinesisProcess(
        tmp_path / "kinesis", broker.address, *options, "--keys", str(keys)
    ) as gateway:
        for version, option in (("2", "--http2"), ("1.1", "--http1.1")):
            found, answer = post(curl, gateway.url, "ListStreams", body, option, *trusted, *user)
            assert (found, "StreamNames" in answer) == (version, True), answer
        _, answer = post(
            curl, gateway.url, "ListStreams", body, "--http2", *trusted, "--user", "AKIDCLICKS:no"
        )
        assert "InvalidSignatureException" in answer
