"""Batches to columns: what is shown, what is left out, and how broken bytes are named."""

import struct
from collections.abc import Sequence

import duckdb
import polars as pl
import pyarrow as pa
import pytest
from crc32c import crc32c

from headrace.model.error import BatchTooLarge, CorruptBatch, InvalidArgument, UnsupportedBatch
from headrace.records.batch import CONTROL_BIT, Batch, build_head, stamp
from headrace.records.column import BINARY_SCHEMA, VIEW_SCHEMA
from headrace.records.control import ControlType, build_marker
from headrace.records.decode import LARGEST_INPUT_BYTES, decode
from headrace.records.encode import encode
from headrace.records.varint import write_varint

NOW_MS = 1_700_000_000_000
LONG = b"a value that is longer than a view can hold inline"


def values(decoded) -> list[bytes | None]:
    return decoded.columns["value"].to_pylist()


def offsets(decoded) -> list[int]:
    return decoded.columns["offset"].to_pylist()


def a_raw_batch(records: bytes, count: int, **fields: int) -> bytes:
    fields = {"last_offset_delta": count - 1, "record_count": count, **fields}
    return build_head(records, **fields) + records


def a_record(body: bytes) -> bytes:
    return write_varint(len(body)) + body


def a_marker(producer_id: int, type: ControlType, offset: int) -> bytes:
    return build_marker(
        type,
        producer_id=producer_id,
        producer_epoch=0,
        coordinator_epoch=0,
        timestamp_ms=NOW_MS,
        base_offset=offset,
    )


def test_every_column_has_its_type_and_content():
    sent = pa.record_batch(
        {
            "timestamp": pa.array([NOW_MS, NOW_MS + 5], pa.int64()),
            "key": pa.array([b"k", None]),
            "value": pa.array([None, b""]),
            "headers": pa.array(
                [[{"key": "trace", "value": b"7"}, {"key": "none", "value": None}], []],
                pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())])),
            ),
        }
    )
    data = encode(sent, base_offset=10, producer_id=3, producer_epoch=1, base_sequence=0).data

    decoded = decode(data)

    assert decoded.columns.schema == BINARY_SCHEMA
    decoded.columns.validate(full=True)
    columns = decoded.columns.set_column(
        1, "timestamp", decoded.columns["timestamp"].view(pa.int64())
    )
    assert columns.to_pylist() == [
        {
            "offset": 10,
            "timestamp": NOW_MS,
            "timestamp_type": 0,
            "key": b"k",
            "value": None,
            "headers": [{"key": "trace", "value": b"7"}, {"key": "none", "value": None}],
            "producer_id": 3,
            "producer_epoch": 1,
        },
        {
            "offset": 11,
            "timestamp": NOW_MS + 5,
            "timestamp_type": 0,
            "key": None,
            "value": b"",
            "headers": [],
            "producer_id": 3,
            "producer_epoch": 1,
        },
    ]


def test_several_batches_become_one_column(a_batch):
    data = a_batch(b"a", b"b") + a_batch(b"c", base_offset=2, codec="zstd")

    decoded = decode(data)

    assert values(decoded) == [b"a", b"b", b"c"]
    assert offsets(decoded) == [0, 1, 2]
    assert (decoded.next_offset, decoded.consumed_bytes) == (3, len(data))


def test_many_small_batches_are_all_found(a_batch):
    data = b"".join(a_batch(b"%d" % number, base_offset=number) for number in range(1000))

    assert offsets(decode(data)) == list(range(1000))


def test_a_cut_off_last_batch_is_left_alone(a_batch):
    one, two = a_batch(b"a"), a_batch(b"b", base_offset=1)

    for size in (0, 1, 30, 61, len(two) - 1):
        decoded = decode(one + two[:size])
        assert values(decoded) == [b"a"]
        assert (decoded.next_offset, decoded.consumed_bytes) == (1, len(one))


@pytest.mark.parametrize("layout", ["binary", "view"])
def test_nothing_decodes_to_no_rows(layout):
    decoded = decode(b"", layout=layout)

    assert decoded.columns.num_rows == 0
    assert (decoded.next_offset, decoded.consumed_bytes) == (-1, 0)
    assert decode(b"", start_offset=7).next_offset == 7


def test_only_the_offsets_asked_for_are_shown(a_batch):
    data = a_batch(b"0", b"1", b"2") + a_batch(b"3", b"4", base_offset=3)

    decoded = decode(data, start_offset=1, end_offset=4)

    assert values(decoded) == [b"1", b"2", b"3"]
    assert decoded.next_offset == 4


