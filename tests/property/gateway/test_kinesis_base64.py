"""Base64 of many values is what `binascii` makes of each of them."""

import base64
import binascii

from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.gateway.kinesis.protocol import base64_column
from headrace.gateway.kinesis.protocol.base64_column import decoded, encoded

VALUES = st.lists(st.binary(max_size=40), max_size=8)
TEXTS = st.lists(
    st.text("ABz09+/=-_ \n\u00e9", max_size=12) | st.binary(max_size=9).map(base64.b64encode),
    max_size=4,
)


@settings(deadline=None)
@given(VALUES)
def test_values_are_encoded_and_come_back(values: list[bytes]) -> None:
    texts = list(encoded(values))

    assert texts == [base64.b64encode(each).decode() for each in values]
    assert decoded(texts) == values


@settings(max_examples=500, deadline=None)
@given(TEXTS)
def test_what_is_decoded_is_what_binascii_decodes(given_texts: list[str | bytes]) -> None:
    texts = [each if isinstance(each, str) else each.decode() for each in given_texts]
    found = decoded(texts)

    if found is not None:
        assert found == [binascii.a2b_base64(each, strict_mode=True) for each in texts]


def test_values_larger_than_a_step_are_converted_alone() -> None:
    values = [b"a", bytes(base64_column._STEP_BYTES + 1), b"", bytes(range(256)) * 4096, b"z"]

    assert decoded(list(encoded(values))) == values
