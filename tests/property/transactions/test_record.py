"""Any metadata survives its bytes; any bytes are metadata or damage, never anything else."""

from contextlib import suppress

from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.model.error import CorruptLog
from headrace.model.ids import TopicPartition
from headrace.transactions import record
from headrace.transactions.metadata import TransactionMetadata
from headrace.transactions.state import TransactionState

INT16 = st.integers(-(2**15), 2**15 - 1)
INT32 = st.integers(-(2**31), 2**31 - 1)
INT64 = st.integers(-(2**63), 2**63 - 1)
WRITTEN_STATES = [state for state in TransactionState if state.value <= 5]


@st.composite
def metadata(draw):
    state = draw(st.sampled_from(WRITTEN_STATES))
    partitions = st.frozensets(st.builds(TopicPartition, st.text(max_size=200), INT32), max_size=20)
    return TransactionMetadata(
        transactional_id=draw(st.text(min_size=1, max_size=50)),
        producer_id=draw(INT64),
        producer_epoch=draw(INT16),
        timeout_ms=draw(INT32),
        state=state,
        last_update_ms=draw(INT64),
        start_ms=draw(INT64),
        partitions=frozenset() if state is TransactionState.EMPTY else draw(partitions),
        previous_producer_id=draw(INT64),
        next_producer_id=draw(INT64),
        client_version=draw(INT16),
    )


@settings(deadline=None)
@given(metadata())
def test_what_is_written_is_read(written):
    key, value = record.encode(written)

    assert record.decode(key, value) == (written.transactional_id, written)


@settings(deadline=None)
@given(metadata(), st.data())
def test_damage_is_found_or_harmless(written, data):
    key, value = record.encode(written)
    damaged = bytearray(value)
    position = data.draw(st.integers(0, len(damaged) - 1))
    damaged[position] ^= data.draw(st.integers(1, 255))

    with suppress(CorruptLog):
        record.decode(key, bytes(damaged))


@settings(deadline=None)
@given(st.binary(max_size=60), st.none() | st.binary(max_size=200))
def test_any_bytes_are_read_or_refused(key, value):
    with suppress(CorruptLog):
        record.decode(key, value)
