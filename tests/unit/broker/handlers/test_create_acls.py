"""Entries that cannot be kept are refused one by one."""

from kio.schema.create_acls.v3.request import AclCreation
from kio.static.primitive import i8

from headrace.broker.handlers.create_acls import _read
from headrace.cluster.acl import Acl
from headrace.wire.error_code import ErrorCode

TOPIC, LITERAL, READ, ALLOW = i8(2), i8(3), i8(3), i8(3)


def creation(name: str) -> AclCreation:
    return AclCreation(
        resource_type=TOPIC,
        resource_name=name,
        resource_pattern_type=LITERAL,
        principal="User:anna",
        host="*",
        operation=READ,
        permission_type=ALLOW,
    )


def test_an_entry_with_too_long_names_is_refused() -> None:
    refused = _read(creation("x" * 5_000))

    assert isinstance(refused, dict)
    assert refused["error_code"] == ErrorCode.invalid_request
    assert "at most 4096" in refused["error_message"]


def test_another_is_taken() -> None:
    assert isinstance(_read(creation("orders")), Acl)
