"""Syslog messages: fields, times, framing."""

import datetime

import pytest

from headrace.ingest.format.syslog import SyslogFraming, SyslogParser, kept_fields, timestamp_ms


@pytest.mark.parametrize(
    ("message", "headers", "body"),
    [
        (
            b"<165>1 2003-10-11T22:14:15.003Z web1 evntslog - ID47 - hi",
            {"Facility": "20", "Severity": "5", "priority": "165", "version": "1",
             "timestamp": "1065910455003", "host": "web1"},
            b"evntslog - ID47 - hi",
        ),
        (
            b"<13>1 - - app: x",
            {"Facility": "1", "Severity": "5", "priority": "13", "version": "1"},
            b"app: x",
        ),
        (b"<13>just text", {"Facility": "1", "Severity": "5", "priority": "13"}, b"just text"),
        (
            b"no syslog at all",
            {"Facility": "0", "Severity": "0", "flume.syslog.status": "Invalid"},
            b"no syslog at all",
        ),
    ],
)  # fmt: skip
def test_fields_become_headers(message: bytes, headers: dict[str, str], body: bytes) -> None:
    assert SyslogParser().parse(message) == (headers, body)


def test_a_priority_that_cannot_be_is_marked() -> None:
    headers, _ = SyslogParser().parse(b"<999>Oct 11 22:14:15 web1 x")
    assert headers["flume.syslog.status"] == "Invalid"


def test_messages_of_one_second_share_their_headers() -> None:
    parser = SyslogParser()
    one, two = (parser.parse(b"<34>Oct 11 22:14:15 web1 %d" % n)[0] for n in range(2))
    assert one is two


@pytest.mark.parametrize(
    ("kept", "body"),
    [
        ("all", b"<34>Oct 11 22:14:15 web1 su: no"),
        ("timestamp hostname", b"Oct 11 22:14:15 web1 su: no"),
        ("none", b"su: no"),
    ],
)
def test_fields_can_stay_in_the_body(kept: str, body: bytes) -> None:
    parser = SyslogParser(kept_fields(kept))
    assert parser.parse(b"<34>Oct 11 22:14:15 web1 su: no")[1] == body


def test_an_unknown_field_is_named() -> None:
    with pytest.raises(ValueError, match="'hots' is no field"):
        kept_fields("hots")


def test_a_time_without_a_year_is_in_the_past() -> None:
    new_year = datetime.date(2026, 1, 1)
    found = timestamp_ms(b"Dec 31 23:59:59", new_year)
    assert found is not None
    assert datetime.datetime.fromtimestamp(found / 1000).year == 2025


@pytest.mark.parametrize("written", [b"-", b"Feb 31 00:00:00", b"Xyz 11 00:00:00"])
def test_a_time_that_cannot_be_is_none(written: bytes) -> None:
    assert timestamp_ms(written) is None


def test_lines_and_counted_octets_come_out_of_any_cut() -> None:
    expected = [b"<1>one", b"<2>two", b"<3>th\nree", b"<4>four", b"<5>end"]
    stream = b"<1>one\r\n\n6 <2>two9 <3>th\nree<4>four\n<5>end"
    for cut in range(len(stream)):
        framing = SyslogFraming(2500)
        got = framing.feed(stream[:cut]) + framing.feed(stream[cut:]) + framing.finish()
        assert got == expected, cut


def test_a_message_that_is_too_long_comes_in_pieces() -> None:
    assert SyslogFraming(4).feed(b"abcdefghij\n") == [b"abcd", b"efgh", b"ij"]


def test_a_line_that_never_ends_is_not_kept_for_ever() -> None:
    framing = SyslogFraming(10)
    got: list[bytes] = []
    for _ in range(100):
        got += framing.feed(b"x" * 100)
    got += framing.finish()
    assert sum(map(len, got)) == 10_000
    assert max(map(len, got)) == 10


def test_a_host_that_another_one_begins_with_is_not_mistaken_for_it() -> None:
    start = b"<34>Oct 11 22:14:15 "
    batch = SyslogParser().parse_all(
        [start + b"web", start + b"web1 a", start + b"web b", b"\n\nc"]
    )
    assert [headers.get("host") for headers in batch.headers] == ["web", "web1", "web", None]
    assert batch.bodies == [b"", b"a", b"b", b"\n\nc"]
