"""Positions in PostgreSQL's write-ahead log."""


def parse_lsn(text: str) -> int:
    """Return the number of a position.

    >>> parse_lsn("1/A0")
    4294967456
    """
    high, slash, low = text.partition("/")
    if not slash:
        raise ValueError(f"{text!r} is no position of a write-ahead log")
    return int(high, 16) << 32 | int(low, 16)


def format_lsn(lsn: int) -> str:
    """Return a position as PostgreSQL writes it.

    >>> format_lsn(4294967456)
    '1/A0'
    """
    return f"{lsn >> 32:X}/{lsn & 0xFFFFFFFF:X}"