def test_batches_out_of_range_are_not_even_checked(a_batch):
    broken = bytearray(a_batch(b"x"))
    broken[-1] ^= 1
    data = bytes(broken) + a_batch(b"a", base_offset=1) + a_batch(b"z", base_offset=2)[:-1] + b"!"

    assert values(decode(data, start_offset=1, end_offset=2)) == [b"a"]


def test_an_end_before_a_batch_leaves_it_unconsumed(a_batch):
    one, two = a_batch(b"a"), a_batch(b"b", base_offset=1)

    decoded = decode(one + two, end_offset=1)

    assert (decoded.next_offset, decoded.consumed_bytes) == (1, len(one))


def test_a_compacted_batch_keeps_its_offsets():
    records = a_record(b"\0\0" + write_varint(1) + b"\x01\x02a\0")
    records += a_record(b"\0\0" + write_varint(6) + b"\x01\x02b\0")

    decoded = decode(a_raw_batch(records, 2, base_offset=100, last_offset_delta=9))

    assert offsets(decoded) == [101, 106]
    assert decoded.next_offset == 110


def test_a_batch_that_compaction_emptied_moves_the_next_offset(a_batch):
    empty = build_head(b"", base_offset=0, last_offset_delta=4, record_count=0)

    decoded = decode(empty + a_batch(b"a", base_offset=5))

    assert offsets(decoded) == [5]


def test_with_append_time_every_record_has_the_brokers_time(a_batch):
    batch = Batch(a_batch(b"a", b"b"))
    head = stamp(batch, 0, 0, append_time_ms=NOW_MS + 99)

    columns = decode(head + bytes(batch.records)).columns

    assert columns["timestamp"].view(pa.int64()).to_pylist() == [NOW_MS + 99] * 2
    assert columns["timestamp_type"].to_pylist() == [1, 1]


def test_control_batches_are_passed_over(a_batch):
    data = a_batch(b"a") + a_marker(1, ControlType.COMMIT, 1)

    decoded = decode(data)

    assert values(decoded) == [b"a"]
    assert (decoded.next_offset, decoded.consumed_bytes) == (2, len(data))


def transactional(a_batch, producer_id: int, offset: int, *records: bytes, **more) -> bytes:
    return a_batch(
        *records,
        base_offset=offset,
        producer_id=producer_id,
        producer_epoch=0,
        base_sequence=0,
        transactional=True,
        **more,
    )


def test_aborted_transactions_are_left_out_until_their_marker(a_batch):
    data = (
        transactional(a_batch, 1, 0, b"aborted")
        + transactional(a_batch, 2, 1, b"committed")
        + a_batch(b"no transaction", base_offset=2)
        + transactional(a_batch, 1, 3, b"aborted too")
        + a_marker(1, ControlType.ABORT, 4)
        + a_marker(2, ControlType.COMMIT, 5)
        + transactional(a_batch, 1, 6, b"the next one")
    )

    decoded = decode(data, aborted=[(1, 0)])

    assert values(decoded) == [b"committed", b"no transaction", b"the next one"]
    assert decoded.next_offset == 7


def test_a_transaction_aborted_later_is_shown_until_then(a_batch):
    data = (
        transactional(a_batch, 1, 0, b"committed")
        + a_marker(1, ControlType.COMMIT, 1)
        + transactional(a_batch, 1, 2, b"aborted")
        + a_marker(1, ControlType.ABORT, 3)
    )

    assert values(decode(data, aborted=[(1, 2)])) == [b"committed"]


def test_reading_on_hides_the_rest_of_an_aborted_transaction_and_nothing_after_it(a_batch):
    def zipped(producer_id: int, offset: int, value: bytes) -> bytes:
        return transactional(a_batch, producer_id, offset, value * 1000, codec="gzip")

    data = (
        zipped(1, 0, b"a")
        + a_marker(1, ControlType.ABORT, 1)
        + zipped(2, 2, b"b")
        + zipped(1, 3, b"c")
        + a_marker(1, ControlType.COMMIT, 4)
        + zipped(2, 5, b"d")
        + a_marker(2, ControlType.ABORT, 6)
        + zipped(3, 7, b"e")
        + zipped(2, 8, b"f")
    )
    aborted: Sequence[tuple[int, int]] = [(1, 0), (2, 2)]
    found: list[bytes] = []
    while data:
        decoded = decode(data, aborted=aborted, max_inflated_bytes=1100)
        found += [value[:1] for value in values(decoded)]
        data, aborted = data[decoded.consumed_bytes :], decoded.aborted

    assert found == [b"c", b"e", b"f"]
    assert aborted == []


