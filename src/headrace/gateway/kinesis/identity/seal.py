"""Seals what clients carry from one request to the next: they can neither read nor forge it."""

import base64
import binascii
import os
from typing import Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

KEY_BYTES: Final = 32
_NONCE_BYTES: Final = 12


def new_key() -> bytes:
    """Return a key for `Seal`. All instances that serve one cluster share it."""
    return os.urandom(KEY_BYTES)


class Seal:
    """AES-256-GCM under one key. `purpose` keeps a token of one kind from passing as another."""

    def __init__(self, key: bytes) -> None:
        self._cipher = AESGCM(key)

    def close(self, content: bytes, purpose: bytes) -> str:
        nonce = os.urandom(_NONCE_BYTES)
        return base64.b64encode(nonce + self._cipher.encrypt(nonce, content, purpose)).decode()

    def open(self, text: str, purpose: bytes) -> bytes | None:
        """Return the content, or None for a text that `close` did not make under this key."""
        try:
            raw = base64.b64decode(text, validate=True)
            return self._cipher.decrypt(raw[:_NONCE_BYTES], raw[_NONCE_BYTES:], purpose)
        except (binascii.Error, ValueError, InvalidTag):
            return None
