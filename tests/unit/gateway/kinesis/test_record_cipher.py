"""Data keys under master keys, records under data keys, and what does not open."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.gateway.kinesis.encryption.key_file import (
    add_master_key,
    master_key_id,
    read_master_keys,
)
from headrace.gateway.kinesis.encryption.record_cipher import (
    MAGIC,
    RecordCipher,
    key_number,
    unwrapped,
    wrapped,
)
from headrace.gateway.kinesis.error import ServiceError
from headrace.gateway.kinesis.record.row import StoredRow
from headrace.gateway.kinesis.stream.stream_state import StreamState, StreamStatus, new_stream
from headrace.gateway.kinesis.stream_cipher import StreamCiphers
from headrace.model.error import ConfigError

MASTER = {"alias/one": b"1" * 32, "two": b"2" * 32}
KEY = b"k" * 32


@given(st.binary(max_size=200), st.none() | st.binary(max_size=20))
def test_a_record_opens_in_another_instance(data: bytes, key: bytes | None) -> None:
    value = RecordCipher(KEY, 7, b"clicks").encrypt(data, key)

    assert key_number(value) == 7
    assert RecordCipher(KEY, 7, b"clicks").decrypt(value, key) == data


def test_a_record_of_another_stream_or_key_or_with_a_flipped_bit_does_not_open() -> None:
    cipher = RecordCipher(KEY, 1, b"clicks")
    value = cipher.encrypt(b"secret", b"ada")

    assert b"secret" not in value
    assert cipher.decrypt(value, b"bob") is None
    assert RecordCipher(KEY, 1, b"other").decrypt(value, b"ada") is None
    assert RecordCipher(KEY, 2, b"clicks").decrypt(value, b"ada") is None
    assert RecordCipher(b"x" * 32, 1, b"clicks").decrypt(value, b"ada") is None
    for at in range(len(value)):
        broken = bytearray(value)
        broken[at] ^= 1
        if key_number(bytes(broken)) is not None:
            assert cipher.decrypt(bytes(broken), b"ada") is None


def test_equal_records_differ_and_short_values_are_plain() -> None:
    cipher = RecordCipher(KEY, 1, b"clicks")

    assert len({cipher.encrypt(b"same", b"k") for _ in range(100)}) == 100
    assert [key_number(each) for each in (b"", b"plain", MAGIC, MAGIC + b"x" * 20)] == [None] * 4


def test_a_data_key_opens_under_its_master_key_and_purpose_only() -> None:
    text = wrapped(MASTER["two"], KEY, b"clicks")

    assert unwrapped(MASTER["two"], text, b"clicks") == KEY
    assert unwrapped(MASTER["alias/one"], text, b"clicks") is None
    assert unwrapped(MASTER["two"], text, b"other") is None
    assert unwrapped(MASTER["two"], b"", b"clicks") is None


def stream_of(ciphers: StreamCiphers, key_id: str = "alias/one") -> StreamState:
    return ciphers.started(new_stream("clicks", 1, 1000), key_id, 2000)


def opened(ciphers: StreamCiphers, stream: StreamState, value: bytes) -> StoredRow:
    found = ciphers.opened([StoredRow(0, 2000, b"k", value)], lambda: stream, lambda: True)
    if found.refusal is not None:
        raise found.refusal
    [row] = found.rows
    return row


def test_older_records_open_after_a_new_key_and_after_the_end() -> None:
    ciphers = StreamCiphers(MASTER)
    first = stream_of(ciphers)
    second = ciphers.started(first, "arn:aws:kms:us-east-1:000000000000:key/two", 3000)
    stopped = ciphers.stopped(second, 4000)
    one, two = ciphers.encrypting(first), ciphers.encrypting(second)
    assert one is not None and two is not None
    values = [one.encrypt(b"one", b"k"), two.encrypt(b"two", b"k"), b"plain", MAGIC + b"x" * 90]

    other = StreamCiphers(MASTER)
    state = StreamState.from_json(stopped.as_json())
    rows = [opened(other, state, each) for each in values]
    assert [row.value for row in rows] == [b"one", b"two", b"plain", values[3]]
    assert [row.is_encrypted for row in rows] == [True, True, False, False]
    assert other.encrypting(state) is None
    assert (state, state.status) == (stopped, StreamStatus.UPDATING)


def test_a_gateway_without_the_key_refuses_and_writes_nothing_plain() -> None:
    stream = stream_of(StreamCiphers(MASTER))
    cipher = StreamCiphers(MASTER).encrypting(stream)
    assert cipher is not None
    value = cipher.encrypt(b"secret", b"k")

    for keys, code in (({}, "KMSNotFoundException"), ({"alias/one": b"3" * 32}, "KMSInvalidState")):
        ciphers = StreamCiphers(keys)
        for use in (
            lambda each=ciphers: each.encrypting(stream),
            lambda each=ciphers: opened(each, stream, value),
        ):
            with pytest.raises(ServiceError) as error:
                use()
            assert error.value.code.startswith(code)


def test_a_key_that_the_view_lacks_is_looked_up_again() -> None:
    ciphers = StreamCiphers(MASTER)
    stream = stream_of(ciphers)
    cipher = ciphers.encrypting(stream)
    assert cipher is not None
    row = StoredRow(0, 0, b"k", cipher.encrypt(b"new", b"k"))
    views = [new_stream("clicks", 1, 1000)]

    def refresh() -> bool:
        views.append(stream)
        return True

    [found] = ciphers.opened([row], lambda: views[-1], refresh).rows
    assert found.value == b"new"
    with pytest.raises(ServiceError, match="confirmed in time"):
        ciphers.opened([row], lambda: views[0], lambda: False)


def forged(number: int) -> bytes:
    return MAGIC + number.to_bytes(4, "big") + b"x" * 90


def test_no_one_blocks_a_shard_with_a_key_that_is_out_of_use() -> None:
    both = StreamCiphers(MASTER)
    stream = both.started(stream_of(both), "two", 5_000)
    key_gone = StreamCiphers({"two": MASTER["two"]})
    refreshes: list[int] = []

    def refresh() -> bool:
        refreshes.append(1)
        return True

    late = stream.data_keys[0].retired_ms + 700_000  # type: ignore[operator]
    rows = [StoredRow(at, late, b"k", forged(number)) for at, number in enumerate((1, 2, 0, 900))]

    found = key_gone.opened(rows, lambda: stream, refresh)

    assert (found.rows, found.refusal) == (rows, None), "they are records as they are"
    assert not refreshes, "no gateway made such a key"


def test_what_lies_before_a_record_whose_key_is_gone_is_returned() -> None:
    both = StreamCiphers(MASTER)
    first = stream_of(both)
    stream = both.started(first, "two", 5_000)
    one, two = both.encrypting(first), both.encrypting(stream)
    assert one is not None and two is not None
    values = [two.encrypt(b"new", b"k"), b"plain", one.encrypt(b"old", b"k"), b"behind"]
    rows = [StoredRow(at, 5_000, b"k", value) for at, value in enumerate(values)]

    found = StreamCiphers({"two": MASTER["two"]}).opened(rows, lambda: stream, lambda: True)

    assert [row.value for row in found.rows] == [b"new", b"plain"]
    assert found.refusal is not None and "Key alias/one is not known" in str(found.refusal)


def test_the_number_of_keys_per_day_is_bounded() -> None:
    ciphers = StreamCiphers(MASTER)
    stream = new_stream("clicks", 1, 0)
    for at in range(25):
        stream = ciphers.started(stream, ("two", "alias/one")[at % 2], at)

    assert ciphers.started(stream, "two", 100) is stream  # it has this one
    with pytest.raises(ServiceError, match="25 keys in 24 hours"):
        ciphers.started(stream, "alias/one", 100)
    later = ciphers.started(stream, "alias/one", 400 * 24 * 3_600_000)
    assert [each.number for each in later.data_keys] == [25, 26]


def test_the_file_of_master_keys(tmp_path: Path) -> None:
    path = tmp_path / "master.txt"
    add_master_key(path, "alias/one")
    before = read_master_keys(path)
    add_master_key(path, "two")
    keys = read_master_keys(path)

    assert set(keys) == {"alias/one", "two"} and keys["alias/one"] == before["alias/one"]
    assert path.stat().st_mode & 0o777 == 0o600
    assert master_key_id(keys, "arn:aws:kms:eu-west-1:123456789012:alias/one") == "alias/one"
    assert master_key_id(keys, "three") is None
    with pytest.raises(ConfigError, match="already"):
        add_master_key(path, "two")
    with pytest.raises(ConfigError, match="no key id"):
        add_master_key(path, "a b")
    for text in ("", "alias/one short", "alias/one", "# only a comment"):
        path.write_text(text)
        with pytest.raises(ConfigError, match=r"master\.txt"):
            read_master_keys(path)
    path.chmod(0o644)
    with pytest.raises(ConfigError, match="chmod 600"):
        read_master_keys(path)
