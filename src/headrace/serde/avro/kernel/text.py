"""Whether bytes are UTF-8, inside kernels."""

import numpy as np

from headrace.records.kernel.memory import load8, load64, part

_HIGH_BITS = np.uint64(0x8080808080808080)


@part
def is_utf8(at: int, end: int) -> bool:
    """Return whether the bytes from `at` to `end` are UTF-8: no surrogates, nothing overlong."""
    while at + 8 <= end and load64(at) & _HIGH_BITS == 0:
        at += 8
    while at < end:
        first = load8(at)
        if first < 0x80:
            at += 1
            continue
        more = 1
        low = 0x80
        high = 0xBF
        if first >= 0xE0:
            more = 2
            if first == 0xE0:
                low = 0xA0
            elif first == 0xED:
                high = 0x9F
            elif first >= 0xF0:
                more = 3
                if first == 0xF0:
                    low = 0x90
                elif first == 0xF4:
                    high = 0x8F
        if first < 0xC2 or first > 0xF4 or end - at <= more:
            return False
        second = load8(at + 1)
        if second < low or second > high:
            return False
        for index in range(2, more + 1):
            byte = load8(at + index)
            if byte < 0x80 or byte > 0xBF:
                return False
        at += more + 1
    return True