def test_without_a_list_nothing_is_left_out(a_batch):
    data = transactional(a_batch, 1, 0, b"a") + a_marker(1, ControlType.ABORT, 1)

    assert values(decode(data)) == [b"a"]


def test_a_list_of_something_else_is_refused(a_batch):
    with pytest.raises(InvalidArgument, match="pairs of producer id and first offset"):
        decode(transactional(a_batch, 1, 0, b"a"), aborted=[1])


def test_only_the_columns_asked_for_are_made_in_that_order(a_batch):
    columns = decode(a_batch(b"a"), columns=["value", "offset"]).columns

    assert columns.schema.names == ["value", "offset"]
    assert columns.to_pylist() == [{"value": b"a", "offset": 0}]


@pytest.mark.parametrize("name", BINARY_SCHEMA.names)
@pytest.mark.parametrize("layout", ["binary", "view"])
def test_every_column_can_be_had_alone(a_batch, name, layout):
    data = a_batch(b"a", None, LONG)
    everything = decode(data, layout=layout).columns

    alone = decode(data, columns=[name], layout=layout).columns

    assert alone.column(0).equals(everything[name])


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_views_hold_the_same_as_binary(a_batch, codec):
    data = a_batch(b"", None, b"123456789012", b"1234567890123", LONG, codec=codec)

    viewed = decode(data, layout="view").columns

    assert viewed.schema == VIEW_SCHEMA
    viewed.validate(full=True)
    assert viewed["value"].cast(pa.binary()).equals(decode(data).columns["value"])


def test_views_point_into_the_fetched_bytes(a_batch):
    data = a_batch(LONG)

    value = decode(data, layout="view").columns["value"]

    assert value.buffers()[2].address == pa.py_buffer(data).address


def test_views_keep_the_inflated_bytes_alive(a_batch):
    value = decode(a_batch(LONG, codec="zstd"), layout="view").columns["value"]

    assert value.to_pylist() == [LONG]


def test_views_of_plain_and_compressed_batches_together(a_batch):
    data = (
        a_batch(LONG + b"1")
        + a_batch(LONG + b"2", base_offset=1, codec="lz4")
        + a_batch(LONG + b"3", base_offset=2)
        + a_batch(LONG + b"4", base_offset=3, codec="gzip")
    )

    assert values(decode(data, layout="view")) == [LONG + b"%d" % n for n in (1, 2, 3, 4)]


def test_polars_reads_views(a_batch):
    columns = decode(a_batch(b"a", None, LONG), layout="view").columns

    frame = pl.from_arrow(columns)

    assert frame["value"].to_list() == [b"a", None, LONG]
    assert frame["timestamp"].dt.epoch("ms").to_list() == [NOW_MS] * 3


def test_duckdb_reads_views(a_batch):
    columns = decode(a_batch(b"a", None, LONG), layout="view", columns=["offset", "value"]).columns
    rows = pa.Table.from_batches([columns])

    with duckdb.connect() as connection:
        connection.register("rows", rows)
        found = connection.execute('select value from rows order by "offset" desc').fetchall()

    assert found == [(LONG,), (None,), (b"a",)]


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
@pytest.mark.parametrize("layout", ["binary", "view"])
def test_a_bomb_is_refused(a_batch, codec, layout):
    bomb = a_batch(bytes(20_000_000), codec=codec)

    with pytest.raises(BatchTooLarge, match="inflates to more than the 1000000 bytes"):
        decode(bomb, max_inflated_bytes=1_000_000, layout=layout)


def test_batches_past_the_bound_wait_for_the_next_call(a_batch):
    batches = [a_batch(bytes(1000), base_offset=n, codec="zstd") for n in range(5)]

    first = decode(b"".join(batches), max_inflated_bytes=2500)
    rest = decode(b"".join(batches)[first.consumed_bytes :], max_inflated_bytes=10_000)

    assert offsets(first) == [0, 1]
    assert (first.next_offset, first.consumed_bytes) == (2, len(batches[0]) + len(batches[1]))
    assert offsets(rest) == [2, 3, 4]


def test_a_wrong_crc_is_named(a_batch):
    data = bytearray(a_batch(b"a") + a_batch(b"b", base_offset=1))
    data[-2] ^= 0x10

    with pytest.raises(CorruptBatch, match=r"base offset 1\) has CRC32C"):
        decode(data)


