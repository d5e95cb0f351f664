"""Base64 of the blobs of a request or a response, many at once and without the GIL.

`binascii` takes 3 ms for what one PutRecords may hold, and keeps all other threads waiting.
"""

from collections.abc import Iterator, Sequence
from itertools import accumulate, pairwise
from typing import Final, TypeVar

import numpy as np

from headrace.records.kernel.base64 import DIGITS, LETTERS, decode_base64, encode_base64
from headrace.records.kernel.memory import Int64s, read_only, readable

_STEP_BYTES: Final = 1 << 20
"""About how much is converted at once: copies of all of a request would be memory of its own."""

_Value = TypeVar("_Value", str, bytes)


def decoded(texts: Sequence[str]) -> list[bytes] | None:
    """Return the values of texts in base64, or None if one of them is not exactly that."""
    values: list[bytes] = []
    for group in _groups(texts):
        starts = _starts(group)
        try:
            text = "".join(group).encode("ascii")
        except UnicodeEncodeError:
            return None
        out = np.empty(len(text) // 4 * 3, dtype=np.uint8)
        ends = np.empty(len(group), dtype=np.int64)
        if decode_base64(readable(text), starts, out, ends, DIGITS) < len(group):
            return None
        values += _pieces(out.data, ends)
    return values


def encoded(values: Sequence[bytes]) -> Iterator[str]:
    """Yield each value in base64."""
    for group in _groups(values):
        starts = _starts(group)
        out = np.empty(sum((len(each) + 2) // 3 * 4 for each in group), dtype=np.uint8)
        ends = np.empty(len(group), dtype=np.int64)
        encode_base64(readable(b"".join(group)), starts, out, ends, LETTERS)
        text = str(out.data, "ascii")
        start = 0
        for end in ends.tolist():
            yield text[start:end]
            start = end


def warm_up() -> None:
    """Load the kernels, or compile them after an installation: a first put would wait for that."""
    decoded(list(encoded([b"any"])))


def _groups(values: Sequence[_Value]) -> Iterator[Sequence[_Value]]:
    """Divide values into groups of about `_STEP_BYTES`; a larger one is alone."""
    start = size = 0
    for at, each in enumerate(values):
        if at > start and size + len(each) > _STEP_BYTES:
            yield values[start:at]
            start, size = at, 0
        size += len(each)
    if values:
        yield values[start:]


def _starts(values: Sequence[str] | Sequence[bytes]) -> Int64s:
    starts = np.fromiter(accumulate(map(len, values), initial=0), np.int64, len(values) + 1)
    return read_only(starts)


def _pieces(data: memoryview, ends: Int64s) -> list[bytes]:
    bounds = [0, *ends.tolist()]
    return [bytes(data[start:end]) for start, end in pairwise(bounds)]
