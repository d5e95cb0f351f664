"""What may enter a log: the borders of each rule, and which batches must be opened for it."""

from random import Random

import pytest

from headrace.log.partition.admission import admit, must_open, unchecked
from headrace.model.error import BatchTooLarge, CorruptBatch, InvalidRecord, InvalidTimestamp
from headrace.model.topic_config import LogConfig
from headrace.records.batch import CONTROL_BIT, HEADER_BYTES, TRANSACTIONAL_BIT, Batch, build_head
from headrace.records.compression import Codec
from headrace.records.recompress import recompressed
from testkit.sample.batch import SAMPLE_TIME_MS, sample_batch

NOW_MS = SAMPLE_TIME_MS
PLAIN = LogConfig()
COMPACTED = LogConfig(cleanup_policy=("compact",))
TIMED = LogConfig(message_timestamp_before_max_ms=1000, message_timestamp_after_max_ms=1000)


def packed(batch: bytes, codec: Codec) -> bytes:
    return bytes(recompressed(Batch(batch), codec, None, max_inflated_bytes=1 << 20).data)


def at(timestamp_ms: int, *, step_ms: int = 0, codec: Codec = Codec.NONE) -> bytes:
    return packed(sample_batch(b"a", b"b", timestamp_ms=timestamp_ms, step_ms=step_ms), codec)


# -- size ------------------------------------------------------------------------------------------


def test_a_batch_may_be_as_large_as_max_message_bytes_and_not_a_byte_larger() -> None:
    batch = sample_batch(b"v" * 100)

    assert len(admit(batch, LogConfig(max_message_bytes=len(batch)), NOW_MS)) == 1
    with pytest.raises(BatchTooLarge):
        admit(batch, LogConfig(max_message_bytes=len(batch) - 1), NOW_MS)


def test_the_limit_is_for_each_batch_and_not_for_all_of_them() -> None:
    batch = sample_batch(b"v" * 100)

    batches = admit(batch * 3, LogConfig(max_message_bytes=len(batch)), NOW_MS)

    assert [each.position for each in batches] == [0, len(batch), 2 * len(batch)]


# -- what a client may send ------------------------------------------------------------------------


def test_a_client_sends_no_marker() -> None:
    rows = Batch(sample_batch(b"a")).records
    head = build_head(
        rows,
        attributes=CONTROL_BIT | TRANSACTIONAL_BIT,
        last_offset_delta=0,
        record_count=1,
        producer_id=1,
        producer_epoch=0,
        base_sequence=0,
    )

    with pytest.raises(InvalidRecord, match="control batch"):
        admit(head + bytes(rows), PLAIN, NOW_MS)


# -- time ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.LZ4])
@pytest.mark.parametrize("timestamp_ms", [NOW_MS - 1000, NOW_MS + 1000, -1])
def test_the_bounds_are_in_time_and_so_is_no_time_at_all(codec: Codec, timestamp_ms: int) -> None:
    assert len(admit(at(timestamp_ms, codec=codec), TIMED, NOW_MS)) == 1


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.LZ4])
@pytest.mark.parametrize("timestamp_ms", [NOW_MS - 1001, NOW_MS + 1001, 0, 1])
def test_a_millisecond_outside_is_refused(codec: Codec, timestamp_ms: int) -> None:
    with pytest.raises(InvalidTimestamp) as raised:
        admit(at(timestamp_ms, codec=codec), TIMED, NOW_MS)
    assert [record for record, _ in raised.value.record_errors] == [0, 1]


def test_records_that_grow_older_than_the_head_says_are_found() -> None:
    with pytest.raises(InvalidTimestamp) as raised:
        admit(at(NOW_MS, step_ms=-1001), TIMED, NOW_MS)
    assert [record for record, _ in raised.value.record_errors] == [1]


def test_without_a_bound_any_past_is_taken() -> None:
    assert len(admit(at(NOW_MS, step_ms=-NOW_MS), PLAIN, NOW_MS)) == 1


def test_the_brokers_own_time_replaces_any_other() -> None:
    config = LogConfig(
        message_timestamp_type="LogAppendTime",
        message_timestamp_before_max_ms=1000,
        message_timestamp_after_max_ms=1000,
    )
    for timestamp_ms in (0, 10 * NOW_MS):
        assert len(admit(at(timestamp_ms), config, NOW_MS)) == 1


def test_a_head_that_lies_about_its_time_is_refused_though_no_record_is_out_of_bounds() -> None:
    rows = Batch(at(NOW_MS)).records
    head = build_head(
        rows,
        last_offset_delta=1,
        record_count=2,
        base_timestamp=NOW_MS,
        max_timestamp=NOW_MS + 1001,
    )

    with pytest.raises(InvalidTimestamp, match="says that its records reach"):
        admit(head + bytes(rows), TIMED, NOW_MS)


# -- what is named ---------------------------------------------------------------------------------


def test_a_thousand_of_the_refused_records_are_named_and_all_are_counted() -> None:
    batch = sample_batch(*[b"v"] * 1200, keys=[None] * 1200)

    with pytest.raises(InvalidRecord, match=r"^1200 records have no key") as raised:
        admit(batch, COMPACTED, NOW_MS)
    assert [record for record, _ in raised.value.record_errors] == list(range(1000))


