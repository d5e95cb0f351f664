"""Whom a resource policy lets do what."""

import json
import time
from typing import Any

import pytest

from headrace.gateway.kinesis.access.policy import Principal, is_allowed, read_policy
from headrace.gateway.kinesis.error import ServiceError

OWN, OTHER = "000000000000", "111122223333"
STREAM = f"arn:aws:kinesis:us-east-1:{OWN}:stream/clicks"
ADA = Principal(f"arn:aws:iam::{OWN}:user/ada")
BOB = Principal(f"arn:aws:iam::{OTHER}:user/bob")


def policy(*statements: dict[str, Any], **more: Any) -> str:
    return json.dumps({"Version": "2012-10-17", "Statement": list(statements), **more})


def statement(effect: str = "Allow", **members: Any) -> dict[str, Any]:
    return {
        "Effect": effect,
        "Principal": {"AWS": OTHER},
        "Action": "kinesis:GetRecords",
        "Resource": STREAM,
        **members,
    }


def may(principal: Principal, action: str, *texts: str) -> bool:
    return is_allowed(principal, OWN, f"kinesis:{action}", [(STREAM, each) for each in texts])


def test_another_account_may_do_what_is_allowed_and_no_more() -> None:
    text = policy(statement(Action=["kinesis:Get*", "kinesis:DescribeStream"]))

    assert not may(BOB, "GetRecords", "")
    assert may(BOB, "GetRecords", text)
    assert may(BOB, "DescribeStream", text)
    assert not may(BOB, "PutRecord", text)
    assert not is_allowed(BOB, OWN, "kinesis:CreateStream", [])
    assert not is_allowed(BOB, OWN, "kinesis:GetRecords", [(f"{STREAM}-2", text)])


def test_the_own_account_may_do_all_that_is_not_denied() -> None:
    text = policy(statement("Deny", Principal={"AWS": ADA.arn}, Action="kinesis:put*"))

    assert may(ADA, "PutRecord", "")
    assert not may(ADA, "PutRecord", text)
    assert may(ADA, "GetRecords", text)
    assert may(Principal(f"arn:aws:iam::{OWN}:user/eve"), "PutRecord", text)


def test_a_denial_wins_wherever_it_stands() -> None:
    allow = policy(statement(Action="kinesis:*", Resource="*"))
    deny = policy(statement("Deny", Principal="*"))

    assert may(BOB, "GetRecords", allow)
    assert not may(BOB, "GetRecords", allow, deny)
    assert not may(BOB, "GetRecords", deny, allow)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("*", True),
        (OTHER, True),
        (f"arn:aws:iam::{OTHER}:root", True),
        (BOB.arn, True),
        (f"arn:aws:iam::{OTHER}:user/eve", False),
        ("999999999999", False),
    ],
)
def test_principals(name: str, expected: bool) -> None:
    assert may(BOB, "GetRecords", policy(statement(Principal={"AWS": [name]}))) is expected


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("{", "no JSON"),
        ("[]", "no JSON object"),
        ("{}", "no JSON object"),
        (policy(), "no Statement"),
        (policy(statement(), Version="2020-01-01"), "Version"),
        (policy(statement("Perhaps")), "Effect"),
        (policy(statement(Condition={"Bool": {"aws:SecureTransport": "true"}})), "Condition"),
        (policy({**statement(), "NotPrincipal": "*"}), "NotPrincipal"),
        (policy(statement(Principal={"Service": "lambda.amazonaws.com"})), "Principal"),
        (policy(statement(Principal={"AWS": "bob"})), "Principal bob"),
        (policy(statement(Action="s3:GetObject")), "Action s3"),
        (policy(statement(Action=[])), "Action"),
        (policy(statement(Resource="clicks")), "Resource clicks"),
        (policy(statement(Sid="x" * 30_000)), "more than"),
        ("[" * 20_000, "no JSON"),
    ],
)
def test_what_is_not_understood_is_refused(text: str, reason: str) -> None:
    with pytest.raises(ServiceError, match=reason) as error:
        read_policy(text)
    assert error.value.code == "InvalidArgumentException"


def test_a_pattern_takes_no_exponential_time() -> None:
    text = policy(statement(Resource="arn:" + "*a" * 500 + "b"))
    began = time.thread_time()

    assert not is_allowed(BOB, OWN, "kinesis:GetRecords", [("arn:" + "a" * 2000, text)])
    assert time.thread_time() - began < 5
