"""Encryption of a file channel's records: AES in Galois/counter mode.

A value is the number of its key (one byte), a nonce of 12 random bytes, and the ciphertext with its
tag of 16 bytes. Keys are in a file with one `name = hexadecimal key` per line; the number of a key
is its position in the file. New records use the active key, old ones are read with their own. To
change the key, add a line at the end of the file and make it the active key.
"""

import os
from pathlib import Path

from headrace.ingest.settings import Settings
from headrace.model.error import ConfigError, CorruptLog

_NONCE_BYTES = 12
_KEY_BYTES = (16, 24, 32)
_MOST_KEYS = 255


class FrameCipher:
    """Encrypts with one key, and decrypts with any key of the file."""

    def __init__(self, keys: list[bytes], active: int) -> None:
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        self._ciphers = [AESGCM(key) for key in keys]
        self._active = active

    def encrypt(self, plain: bytes) -> bytes:
        nonce = os.urandom(_NONCE_BYTES)
        head = bytes([self._active])
        return head + nonce + self._ciphers[self._active].encrypt(nonce, plain, head)

    def decrypt(self, data: bytes) -> bytes:
        """Return the plain text.

        Raises:
            CorruptLog: the record was written with another key, or changed.
        """
        from cryptography.exceptions import InvalidTag

        head, nonce = data[:1], data[1 : 1 + _NONCE_BYTES]
        try:
            return self._ciphers[head[0]].decrypt(nonce, data[1 + _NONCE_BYTES :], head)
        except (InvalidTag, IndexError, ValueError) as error:
            raise CorruptLog(
                "a record of the file channel cannot be decrypted: is it the right key file?"
            ) from error


def read_cipher(settings: Settings) -> FrameCipher | None:
    """Return the cipher of `encryption.activeKey` and `encryption.keyFile`; None without them.

    Raises:
        SettingError: a key is missing or cannot be used.
    """
    texts = settings.below("encryption")
    if not texts:
        return None
    active, path = texts.get("activeKey"), texts.get("keyFile")
    for key in texts:
        if key not in ("activeKey", "keyFile"):
            name = f"encryption.{key}"
            raise settings.wrong(
                name, f"{name} is not supported: use encryption.keyFile and encryption.activeKey"
            )
    if path is None:
        raise settings.wrong(
            "encryption.keyFile",
            "encryption.keyFile is missing: name a file with lines 'name = key in hexadecimal' "
            "(Java's key stores are not read)",
        )
    keys = _keys(settings, Path(path).expanduser())
    if active not in keys:
        raise settings.wrong(
            "encryption.activeKey", f"encryption.activeKey {active!r} is not in {path}"
        )
    try:
        return FrameCipher(list(keys.values()), list(keys).index(active))
    except ImportError as error:
        raise ConfigError(
            "encryption needs the cryptography package: pip install 'headrace[encryption]'"
        ) from error


def _keys(settings: Settings, path: Path) -> dict[str, bytes]:
    try:
        lines = [line.strip() for line in path.read_text().splitlines()]
    except OSError as error:
        raise settings.wrong(
            "encryption.keyFile", f"cannot read {path}: {error.strerror}"
        ) from error
    keys: dict[str, bytes] = {}
    for number, line in enumerate(lines, 1):
        if not line or line.startswith("#"):
            continue
        name, equals, written = (part.strip() for part in line.partition("="))
        try:
            key = bytes.fromhex(written)
        except ValueError:
            key = b""
        if not equals or len(key) not in _KEY_BYTES:
            raise settings.wrong(
                "encryption.keyFile",
                f"{path}, line {number}: write 'name = key', the key as 32, 48 or 64 hexadecimal "
                "digits",
            )
        keys[name] = key
    if len(keys) > _MOST_KEYS:
        raise settings.wrong("encryption.keyFile", f"{path} has more than {_MOST_KEYS} keys")
    return keys
