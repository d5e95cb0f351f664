"""The response to a produce request of API v2."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from headrace.client.error import BrokerError
from headrace.gateway.rest.json_document import read_json, write_json
from headrace.gateway.rest.produce.record import Placed, Record
from headrace.gateway.rest.v2.produce import write_offsets
from headrace.wire.error_code import ErrorCode

_OUTCOME = st.builds(Placed, st.integers(0, 9), st.integers(0, 2**62), st.just(0)) | st.just(
    BrokerError(ErrorCode.not_enough_replicas)
)
_ID = st.none() | st.integers(0, 2**31)


@given(st.lists(_OUTCOME, max_size=4), _ID, _ID)
def test_it_is_what_json_makes_of_its_document(
    outcomes: list[Any], key_id: int | None, value_id: int | None
) -> None:
    text = write_offsets([Record(None, b"")] * len(outcomes), outcomes, key_id, value_id)
    document = read_json(text)

    assert write_json(document) == text
    assert (document["key_schema_id"], document["value_schema_id"]) == (key_id, value_id)
    assert [(each["partition"], each["offset"]) for each in document["offsets"]] == [
        (each.partition, each.offset) if isinstance(each, Placed) else (None, None)
        for each in outcomes
    ]
