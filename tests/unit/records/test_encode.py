"""Columns to batches: how they are cut, what their heads say, and which columns are accepted."""

import datetime

import pyarrow as pa
import pytest

from headrace.model.error import InvalidArgument
from headrace.records.batch import Batch
from headrace.records.decode import decode
from headrace.records.encode import encode

NOW_MS = 1_700_000_000_000
HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))


def rows(**columns: pa.Array) -> pa.RecordBatch:
    return pa.record_batch(columns)


def column(encoded, name: str) -> list[object]:
    return decode(encoded.data).columns[name].to_pylist()


def test_batches_are_valid_for_a_broker():
    encoded = encode(rows(value=[b"x"] * 100), timestamp_ms=NOW_MS, max_batch_bytes=200)

    assert len(encoded.batches) > 5
    for data in encoded.batches:
        Batch(data).validate(from_client=True)


def test_no_batch_is_larger_than_asked():
    encoded = encode(
        rows(value=[b"x" * n for n in range(100)]), timestamp_ms=0, max_batch_bytes=400
    )

    sizes = [len(data) for data in encoded.batches]
    assert max(sizes) <= 400
    assert column(encoded, "value") == [b"x" * n for n in range(100)]


def test_a_batch_is_filled_to_the_last_byte():
    one = len(encode(rows(value=[b"x"]), timestamp_ms=0).data) - 61

    encoded = encode(rows(value=[b"x"] * 4), timestamp_ms=0, max_batch_bytes=61 + 2 * one)

    assert [Batch(data).record_count for data in encoded.batches] == [2, 2]


def test_a_record_larger_than_a_batch_gets_its_own():
    encoded = encode(rows(value=[b"a", b"x" * 5000, b"b"]), timestamp_ms=0, max_batch_bytes=1000)

    assert [Batch(data).record_count for data in encoded.batches] == [1, 1, 1]
    assert len(encoded.batches[1]) > 5000


def test_offsets_and_sequences_run_on_from_batch_to_batch():
    encoded = encode(
        rows(value=[b"x" * 50] * 10),
        timestamp_ms=0,
        max_batch_bytes=200,
        base_offset=1000,
        leader_epoch=4,
        producer_id=9,
        producer_epoch=2,
        base_sequence=2**31 - 3,
        transactional=True,
    )

    heads = [Batch(data) for data in encoded.batches]
    assert [head.base_offset for head in heads] == [1000, 1002, 1004, 1006, 1008]
    assert [head.base_sequence for head in heads] == [2**31 - 3, 2**31 - 1, 1, 3, 5]
    assert {(h.producer_id, h.producer_epoch, h.leader_epoch) for h in heads} == {(9, 2, 4)}
    assert all(head.is_transactional for head in heads)
    assert (encoded.next_offset, encoded.next_sequence) == (1010, 7)


def test_a_head_holds_the_first_and_the_largest_time():
    encoded = encode(rows(timestamp=[50, 10, 90, 20], value=[b""] * 4))

    head = Batch(encoded.data)
    assert (head.base_timestamp, head.max_timestamp) == (50, 90)
    assert decode(encoded.data).columns["timestamp"].view(pa.int64()).to_pylist() == [
        50,
        10,
        90,
        20,
    ]


def test_no_rows_make_no_batches():
    encoded = encode(rows(value=pa.array([], pa.binary())), timestamp_ms=0, base_sequence=-1)

    assert encoded.batches == []
    assert (encoded.data, encoded.next_offset, encoded.next_sequence) == (b"", 0, -1)


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_every_codec_makes_valid_batches(codec):
    encoded = encode(rows(value=[b"water" * 100] * 50), timestamp_ms=0, codec=codec)

    head = Batch(encoded.data)
    head.validate(from_client=True)
    assert head.compression == ["none", "gzip", "snappy", "lz4", "zstd"].index(codec)
    assert column(encoded, "value") == [b"water" * 100] * 50


@pytest.mark.parametrize(
    "kind",
    [
        pa.binary(),
        pa.large_binary(),
        pa.binary_view(),
        pa.string(),
        pa.large_string(),
        pa.string_view(),
        pa.dictionary(pa.int8(), pa.binary()),
    ],
    ids=str,
)
def test_keys_and_values_come_in_any_type_of_bytes(kind):
    plain = pa.array([b"short", None, b"", b"longer than twelve bytes"])
    if pa.types.is_dictionary(kind):
        array = plain.dictionary_encode()
    elif pa.types.is_binary(kind):
        array = plain
    else:
        array = pa.array([v and v.decode() for v in plain.to_pylist()], pa.string()).cast(kind)

    encoded = encode(rows(key=array, value=array), timestamp_ms=0)

    assert column(encoded, "key") == plain.to_pylist()
    assert column(encoded, "value") == plain.to_pylist()


def test_bytes_of_fixed_size_are_taken():
    encoded = encode(rows(value=pa.array([b"abcd", None], pa.binary(4))), timestamp_ms=0)

    assert column(encoded, "value") == [b"abcd", None]