def test_a_wrong_crc_of_a_compressed_batch_is_named_before_it_is_inflated(a_batch):
    data = bytearray(a_batch(LONG * 10, codec="zstd"))
    data[70] ^= 0x10

    with pytest.raises(CorruptBatch, match="CRC32C"):
        decode(data)


def test_the_crc_check_can_be_left_out(a_batch):
    data = bytearray(a_batch(b"abc"))
    data[17] ^= 0xFF

    assert values(decode(data, verify_crc=False)) == [b"abc"]


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        (b"\0" + b"\xff" * 9, "timestamp"),
        (b"\0\0" + b"\xff" * 9, "offset delta"),
        (b"\0\0\x02\x01\x01\0", "offset delta"),
        (b"\0\0\0\x40\x01\0", "key"),
        (b"\0\0\0\x03\x01\0", "key"),
        (b"\0\0\0\x01\x40\0", "value"),
        (b"\0\0\0\x01\x03\0", "value"),
        (b"\0\0\0\x01\x01\x02", "headers"),
        (b"\0\0\0\x01\x01\x01", "headers"),
        (b"\0\0\0\x01\x01\x02\x01\x01", "headers"),
        (b"\0\0\0\x01\x01\x02\x02k\x04v", "headers"),
        (b"\0\0\0\x01\x01\0\0", "fields do not end"),
    ],
)
def test_what_is_wrong_with_a_record_is_named(body, problem):
    data = a_raw_batch(a_record(body), 1)

    with pytest.raises(CorruptBatch, match=f"its record 0: .*{problem}"):
        decode(data)


@pytest.mark.parametrize(
    "records", [b"\x04" + bytes(6), b"\x0e" + bytes(6), b"\x80" * 12, b"\x01" * 7]
)
def test_a_record_length_that_cannot_be_true_is_named(records):
    with pytest.raises(CorruptBatch, match="its record 0: its length"):
        decode(a_raw_batch(records, 1))


def test_bytes_behind_the_last_record_are_named():
    good = a_record(b"\0\0\0\x01\x01\0")

    with pytest.raises(CorruptBatch, match="record count does not cover"):
        decode(a_raw_batch(good + a_record(b"\0\0\x02\x01\x01\0"), 1))


def test_the_broken_record_is_numbered():
    good = a_record(b"\0\0\0\x01\x01\0")
    bad = a_record(b"\0\0\x02\x40\x01\0")

    with pytest.raises(CorruptBatch, match=r"base offset 5\) is broken at its record 1: its key"):
        decode(a_raw_batch(good + bad, 2, base_offset=5))


@pytest.mark.parametrize("codec", ["none", "zstd"])
def test_a_count_that_the_bytes_cannot_hold_is_refused_before_room_is_made(a_batch, codec):
    data = bytearray(a_batch(b"a", codec=codec))
    struct.pack_into(">i", data, 23, 2**31 - 2)
    struct.pack_into(">i", data, 57, 2**31 - 1)
    struct.pack_into(">I", data, 17, crc32c(bytes(data[21:])))

    with pytest.raises(CorruptBatch, match="counts"):
        decode(data)


def test_an_old_format_is_unsupported(a_batch):
    data = bytearray(a_batch(b"a"))
    data[16] = 1

    with pytest.raises(UnsupportedBatch, match="magic 1"):
        decode(data)


def test_header_keys_that_are_no_text_get_replacement_characters():
    body = b"\0\0\0\x01\x01\x02" + b"\x04\xff\xfe" + b"\x01"

    headers = decode(a_raw_batch(a_record(body), 1)).columns["headers"]

    headers.validate(full=True)
    assert headers.to_pylist() == [[{"key": "\ufffd\ufffd", "value": None}]]


def test_a_control_batch_with_garbage_in_it_is_still_passed_over():
    data = a_raw_batch(b"garbage", 1, attributes=CONTROL_BIT)

    assert decode(data).next_offset == 1


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"columns": ["vlaue"]}, "no column 'vlaue': there are offset"),
        ({"columns": "value"}, r"write \['value'\]"),
        ({"layout": "large"}, "'binary' or 'view'"),
        ({"max_inflated_bytes": 0}, "between 1 and"),
        ({"max_inflated_bytes": LARGEST_INPUT_BYTES + 1}, "between 1 and"),
    ],
)
def test_arguments_that_mean_nothing_are_refused(options, problem):
    with pytest.raises(InvalidArgument, match=problem):
        decode(b"", **options)
