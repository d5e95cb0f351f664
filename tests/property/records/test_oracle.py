"""Our codec and two foreign ones agree in both directions, on every codec."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.records.batch import iter_batches
from headrace.records.decode import decode
from headrace.records.encode import encode

some = settings(deadline=None, max_examples=40)

# Foreign builders take no negative times, and varlongs of any size.
times = st.integers(0, 2**45)
contents = st.none() | st.binary(max_size=40) | st.binary(min_size=100, max_size=300)
names = st.text(max_size=12)
headers = st.lists(st.tuples(names, st.none() | st.binary(max_size=20)), max_size=3)
rows = st.lists(st.tuples(times, contents, contents, headers), min_size=1, max_size=30)


@some
@given(rows=rows, layout=st.sampled_from(["binary", "view"]))
def test_we_read_what_they_write(oracle_and_codec, columns, make_record, rows, layout):
    oracle, codec = oracle_and_codec
    records = [make_record(*row) for row in rows]

    decoded = decode(oracle.build(records, codec), layout=layout)

    decoded.columns.validate(full=True)
    assert columns.rows(decoded.columns) == list(enumerate(records))


@some
@given(rows=rows, max_batch_bytes=st.sampled_from([100, 500, 2**20]))
def test_they_read_what_we_write(oracle_and_codec, columns, make_record, rows, max_batch_bytes):
    oracle, codec = oracle_and_codec
    records = [make_record(*row) for row in rows]

    encoded = encode(columns.of(records), codec=codec, max_batch_bytes=max_batch_bytes)

    assert oracle.read(encoded.data) == list(enumerate(records))


@some
@given(rows=rows)
def test_uncompressed_batches_are_the_same_bytes(oracle, columns, make_record, rows):
    records = [make_record(*row) for row in rows]

    ours = encode(columns.of(records), max_batch_bytes=2**24, leader_epoch=0).data
    theirs = oracle.build(records)

    # Leader epoch, which the broker sets, is left at different values.
    assert ours[:12] == theirs[:12]
    assert ours[16:] == theirs[16:]


@pytest.mark.parametrize("count", [1, 127, 128, 3000])
def test_any_number_of_records(oracle_and_codec, columns, make_record, count):
    oracle, codec = oracle_and_codec
    chance = random.Random(count)
    records = [
        make_record(chance.randrange(2**41), None, chance.randbytes(chance.randrange(60)), [])
        for _ in range(count)
    ]

    assert columns.rows(decode(oracle.build(records, codec)).columns) == list(enumerate(records))
    encoded = encode(columns.of(records), codec=codec)
    assert oracle.read(encoded.data) == list(enumerate(records))


def test_offsets_of_three_bytes_and_several_batches(oracle, columns, make_record):
    records = [make_record(n, b"%d" % (n % 97), b"value %d" % n, []) for n in range(20_000)]

    encoded = encode(columns.of(records), codec="gzip", max_batch_bytes=450_000)

    assert len(list(iter_batches(encoded.data))) == 2
    assert oracle.read(encoded.data) == list(enumerate(records))
    found = decode(oracle.build(records, "gzip")).columns
    assert columns.rows(found) == list(enumerate(records))


def test_producer_fields_and_the_transactional_bit_are_the_same(oracle, columns, make_record):
    records = [make_record(5, b"k", b"v", [])]
    producer = {"producer_id": 2**40, "producer_epoch": 7, "base_sequence": 2**31 - 1}

    ours = encode(columns.of(records), transactional=True, leader_epoch=0, **producer).data
    theirs = oracle.build(records, transactional=1, **producer)

    assert ours[16:] == theirs[16:]
