"""A request of any served version in the shape of the newest."""

from dataclasses import fields, is_dataclass

import pytest
from kio.index import load_request_schema

from headrace.wire.api import APIS, ApiKey
from headrace.wire.message import read_request_body, write_request_body
from headrace.wire.upgrade import upgrade

REQUESTS = [
    pytest.param(key, version, id=f"{api.name}-v{version}")
    for key, api in APIS.items()
    for version in range(api.lowest, api.highest + 1)
]


@pytest.mark.parametrize(("api_key", "version"), REQUESTS)
def test_every_version_can_be_read_in_the_shape_of_the_newest(api_key: int, version: int) -> None:
    packed = bytearray()
    write_request_body(api_key, version, {}, packed)
    message = read_request_body(api_key, version, bytes(packed), 0, 1000)
    newest = load_request_schema(api_key, APIS[api_key].highest)

    upgraded = upgrade(message, newest)

    assert type(upgraded) is newest
    for field in fields(newest):
        if hasattr(message, field.name) and not is_dataclass(getattr(message, field.name)):
            ours, theirs = getattr(upgraded, field.name), getattr(message, field.name)
            assert ours == theirs or theirs is None


def test_values_are_carried_and_what_was_missing_has_its_default() -> None:
    packed = bytearray()
    write_request_body(ApiKey.HEARTBEAT, 0, {"group_id": "g", "member_id": "m"}, packed)
    message = read_request_body(ApiKey.HEARTBEAT, 0, bytes(packed), 0, 1000)

    upgraded = upgrade(message, load_request_schema(ApiKey.HEARTBEAT, 4))

    assert (upgraded.group_id, upgraded.member_id) == ("g", "m")
    assert upgraded.group_instance_id is None
