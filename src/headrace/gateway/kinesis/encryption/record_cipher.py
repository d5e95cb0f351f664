"""Encrypts the data of records under the data key of their stream.

Byte format of an encrypted value, big-endian:

    magic "HKE" 1 | number of the data key, u32 | salt, 16 bytes | counter, u64 | AES-256-GCM

Rule 1: no nonce is used twice. Each cipher has a random salt of its own, which with the data key
gives its key (HKDF-SHA256), and counts its records.
Rule 2: stream, data key and partition key are authenticated with the data: a value that is moved to
another stream or key does not open.
Rule 3: a value that does not open was not written by a gateway, whatever it begins with. Kafka's
clients may write such values; they are records as they are.
"""

import itertools
import os
import struct
import threading
from collections import OrderedDict
from typing import Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

MAGIC: Final = b"HKE\x01"
_HEAD: Final = struct.Struct(">4sI16sQ")
_KEY_BYTES: Final = 32
_SALT_BYTES: Final = 16
_MOST_CIPHERS: Final = 1024


def wrapped(master: bytes, data_key: bytes, purpose: bytes) -> bytes:
    """Return a data key encrypted under a master key, for this purpose only."""
    nonce = os.urandom(12)
    return nonce + AESGCM(master).encrypt(nonce, data_key, purpose)


def unwrapped(master: bytes, text: bytes, purpose: bytes) -> bytes | None:
    """Return a data key, or None if another master key wrapped it."""
    try:
        return AESGCM(master).decrypt(text[:12], text[12:], purpose)
    except (InvalidTag, ValueError):
        return None


def new_data_key() -> bytes:
    return os.urandom(_KEY_BYTES)


def key_number(value: bytes) -> int | None:
    """Return which data key a value names, or None for one that is not encrypted."""
    if len(value) < _HEAD.size or not value.startswith(MAGIC):
        return None
    number: int = _HEAD.unpack_from(value)[1]
    return number


class RecordCipher:
    """Encrypts and decrypts under one data key. Threads: any."""

    def __init__(self, data_key: bytes, number: int, stream: bytes) -> None:
        self._data_key = data_key
        self._number = number
        self._bound = stream + b"\0" + number.to_bytes(4, "big") + b"\0"
        self._salt = os.urandom(_SALT_BYTES)
        self._counter = itertools.count()
        self._own = self._cipher(self._salt)
        self._lock = threading.Lock()
        self._others: OrderedDict[bytes, AESGCM] = OrderedDict()

    def encrypt(self, value: bytes, partition_key: bytes | None) -> bytes:
        count = next(self._counter)  # atomic in CPython: one bytecode on a C iterator
        head = _HEAD.pack(MAGIC, self._number, self._salt, count)
        return head + self._own.encrypt(_nonce(count), value, self._bound + (partition_key or b""))

    def decrypt(self, value: bytes, partition_key: bytes | None) -> bytes | None:
        """Return the data, or None for a value that no gateway wrote (rule 3)."""
        _, number, salt, count = _HEAD.unpack_from(value)
        if number != self._number:
            return None
        try:
            return self._of(salt).decrypt(
                _nonce(count), value[_HEAD.size :], self._bound + (partition_key or b"")
            )
        except (InvalidTag, ValueError):
            return None

    def _of(self, salt: bytes) -> AESGCM:
        """Return the cipher of another instance, or of an earlier life of this one."""
        if salt == self._salt:
            return self._own
        with self._lock:
            found = self._others.get(salt)
            if found is None:
                found = self._others[salt] = self._cipher(salt)
                if len(self._others) > _MOST_CIPHERS:
                    self._others.popitem(last=False)
            else:
                self._others.move_to_end(salt)
            return found

    def _cipher(self, salt: bytes) -> AESGCM:
        kdf = HKDF(SHA256(), _KEY_BYTES, salt, b"headrace kinesis record")
        return AESGCM(kdf.derive(self._data_key))


def _nonce(count: int) -> bytes:
    return count.to_bytes(12, "big")
