"""The version table agrees with the message definitions."""

import pytest
from kio.index import load_request_schema, load_response_schema

from headrace.wire.api import APIS, Api, ApiKey, supported

VERSIONS = [
    pytest.param(api, version, id=f"{api.name}-v{version}")
    for api in APIS.values()
    for version in range(api.lowest, api.highest + 1)
]


@pytest.mark.parametrize(("api", "version"), VERSIONS)
def test_headers_are_those_of_the_definitions(api: Api, version: int) -> None:
    request = load_request_schema(api.key, version)
    response = load_response_schema(api.key, version)
    assert api.flexible(version) == request.__flexible__
    assert api.request_header_version(version) == request.__header_schema__.__version__
    assert api.response_header_version(version) == response.__header_schema__.__version__


def test_names_are_kafkas() -> None:
    assert APIS[ApiKey.LIST_OFFSETS].name == "ListOffsets"
    assert APIS[ApiKey.ADD_PARTITIONS_TO_TXN].name == "AddPartitionsToTxn"


@pytest.mark.parametrize(
    ("api_key", "version", "answer"),
    [
        (ApiKey.PRODUCE, 2, False),
        (ApiKey.PRODUCE, 3, True),
        (ApiKey.PRODUCE, 13, True),
        (ApiKey.PRODUCE, 14, False),
        (ApiKey.FETCH, -1, False),
        (4, 0, False),
        (-1, 0, False),
    ],
)
def test_supported(api_key: int, version: int, answer: bool) -> None:
    assert supported(api_key, version) is answer


def test_group_and_transaction_minimums_stay_where_librdkafka_needs_them() -> None:
    oldest = {
        ApiKey.FIND_COORDINATOR: 2,
        ApiKey.JOIN_GROUP: 5,
        ApiKey.HEARTBEAT: 3,
        ApiKey.LEAVE_GROUP: 1,
        ApiKey.SYNC_GROUP: 3,
        ApiKey.ADD_PARTITIONS_TO_TXN: 0,
        ApiKey.ADD_OFFSETS_TO_TXN: 0,
        ApiKey.END_TXN: 1,
        ApiKey.TXN_OFFSET_COMMIT: 3,
    }
    assert all(supported(key, version) for key, version in oldest.items())
