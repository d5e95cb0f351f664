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
    """Return the bytes of the whole text, of the texts in it, and of those texts encoded again. One
    wide character makes all characters of a text take four bytes."""
    return (3 if body.isascii() else 9) * len(body)
