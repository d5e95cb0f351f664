"""A real PostgreSQL server on loopback, for as long as a test runs."""

import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType

from headrace.process.die_with_parent import die_with_parent
from headrace.testing.readiness import free_port, wait_until
from testkit.peer.certificate import Certificate
from testkit.peer.peer import PeerMissing

_PROGRAMS = Path("/usr/lib/postgresql")
_USER = "postgres"


def find_postgres() -> Path:
    """Return the folder with `initdb` and `postgres` of the newest installed version.

    Raises:
        PeerMissing: naming the package.
    """
    found = sorted(_PROGRAMS.glob("*/bin/initdb"), key=lambda path: path.parts[-3])
    if not found:
        raise PeerMissing("PostgreSQL is not installed; on Debian: apt-get install postgresql")
    return found[-1].parent


class PostgresServer:
    """A PostgreSQL server that trusts every user on loopback.

    The database and its owner are called `postgres`. It refuses to run as root: a test
    that does starts it as Debian's user `postgres`.

    Args:
        settings: the server's parameters, as in postgresql.conf.
        certificate: with one, every user but `postgres` must use TLS, and a password.
    """

    def __init__(
        self, settings: Mapping[str, str] | None = None, certificate: Certificate | None = None
    ) -> None:
        self._settings = dict(settings or {})
        self._certificate = certificate
        self._programs = find_postgres()
        self._folder = Path(tempfile.mkdtemp(prefix="headrace-postgres-"))
        self._port = free_port()
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"postgresql://{_USER}@127.0.0.1:{self._port}/postgres"

    def __enter__(self) -> "PostgresServer":
        if os.geteuid() == 0:
            shutil.chown(self._folder, _USER)
        data = str(self._folder / "data")
        options = ["-U", _USER, "-A", "trust", "-E", "UTF8", "--no-sync"]
        self._run([str(self._programs / "initdb"), "-D", data, *options]).wait(120)
        if self._certificate is not None:
            self._require_tls(Path(data), self._certificate)
        self._process = self._run(
            [
                str(self._programs / "postgres"),
                *("-D", data, "-h", "127.0.0.1", "-p", str(self._port)),
                *("-c", f"unix_socket_directories={self._folder}", "-c", "fsync=off"),
                *(
                    part
                    for key in self._settings
                    for part in ("-c", f"{key}={self._settings[key]}")
                ),
            ]
        )
        wait_until(self._answers, what="PostgreSQL", timeout_seconds=180)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._process is not None:
            # Not SIGTERM: with that it waits until the last client has gone.
            self._process.send_signal(signal.SIGINT)
            self._process.wait(30)
        shutil.rmtree(self._folder, ignore_errors=True)

    def _require_tls(self, data: Path, certificate: Certificate) -> None:
        files = {"ssl_cert_file": certificate.certificate, "ssl_key_file": certificate.key}
        for name, kept in files.items():
            copy = data / kept.name
            shutil.copyfile(kept, copy)
            copy.chmod(0o600)
            if os.geteuid() == 0:
                shutil.chown(copy, _USER)
            self._settings[name] = str(copy)
        self._settings["ssl"] = "on"
        (data / "pg_hba.conf").write_text(
            f"host all {_USER} 127.0.0.1/32 trust\nhostssl all all 127.0.0.1/32 scram-sha-256\n"
        )

    def _run(self, command: list[str]) -> "subprocess.Popen[bytes]":
        user = _USER if os.geteuid() == 0 else None
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd=self._folder,
            user=user,
            extra_groups=[] if user else None,
            preexec_fn=die_with_parent,
        )

    def _answers(self) -> bool:
        ready = self._programs / "pg_isready"
        command = [str(ready), "-q", "-h", "127.0.0.1", "-p", str(self._port)]
        return subprocess.run(command, check=False).returncode == 0
