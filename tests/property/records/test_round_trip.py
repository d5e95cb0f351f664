"""What is encoded decodes to itself: any bytes, any cut, any range of offsets."""

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.records.decode import decode
from headrace.records.encode import encode
from headrace.records.kernel import write as kernel

some = settings(deadline=None, max_examples=40)

times = st.integers(-1, 2**62)
contents = st.none() | st.binary(max_size=80)
headers = st.lists(st.tuples(st.text(max_size=5), contents), max_size=3)
rows = st.lists(st.tuples(times, contents, contents, headers), min_size=1, max_size=50)
codecs = st.sampled_from(["none", "gzip", "snappy", "lz4", "zstd"])
layouts = st.sampled_from(["binary", "view"])


@some
@given(rows=rows, codec=codecs, layout=layouts, size=st.integers(62, 2000), cut=st.data())
def test_a_slice_comes_back_as_it_was(columns, make_record, rows, codec, layout, size, cut):
    records = [make_record(*row) for row in rows]
    first = cut.draw(st.integers(0, len(records)))
    whole = columns.of(records)

    encoded = encode(whole.slice(first), codec=codec, max_batch_bytes=size, base_offset=first)
    found = decode(encoded.data, layout=layout)

    assert columns.rows(found.columns) == list(enumerate(records))[first:]
    assert encoded.next_offset == len(records)
    assert found.consumed_bytes == len(encoded.data)


@some
@given(
    rows=rows, size=st.integers(62, 2000), bounds=st.tuples(st.integers(0, 60), st.integers(0, 60))
)
def test_a_range_of_offsets_is_what_python_would_slice(columns, make_record, rows, size, bounds):
    start, end = bounds
    records = [make_record(*row) for row in rows]
    data = encode(columns.of(records), max_batch_bytes=size).data

    found = decode(data, start_offset=start, end_offset=end)

    assert columns.rows(found.columns) == list(enumerate(records))[start:end]
    assert start <= found.next_offset
    assert found.next_offset <= max(start, end) and found.next_offset <= max(start, len(records))


@some
@given(rows=rows, size=st.integers(62, 1000), cut=st.integers(0, 3000))
def test_reading_on_from_what_was_consumed_misses_nothing(columns, make_record, rows, size, cut):
    records = [make_record(*row) for row in rows]
    data = encode(columns.of(records), max_batch_bytes=size).data

    first = decode(data[:cut])
    second = decode(data[first.consumed_bytes :], start_offset=max(0, first.next_offset))

    both = columns.rows(first.columns) + columns.rows(second.columns)
    assert both == list(enumerate(records))


@some
@given(rows=rows, size=st.integers(62, 500))
def test_the_room_that_is_made_always_suffices(columns, make_record, rows, size):
    encoded = encode(columns.of([make_record(*row) for row in rows]), max_batch_bytes=size)
    content = sum(
        len(key or b"") + len(value or b"") + sum(len(k.encode()) + len(v or b"") for k, v in more)
        for _time, key, value, more in rows
    )
    sizes = (len(rows), sum(len(row[3]) for row in rows), content)

    limit = kernel.batch_limit(*sizes, size)

    assert len(encoded.batches) <= limit
    assert len(encoded.data) <= kernel.room_bytes(*sizes, limit)


@some
@given(
    keys=st.lists(contents, max_size=20),
    chunks=st.integers(1, 5),
    kind=st.sampled_from([pa.binary(), pa.large_binary(), pa.binary_view()]),
)
def test_chunks_and_types_make_no_difference(keys, chunks, kind):
    plain = pa.table({"key": pa.array(keys, pa.binary())})
    step = max(1, len(keys) // chunks)
    pieces = [pa.array(keys[n : n + step], kind) for n in range(0, len(keys), step)]
    chunked = pa.table({"key": pa.chunked_array(pieces, kind)})

    assert encode(chunked, timestamp_ms=0).data == encode(plain, timestamp_ms=0).data