def test_each_refused_record_has_its_own_reason_and_the_times_decide_the_error() -> None:
    config = LogConfig(cleanup_policy=("compact",), message_timestamp_after_max_ms=1000)
    batch = sample_batch(
        b"a", b"b", b"c", keys=[None, b"k", b"k"], timestamp_ms=NOW_MS, step_ms=501
    )

    with pytest.raises(InvalidTimestamp, match=r"^1 records") as raised:
        admit(batch, config, NOW_MS)
    assert [record for record, _ in raised.value.record_errors] == [0, 2]
    assert "no key" in raised.value.record_errors[0][1]
    assert "timestamp" in raised.value.record_errors[1][1]


# -- codecs ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("sent", Codec)
@pytest.mark.parametrize(
    ("compression_type", "stored"),
    [("uncompressed", Codec.NONE), ("gzip", Codec.GZIP), ("zstd", Codec.ZSTD), ("lz4", Codec.LZ4)],
)
def test_a_topic_with_a_codec_stores_the_same_records_in_it(
    sent: Codec, compression_type: str, stored: Codec
) -> None:
    plain = sample_batch(b"a" * 50, b"b" * 50)
    config = LogConfig(compression_type=compression_type)

    [batch] = admit(packed(plain, sent), config, NOW_MS)

    assert batch.compression == stored
    assert packed(bytes(batch.data), Codec.NONE) == plain


def test_a_batch_in_the_topics_codec_is_stored_as_it_came() -> None:
    sent = packed(sample_batch(b"a" * 500), Codec.ZSTD)

    [batch] = admit(sent, LogConfig(compression_type="zstd", compression_zstd_level=1), NOW_MS)

    assert bytes(batch.data) == sent


WORDY = sample_batch(" ".join(Random(7).choices(["river", "water", "wheel"], k=2000)).encode())


def stored_bytes(**config: object) -> int:
    return admit(WORDY, LogConfig(**config), NOW_MS)[0].size_bytes  # type: ignore[arg-type]


@pytest.mark.parametrize(("name", "levels"), [("gzip", (1, 9)), ("zstd", (1, 19)), ("lz4", (1, 9))])
def test_the_topics_level_is_used(name: str, levels: tuple[int, int]) -> None:
    key = f"compression_{name}_level"

    quick, small = (stored_bytes(**{"compression_type": name, key: each}) for each in levels)

    assert quick > small


def test_gzip_without_a_level_packs_as_its_library_does() -> None:
    quick = stored_bytes(compression_type="gzip", compression_gzip_level=1)

    assert stored_bytes(compression_type="gzip") == len(packed(WORDY, Codec.GZIP)) < quick
    assert stored_bytes(compression_type="gzip", compression_gzip_level=0) == quick


def test_the_stored_batch_too_must_fit_max_message_bytes() -> None:
    plain = sample_batch(b"a" * 5000)
    sent = packed(plain, Codec.ZSTD)

    with pytest.raises(BatchTooLarge):
        admit(
            sent,
            LogConfig(compression_type="uncompressed", max_message_bytes=len(plain) - 1),
            NOW_MS,
        )


@pytest.mark.parametrize(
    ("config", "codec", "opens"),
    [
        (PLAIN, Codec.NONE, False),
        (PLAIN, Codec.ZSTD, True),
        (COMPACTED, Codec.NONE, False),
        (COMPACTED, Codec.ZSTD, True),
        (LogConfig(compression_type="zstd"), Codec.NONE, True),
        (LogConfig(compression_type="zstd"), Codec.ZSTD, True),
        (LogConfig(compression_type="zstd"), Codec.LZ4, True),
        (LogConfig(compression_type="uncompressed"), Codec.NONE, False),
        (LogConfig(compression_type="uncompressed"), Codec.GZIP, True),
    ],
)
def test_a_batch_is_opened_if_it_is_compressed_or_is_to_be(
    config: LogConfig, codec: Codec, opens: bool
) -> None:
    assert must_open(packed(sample_batch(b"a" * 50), codec), config) is opens


def test_what_is_no_batch_is_not_opened_but_a_bare_head_is_looked_at() -> None:
    config = LogConfig(compression_type="zstd")
    head = build_head(b"", last_offset_delta=0, record_count=0)

    assert not must_open(b"", config)
    assert not must_open(head[:-1], config)
    assert must_open(head, config)


# -- the broker's own batches, and the leader's ----------------------------------------------------


def bare_head(base_offset: int) -> bytes:
    """What compaction leaves of a batch whose records are gone, to keep its producer known."""
    head = build_head(b"", base_offset=base_offset, last_offset_delta=0, record_count=0)
    assert len(head) == HEADER_BYTES
    return head


def test_a_batch_without_records_is_one() -> None:
    batches = unchecked(bare_head(3) + bare_head(4))

    assert [batch.base_offset for batch in batches] == [3, 4]


@pytest.mark.parametrize("cut", [1, 40, HEADER_BYTES])
def test_a_cut_off_batch_ends_a_fetch_and_is_an_error_elsewhere(cut: int) -> None:
    first, second = sample_batch(b"a"), sample_batch(b"b" * 20, base_offset=1)
    records = first + second[:-cut]

    assert [batch.base_offset for batch in unchecked(records, whole=False)] == [0]
    with pytest.raises(CorruptBatch, match=f"at byte {len(first)} is cut off"):
        unchecked(records)


def test_a_head_without_its_last_byte_ends_a_fetch() -> None:
    records = bare_head(0) + bare_head(1)[:-1]

    assert len(unchecked(records, whole=False)) == 1


def test_a_damaged_batch_is_refused_from_the_leader_too() -> None:
    broken = bytearray(sample_batch(b"a") + sample_batch(b"b", base_offset=1))
    broken[-1] ^= 1

    with pytest.raises(CorruptBatch, match="CRC32C"):
        unchecked(bytes(broken), whole=False)
