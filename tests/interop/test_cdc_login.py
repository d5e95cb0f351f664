"""Change capture from servers that want TLS, and a password with every odd character."""

from pathlib import Path
from typing import Any

import psycopg
import pymysql
import pytest

from testkit.peer.certificate import Certificate
from testkit.peer.mariadb import MariadbServer
from testkit.peer.peer import PeerMissing, require_peer
from testkit.peer.postgres import PostgresServer
from testkit.process.agent_process import AgentProcess
from testkit.process.broker_process import BrokerProcess
from testkit.sample.mysql_capture import MysqlCapture
from testkit.sample.postgres_capture import PostgresCapture

pytestmark = pytest.mark.interop

PASSWORD = "p@ss:w/o rd?#%20+&='\"\\$x${HOME}`€ü\U0001f600"


@pytest.fixture
def certificate(tmp_path: Path) -> Certificate:
    try:
        return Certificate.make(tmp_path)
    except PeerMissing as missing:
        require_peer(str(missing))


@pytest.fixture
def _password(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CAPTURE_PASSWORD", PASSWORD)


@pytest.mark.usefixtures("_password")
def test_postgres(certificate: Certificate, broker: BrokerProcess, tmp_path: Path) -> None:
    try:
        server = PostgresServer({"wal_level": "logical"}, certificate)
    except PeerMissing as missing:
        require_peer(str(missing))
    with server:
        capture = PostgresCapture(server, broker)
        statement = psycopg.sql.SQL("CREATE ROLE odd LOGIN REPLICATION SUPERUSER PASSWORD {}")
        capture.database.execute(statement.format(psycopg.sql.Literal(PASSWORD)))
        capture.run("CREATE TABLE t (id int PRIMARY KEY)")
        login = {
            "url": server.url.replace("postgres@", ""),
            "username": "odd",
            "password": "${CAPTURE_PASSWORD}",
            "libpq_sslmode": "verify-full",
            "libpq_sslrootcert": str(certificate.certificate),
            "libpq_options": "-c search_path=nowhere -c DateStyle=German",
        }
        text = capture.configuration(**login)
        text += "\na1.sources.r1.libpq.application_name = shop capture"
        check(capture, tmp_path, text, hidden=PASSWORD)
        capture.close()


@pytest.mark.usefixtures("_password")
def test_mariadb(certificate: Certificate, broker: BrokerProcess, tmp_path: Path) -> None:
    files = {"ssl-cert": str(certificate.certificate), "ssl-key": str(certificate.key)}
    try:
        server = MariadbServer(files)
    except PeerMissing as missing:
        require_peer(str(missing))
    with server:
        capture = MysqlCapture(server, broker)
        quoted = capture.database.escape(PASSWORD)
        capture.run(f"CREATE USER odd@'%' IDENTIFIED BY {quoted} REQUIRE SSL")
        capture.run("GRANT ALL ON *.* TO odd@'%'")
        capture.run("CREATE TABLE t (id int PRIMARY KEY)")
        login = {
            "url": server.url.replace("capture@", ""),
            "username": "odd",
            "password": "${CAPTURE_PASSWORD}",
        }
        with pytest.raises(pymysql.MySQLError):
            pymysql.connect(
                port=server.port, user="odd", password=PASSWORD.encode(), ssl_disabled=True
            )
        secure = capture.configuration(**login, ssl_ca=str(certificate.certificate))
        check(capture, tmp_path / "secure", secure, hidden=PASSWORD)
        capture.close()


def check(capture: Any, folder: Path, configuration: str, hidden: str) -> None:
    """Capture a row of the table and a change of it; the log must not have the password."""
    capture.run("INSERT INTO t VALUES (1)")
    with AgentProcess(folder, configuration) as agent:
        capture.wait_for_count("t", 1)
        capture.run("INSERT INTO t VALUES (2)")
        capture.wait_for_count("t", 2)
        assert agent.stop() == 0
        assert hidden not in agent.log and repr(hidden)[1:-1] not in agent.log