def test_a_slice_encodes_only_its_rows():
    whole = rows(
        timestamp=pa.array(range(20), pa.int64()),
        key=pa.array([None if n % 3 else b"k%d" % n for n in range(20)]),
        value=pa.array([None if n % 5 == 0 else b"v%d" % n for n in range(20)]),
        headers=pa.array(
            [
                None if n % 4 == 0 else [{"key": f"h{n}", "value": None}] * (n % 3)
                for n in range(20)
            ],
            HEADERS,
        ),
    )

    part = decode(encode(whole.slice(5, 11)).data).columns

    assert part["key"].equals(whole["key"].slice(5, 11))
    assert part["value"].equals(whole["value"].slice(5, 11))
    assert part["headers"].to_pylist() == [x or [] for x in whole["headers"][5:16].to_pylist()]
    assert part["timestamp"].view(pa.int64()).to_pylist() == list(range(5, 16))


def test_a_chunked_table_is_one_run_of_records():
    one = rows(value=pa.array([b"a", None]), headers=pa.array([[], None], HEADERS))
    two = rows(value=pa.array([b"c"]), headers=pa.array([[{"key": "k", "value": b"v"}]], HEADERS))

    encoded = encode(pa.Table.from_batches([one, two, one]), timestamp_ms=0)

    assert column(encoded, "value") == [b"a", None, b"c", b"a", None]
    assert column(encoded, "headers")[2] == [{"key": "k", "value": b"v"}]
    assert len(encoded.batches) == 1


def test_a_table_without_chunks_makes_no_batches():
    assert encode(pa.schema([("value", pa.binary())]).empty_table(), timestamp_ms=0).batches == []


def test_absent_columns_are_null():
    assert column(encode(rows(key=[b"k"]), timestamp_ms=0), "value") == [None]
    assert column(encode(rows(value=pa.nulls(2)), timestamp_ms=0), "key") == [None, None]


def test_headers_may_come_as_maps():
    kind = pa.map_(pa.string(), pa.binary())
    headers = pa.array([[("a", b"1"), ("b", None)], None, []], kind)

    encoded = encode(rows(value=[b"x"] * 3, headers=headers), timestamp_ms=0)

    expected = [{"key": "a", "value": b"1"}, {"key": "b", "value": None}]
    assert column(encoded, "headers") == [expected, [], []]


def test_microseconds_are_cut_to_kafkas_milliseconds():
    moment = datetime.datetime(2024, 5, 1, 12, 0, 0, 123456, tzinfo=datetime.UTC)
    times = pa.array([moment], pa.timestamp("us", tz="UTC"))

    found = column(encode(rows(value=[b""], timestamp=times)), "timestamp")

    assert found == [moment.replace(microsecond=123000)]


def test_null_timestamps_take_the_time_given():
    encoded = encode(rows(value=[b"", b""], timestamp=[None, 5]), timestamp_ms=77)

    assert decode(encoded.data).columns["timestamp"].view(pa.int64()).to_pylist() == [77, 5]


def test_what_decode_made_can_be_encoded_again():
    sent = encode(rows(key=[b"k"], value=[b"v"]), timestamp_ms=NOW_MS)

    for layout in ("binary", "view"):
        assert encode(decode(sent.data, layout=layout).columns).data == sent.data


@pytest.mark.parametrize(
    ("columns", "problem"),
    [
        ({"value": [b"x"], "body": [b"y"]}, "no column 'body': there are offset"),
        ({"value": [1]}, "'value' is int64"),
        ({"value": [b"x"], "headers": [5]}, "'headers' is int64"),
        ({"value": [b"x"], "timestamp": ["noon"]}, "timestamp column is string"),
        ({"value": [b"x"], "timestamp": pa.array([None], pa.int64())}, "null timestamp"),
        ({"value": [b"x"], "headers": pa.array([[{"key": None, "value": b""}]], HEADERS)}, "key"),
    ],
)
def test_columns_that_cannot_be_records_are_refused(columns, problem):
    columns = {"timestamp": [0], **columns}

    with pytest.raises(InvalidArgument, match=problem):
        encode(rows(**columns))


def test_records_without_a_time_are_refused():
    with pytest.raises(InvalidArgument, match="need a time"):
        encode(rows(value=[b"x"]))


def test_what_is_no_table_is_refused():
    with pytest.raises(InvalidArgument, match="not as list"):
        encode([b"x"])


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"max_batch_bytes": 61}, "max_batch_bytes is 61"),
        ({"base_offset": -1}, "offsets start at 0"),
        ({"leader_epoch": -2}, "leader_epoch"),
        ({"producer_id": 5}, "an id, an epoch and a sequence"),
        ({"base_sequence": 5}, "an id, an epoch and a sequence"),
        ({"transactional": True}, "needs a producer id"),
        ({"codec": "brotli"}, "no compression codec"),
        ({"codec": "gzip", "level": 0}, "level 0"),
        ({"timestamp_ms": 2**63}, "timestamp_ms"),
    ],
)
def test_arguments_that_mean_nothing_are_refused(options, problem):
    with pytest.raises(InvalidArgument, match=problem):
        encode(rows(value=[b"x"]), **{"timestamp_ms": 0, **options})
