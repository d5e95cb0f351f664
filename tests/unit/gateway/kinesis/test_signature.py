"""Signatures that botocore makes are verified; anything else is refused."""

import time
from collections.abc import Callable
from dataclasses import replace

import pytest
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from headrace.gateway.kinesis.access.signature import SignedRequest, verify
from headrace.gateway.kinesis.error import ServiceError

KEYS = {"AKIDEXAMPLE": "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"}
BODY = b'{"StreamName": "clicks"}'


def signed(key: str = "AKIDEXAMPLE", secret: str | None = None) -> SignedRequest:
    request = AWSRequest(
        "POST",
        "http://127.0.0.1:4567/",
        headers={
            "Host": "127.0.0.1:4567",
            "X-Amz-Target": "Kinesis_20131202.DescribeStream",
            "Content-Type": "application/x-amz-json-1.1",
        },
        data=BODY,
    )
    SigV4Auth(Credentials(key, secret or KEYS[key]), "kinesis", "us-east-1").add_auth(request)
    headers = {name.lower(): value for name, value in request.headers.items()}
    return SignedRequest("POST", "/", "", headers, BODY)


def refused(request: SignedRequest, now: float | None = None) -> str:
    with pytest.raises(ServiceError) as caught:
        verify(request, KEYS, time.time() if now is None else now)
    return caught.value.code


def with_header(request: SignedRequest, name: str, value: str) -> SignedRequest:
    return replace(request, headers={**request.headers, name: value})


def test_botocores_signature_is_accepted() -> None:
    assert verify(signed(), KEYS, time.time()) == "AKIDEXAMPLE"


@pytest.mark.parametrize(
    "change",
    [
        lambda request: replace(request, body=BODY + b" "),
        lambda request: replace(request, path="/other"),
        lambda request: replace(request, query="a=b"),
        lambda request: replace(request, method="GET"),
        lambda request: with_header(request, "host", "elsewhere"),
        lambda request: with_header(request, "x-amz-target", "Kinesis_20131202.DeleteStream"),
    ],
)
def test_a_changed_request_is_refused(change: Callable[[SignedRequest], SignedRequest]) -> None:
    assert refused(change(signed())) == "InvalidSignatureException"


def test_a_wrong_secret_and_an_unknown_key_are_refused() -> None:
    assert refused(signed(secret="x" * 40)) == "InvalidSignatureException"
    assert refused(signed("AKIDOTHER", "x" * 40)) == "UnrecognizedClientException"


@pytest.mark.parametrize("minutes", [-6, 6])
def test_a_signature_of_another_time_is_refused(minutes: int) -> None:
    assert refused(signed(), time.time() + 60 * minutes) == "InvalidSignatureException"


def test_a_target_that_is_not_signed_is_refused() -> None:
    request = signed()
    text = request.headers["authorization"].replace(";x-amz-target", "")

    assert refused(with_header(request, "authorization", text)) == "InvalidSignatureException"


@pytest.mark.parametrize(
    "text",
    [
        "Basic YTpi",
        "AWS4-HMAC-SHA256 Credential=a/b, SignedHeaders=host, Signature=0",
        "AWS4-HMAC-SHA256 Credential=a/20260101/r/kinesis/aws4_request",
        "AWS4-HMAC-SHA256",
    ],
)
def test_a_header_that_is_not_whole_is_refused(text: str) -> None:
    assert refused(with_header(signed(), "authorization", text)) == "IncompleteSignatureException"


def test_a_request_without_signature_is_refused() -> None:
    request = replace(signed(), headers={})

    assert refused(request) == "MissingAuthenticationTokenException"
