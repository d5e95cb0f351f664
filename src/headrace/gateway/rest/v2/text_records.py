"""Records whose keys and values are plain texts, cut out of a document without reading it as JSON.

Most documents of many records are like that. Between its texts such a document repeats the same few
bytes, so it is enough to find where a text ends and to compare what follows. Python's reader of
JSON looks at each letter, and makes a text of each value that becomes the same bytes again.

Rule 1: what is returned is what `read_records` makes of the document. Whatever might differ is left
to it: escapes, control characters (those of pretty printing, too), anything that is not UTF-8, any
other order or kind of fields.
"""

import re
from itertools import cycle, islice
from typing import Final

import numpy as np

from headrace.gateway.rest.produce.record import Record

_LEAST_BYTES: Final = 4096
"""Python's reader is as fast for less."""
_FIRST_PRINTABLE: Final = 0x20
_QUOTE: Final = b'"'
# From the document's first byte, or from the quotation mark at the end of a text, to the one at the
# start of the next text.
_HEAD: Final = re.compile(rb' *\{ *"records" *: *\[ *\{ *"(key|value)" *: *"')
_COMMA: Final = re.compile(rb'" *, *"(key|value)" *: *"')
_NEXT: Final = re.compile(rb'" *\} *, *\{ *"(key|value)" *: *"')
_END: Final = re.compile(rb'" *\} *\] *\} *')
# Makes a NamedTuple in half the time its own constructor takes.
_new: Final = tuple.__new__


def cut_texts(body: bytes, most: int) -> list[Record] | None:
    """Return the records of a document of the format JSON; None for one that has to be read.

    Takes about 1 µs for each record, also of a document that has more than `most`.

    >>> text = b'"' + 5000 * b"x" + b'"'
    >>> cut_texts(b'{"records": [{"value": ' + text + b"}]}", 5) == [Record(None, text)]
    True
    """
    if len(body) < _LEAST_BYTES:
        return None
    head = _HEAD.match(body)
    if head is None or b"\\" in body or not _is_printable(body):
        return None
    between = _between(body, head)
    if between is None:
        return None
    texts: list[bytes] = []
    start = head.end() - 1
    for separator in islice(cycle(between), len(between) * most):
        end = body.find(_QUOTE, start + 1)
        texts.append(body[start : end + 1])
        if not body.startswith(separator, end):
            break
        start = end + len(separator) - 1
    if not texts or len(texts) % len(between) or _END.fullmatch(body, end) is None:
        return None
    if len(between) == 1:
        # A record of a key alone is a record, too.
        if head[1] == b"key":
            return [_new(Record, (each, None, (), None, None)) for each in texts]
        return [_new(Record, (None, each, (), None, None)) for each in texts]
    first, second = texts[::2], texts[1::2]
    keys, values = (first, second) if head[1] == b"key" else (second, first)
    return [
        _new(Record, (key, value, (), None, None)) for key, value in zip(keys, values, strict=True)
    ]


def _between(body: bytes, head: re.Match[bytes]) -> list[bytes] | None:
    """Return the bytes between a record's first text and its second, if it has two, and those
    between its last text and the next record's first; None for a document that has to be read."""
    found: list[bytes] = []
    end = body.find(_QUOTE, head.end())
    comma = _COMMA.match(body, end)
    if comma is not None:
        if comma[1] == head[1]:
            return None
        found.append(comma[0])
        end = body.find(_QUOTE, comma.end())
    following = _NEXT.match(body, end)
    if following is None:
        # The only record, or nothing that is cut here. After the document's end no text can begin.
        only = _END.fullmatch(body, end)
        return None if only is None else [*found, only[0] + _QUOTE]
    return [*found, following[0]] if following[1] == head[1] else None


def _is_printable(body: bytes) -> bool:
    """Return whether it is UTF-8 without control characters."""
    if int(np.frombuffer(body, np.uint8).min()) < _FIRST_PRINTABLE:
        return False
    if body.isascii():
        return True
    try:
        body.decode()
    except UnicodeDecodeError:
        return False
    return True
