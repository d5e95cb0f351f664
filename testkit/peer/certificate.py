"""Certificates for tests: each its own authority, made with openssl."""

import subprocess
from dataclasses import dataclass
from pathlib import Path

from testkit.peer.peer import find_program


@dataclass(frozen=True, slots=True)
class Certificate:
    """A key and a certificate for loopback.

    Attributes:
        keystore: a file with both, as a broker wants them.
        key, certificate: a file for each, as clients want them.
    """

    keystore: Path
    key: Path
    certificate: Path

    @classmethod
    def make(cls, folder: Path, name: str = "localhost") -> "Certificate":
        """Make a certificate that signs itself, with its key, in `folder`.

        Raises:
            PeerMissing: openssl is not installed.
        """
        openssl = find_program("openssl", package="openssl")
        made = cls(folder / f"{name}.pem", folder / f"{name}.key", folder / f"{name}.crt")
        subprocess.run(
            [
                *(str(openssl), "req", "-x509", "-newkey", "ec", "-nodes", "-days", "2"),
                *("-pkeyopt", "ec_paramgen_curve:prime256v1"),
                *("-subj", f"/O=Mill/CN={name}"),
                *("-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"),
                *("-keyout", str(made.key), "-out", str(made.certificate)),
            ],
            check=True,
            capture_output=True,
        )
        made.keystore.write_text(made.key.read_text() + made.certificate.read_text())
        return made
