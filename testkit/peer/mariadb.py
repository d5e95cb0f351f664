"""A real MariaDB server on loopback, for as long as a test runs."""

import getpass
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType

from headrace.process.die_with_parent import die_with_parent
from headrace.testing.readiness import free_port, wait_until
from testkit.peer.peer import PeerMissing

_SERVER = Path("/usr/sbin/mariadbd")
_INSTALL = Path("/usr/bin/mariadb-install-db")


def find_mariadb() -> Path:
    """Return the server's program.

    Raises:
        PeerMissing: naming the package.
    """
    if not _SERVER.exists() or not _INSTALL.exists():
        raise PeerMissing(
            "MariaDB is not installed; on Debian: apt-get install mariadb-server-core"
        )
    return _SERVER


class MariadbServer:
    """A MariaDB server whose user `capture` has all rights, without a password.

    It runs as the user of the test, also as root, and writes a binary log of whole rows.

    Args:
        settings: more variables of the server.
    """

    def __init__(self, settings: Mapping[str, str] | None = None) -> None:
        self._program = find_mariadb()
        self._folder = Path(tempfile.mkdtemp(prefix="headrace-mariadb-"))
        self._settings = {
            "log-bin": "log",
            "server-id": "1",
            "binlog-format": "ROW",
            "binlog-row-image": "FULL",
            "binlog-row-metadata": "FULL",
            **(settings or {}),
        }
        self.port = free_port()
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"mysql://capture@127.0.0.1:{self.port}"

    def __enter__(self) -> "MariadbServer":
        data = self._folder / "data"
        data.mkdir()
        first = self._folder / "first.sql"
        first.write_text(
            "CREATE USER IF NOT EXISTS capture@'%';\n"
            "GRANT ALL ON *.* TO capture@'%' WITH GRANT OPTION;\n"
        )
        user = f"--user={getpass.getuser()}"
        options = ["--no-defaults", f"--datadir={data}", "--auth-root-authentication-method=normal"]
        installed = self._run([str(_INSTALL), *options, "--skip-test-db", user])
        assert installed.wait(120) == 0, "mariadb-install-db failed"
        self._process = self._run(
            [
                *(str(self._program), "--no-defaults", f"--datadir={data}", user),
                *("--bind-address=127.0.0.1", f"--port={self.port}", f"--init-file={first}"),
                f"--socket={self._folder / 'socket'}",
                f"--pid-file={self._folder / 'pid'}",
                *("--innodb-flush-log-at-trx-commit=0", "--sync-binlog=0"),
                *("--innodb-buffer-pool-size=32M", "--skip-name-resolve"),
                *(f"--{key}={value}" for key, value in self._settings.items()),
            ]
        )
        wait_until(self._answers, what="MariaDB", timeout_seconds=120)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._process is not None:
            self._process.kill()  # its files go with it
            self._process.wait(30)
        shutil.rmtree(self._folder, ignore_errors=True)

    def _run(self, command: list[str]) -> "subprocess.Popen[bytes]":
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd=self._folder,
            preexec_fn=die_with_parent,
        )

    def _answers(self) -> bool:
        import pymysql

        try:
            pymysql.connect(host="127.0.0.1", port=self.port, user="capture").close()
        except pymysql.MySQLError:
            return False
        return True
