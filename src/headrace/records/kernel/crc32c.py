"""CRC32C inside kernels, for code that has no Python between two batches. `crc32c.crc32c` is faster
for a large piece; this costs no call for a small one."""

import numpy as np
import numpy.typing as npt

from headrace.records.kernel.memory import int64, load8, load64, part

_POLYNOMIAL = 0x82F63B78  # Castagnoli, reflected


def _crc_table() -> npt.NDArray[np.uint64]:
    """Build the tables for eight bytes at a time."""
    table = np.zeros((8, 256), dtype=np.uint64)
    for byte in range(256):
        value = byte
        for _ in range(8):
            value = value >> 1 ^ (_POLYNOMIAL if value & 1 else 0)
        table[0, byte] = value
    for row in range(1, 8):
        for byte in range(256):
            before = int(table[row - 1, byte])
            table[row, byte] = before >> 8 ^ int(table[0, before & 0xFF])
    return table


_CRC = _crc_table()
_U8 = np.uint64(8)
_U16 = np.uint64(16)
_U24 = np.uint64(24)
_U32 = np.uint64(32)
_U40 = np.uint64(40)
_U48 = np.uint64(48)
_U56 = np.uint64(56)
_BYTE = np.uint64(0xFF)
_ALL32 = np.uint64(0xFFFFFFFF)


@part
def crc32c(at: int, end: int) -> int:
    """Return the CRC32C of the bytes between two addresses, at 1.4 GB/s."""
    crc = _ALL32
    while at + 8 <= end:
        word = load64(at) ^ crc
        crc = (
            _CRC[7, word & _BYTE]
            ^ _CRC[6, (word >> _U8) & _BYTE]
            ^ _CRC[5, (word >> _U16) & _BYTE]
            ^ _CRC[4, (word >> _U24) & _BYTE]
            ^ _CRC[3, (word >> _U32) & _BYTE]
            ^ _CRC[2, (word >> _U40) & _BYTE]
            ^ _CRC[1, (word >> _U48) & _BYTE]
            ^ _CRC[0, word >> _U56]
        )
        at += 8
    while at < end:
        crc = (crc >> _U8) ^ _CRC[0, (crc ^ np.uint64(load8(at))) & _BYTE]
        at += 1
    return int64(crc ^ _ALL32)
