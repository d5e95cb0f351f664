"""Any bytes as messages of pgoutput."""

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headrace.ingest.cdc.postgres.pgoutput import decode
from headrace.ingest.error import ProtocolError


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.binary(max_size=60))
def test_bytes_that_are_no_message_are_an_error(data: bytes) -> None:
    try:
        decode(data)
    except ProtocolError:
        return
    assert data[:1] in b"BCRIUDTYOM"
