"""Lines of input, taken apart."""

import pytest

from headrace.cli.record.line_format import LineFormat, ParsedLine
from headrace.model.error import InvalidArgument


@pytest.mark.parametrize(
    ("text", "line", "expected"),
    [
        (r"%k\t%v", b"a\tb\tc", ParsedLine(b"a", b"b\tc", None)),
        ("%v", b"all of it", ParsedLine(None, b"all of it", None)),
        (r"%k %v\n", b"a b", ParsedLine(b"a", b"b", None)),
        ("%p,%k=%v;", b"3,a=b;", ParsedLine(b"a", b"b", 3)),
        ("%k%%%v", b"50%off", ParsedLine(b"50", b"off", None)),
        ("%k", b"\xff", ParsedLine(b"\xff", None, None)),
        (r"%k\t%v", b"\t", ParsedLine(b"", b"", None)),
    ],
)
def test_a_line_is_taken_apart(text: str, line: bytes, expected: ParsedLine) -> None:
    assert LineFormat(text).parse(line, 1) == expected


def test_a_line_that_looks_different_is_named_with_its_number() -> None:
    with pytest.raises(InvalidArgument, match="line 12 does not look like"):
        LineFormat(r"%k\t%v").parse(b"no tab in here", 12)


def test_a_partition_is_a_number() -> None:
    with pytest.raises(InvalidArgument, match="line 2: 'x' is no partition"):
        LineFormat("%p %v").parse(b"x y", 2)


@pytest.mark.parametrize("text", ["%z", "%k%v", "%k %k", "plain", "%"])
def test_what_is_no_format_is_refused(text: str) -> None:
    with pytest.raises(InvalidArgument, match="is no format"):
        LineFormat(text)
