"""Key and trust stores of sources and sinks: PEM and PKCS 12. Java's own format is refused."""

import secrets
import ssl
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from headrace.ingest.settings import SettingError, Settings

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.serialization.pkcs12 import PKCS12KeyAndCertificates

_TYPES = ("PEM", "PKCS12", "JKS")
_PEM = b"-----BEGIN "
_JAVA = (b"\xfe\xed\xfe\xed", b"\xce\xce\xce\xce")  # JKS, JCEKS


class KeyStore:
    """A key or trust store: the file that a setting names, read once.

    Its content says which format it has. `<name>-type` only has to be one that exists: Java writes
    PKCS 12 for a store that its user calls JKS.
    """

    def __init__(self, settings: Settings, name: str, path: str) -> None:
        self._settings = settings
        self._name = name
        self._path = path
        self._password = settings.optional(f"{name}-password")
        declared = settings.optional(f"{name}-type")
        if declared is not None and declared.upper() not in _TYPES:
            raise settings.wrong(
                f"{name}-type", f"{name}-type cannot be {declared!r}: write PEM or PKCS12"
            )
        try:
            self._content = Path(path).expanduser().read_bytes()
        except OSError as error:
            raise self._wrong(f"cannot be read: {error.strerror}") from None
        if self._content.startswith(_JAVA):
            raise self._wrong(
                "is a key store in Java's own format, which is not read. Convert it: keytool"
                f" -importkeystore -srckeystore {path} -destkeystore {path}.p12"
                " -deststoretype PKCS12"
            )

    def load_key(self, context: ssl.SSLContext) -> None:
        """Give a server its certificate and key.

        Raises:
            SettingError: there is no key in the file, or the password is wrong.
        """
        with self._key_as_pem() as (path, password):
            try:
                # Without a password OpenSSL would ask for one at the terminal.
                context.load_cert_chain(path, password=password or "")
            except (OSError, ValueError) as error:
                raise self._wrong(
                    "has no certificate and key that can be read with"
                    f" {self._name}-password: {error}"
                ) from None

    def load_trusted(self, context: ssl.SSLContext) -> None:
        """Give a client the authorities to trust.

        Raises:
            SettingError: the file has no certificate, or the password is wrong.
        """
        if self._is_pem:
            if self._password is not None:
                key = f"{self._name}-password"
                raise self._settings.wrong(key, f"a PEM file has no password: remove {key}")
            trusted = self._content.decode("ascii", "replace")
        else:
            trusted = self._certificates()
        try:
            context.load_verify_locations(cadata=trusted)
        except (OSError, ValueError) as error:
            raise self._wrong(f"has no certificate that can be read: {error}") from None

    @property
    def _is_pem(self) -> bool:
        return _PEM in self._content

    @contextmanager
    def _key_as_pem(self) -> Iterator[tuple[str, str | None]]:
        """Yield a PEM file and its password: OpenSSL reads files only. A key that leaves its store
        is encrypted again, with a password that no one knows."""
        if self._is_pem:
            yield self._path, self._password
            return
        from cryptography.hazmat.primitives import serialization

        store = self._open()
        if store.key is None or store.cert is None:
            raise self._wrong("has no certificate with a key")
        password = secrets.token_hex(16)
        key = store.key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.BestAvailableEncryption(password.encode()),
        )
        chain = [store.cert, *store.additional_certs]
        pem = serialization.Encoding.PEM
        with tempfile.NamedTemporaryFile(prefix="headrace-key-") as file:
            file.write(key + b"".join(each.certificate.public_bytes(pem) for each in chain))
            file.flush()
            yield file.name, password

    def _certificates(self) -> str:
        from cryptography.hazmat.primitives.serialization import Encoding

        store = self._open()
        found = [*([store.cert] if store.cert else []), *store.additional_certs]
        return b"".join(each.certificate.public_bytes(Encoding.PEM) for each in found).decode()

    def _open(self) -> "PKCS12KeyAndCertificates":
        try:
            from cryptography.hazmat.primitives.serialization import pkcs12
        except ImportError:
            raise self._wrong(
                "may be PKCS 12, which needs the cryptography package:"
                " pip install 'headrace[encryption]'"
            ) from None
        password = None if self._password is None else self._password.encode()
        try:
            return pkcs12.load_pkcs12(self._content, password)
        except ValueError:
            raise self._wrong(
                f"is neither PEM nor PKCS 12, or {self._name}-password is wrong"
            ) from None

    def _wrong(self, what: str) -> SettingError:
        return self._settings.wrong(self._name, f"{self._name} {self._path} {what}")
