"""How much memory a JSON text takes once it is read.

The bytes of each kind of value were measured with CPython's json, and are rather too many:
`[{"":{}},...]` takes up to 35 times its bytes, and counts as 45 times.
"""

from typing import Final

import numpy as np

_QUOTE: Final = ord('"')
# Bytes of memory per character outside of texts: a dictionary, a list, an entry, a key and value.
_STRUCTURE: Final = {ord("{"): 90, ord("["): 75, ord(","): 34, ord(":"): 70}
_PER_QUOTE: Final = 25
_CHUNK_BYTES: Final = 1 << 20
# The first bytes, in UTF-8, of characters from U+0100 and from U+10000 on.
_FIRST_OF_TWO: Final = 0xC4
_FIRST_OF_FOUR: Final = 0xF0


def quick_memory_bytes(body: bytes) -> int:
    """Return an estimate that is too high where texts hold JSON or punctuation."""
    return _of_texts(body) + sum(
        each * body.count(character)
        for character, each in ((_QUOTE, _PER_QUOTE), *_STRUCTURE.items())
    )


def memory_bytes(body: bytes) -> int:
    """Return an estimate that knows what is inside a text; it takes about as long as to read it."""
    total = _of_texts(body)
    plain = body.replace(rb"\\", b"").replace(rb"\"", b"")
    is_inside = False
    for start in range(0, len(plain), _CHUNK_BYTES):
        chunk = np.frombuffer(plain, np.uint8, min(_CHUNK_BYTES, len(plain) - start), start)
        quotes = chunk == _QUOTE
        inside = np.bitwise_xor.accumulate(quotes)
        outside = chunk[inside if is_inside else ~inside]
        is_inside ^= bool(inside[-1])
        counts = np.bincount(outside, minlength=256)
        total += _PER_QUOTE * int(np.count_nonzero(quotes))
        total += sum(each * int(counts[character]) for character, each in _STRUCTURE.items())
    return total


def _of_texts(body: bytes) -> int:
    """Return the bytes of the whole text, of the texts in it, and of those texts encoded again. All
    characters of a text take as many bytes as its widest: one, two or four."""
    whole = _widest(body)
    escaped = 4 if rb"\ud" in body or rb"\uD" in body else 2 if rb"\u" in body else 1
    return (whole + max(whole, escaped) + 1) * len(body)


def _widest(body: bytes) -> int:
    """Return how many bytes of memory the widest character takes."""
    if body.isascii():
        return 1
    if b"\0" in body:  # not UTF-8, of which the highest byte tells it
        return 4
    highest = int(np.frombuffer(body, np.uint8).max())
    return 1 if highest < _FIRST_OF_TWO else 2 if highest < _FIRST_OF_FOUR else 4
