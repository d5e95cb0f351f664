"""Connections to PostgreSQL for change capture."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from headrace.model.error import ConfigError

if TYPE_CHECKING:
    import psycopg

# The texts of values must be the same in the snapshot and in the stream, whatever the defaults of
# the server, the database and the user are.
_SESSION: Final = (
    "-c DateStyle=ISO -c IntervalStyle=postgres -c TimeZone=UTC -c extra_float_digits=3 "
    "-c bytea_output=hex -c lc_monetary=C -c statement_timeout=0 -c lock_timeout=0 "
    "-c idle_in_transaction_session_timeout=0 "
    # Where policies would leave out rows of a snapshot, PostgreSQL then reports an error instead.
    "-c row_security=off"
)
_CONNECT_SECONDS: Final = 10


class PostgresConnector:
    """Opens connections to one database.

    Args:
        url: `postgresql://host:port/database`.
        options: libpq's parameters that are not in the URL: user, password, sslmode, ... The
            encoding, and the forms of values in `options`, are those of change capture.

    Raises:
        ConfigError: psycopg is missing.
        ValueError: libpq cannot read the URL. The message does not hold it: it may have a password.
    """

    def __init__(self, url: str, options: Mapping[str, str | None]) -> None:
        try:
            import psycopg
        except ImportError as error:
            raise ConfigError(
                "the source postgres_cdc needs psycopg: pip install 'headrace[postgres]'"
            ) from error
        try:
            psycopg.conninfo.conninfo_to_dict(url)
        except psycopg.Error:
            raise ValueError("libpq cannot read the URL") from None
        self._connect = psycopg.connect
        self.errors: type[Exception] = psycopg.Error
        self._url = url
        self._options: dict[str, Any] = {
            key: value for key, value in options.items() if value is not None
        }

    def control(self) -> "psycopg.Connection[Any]":
        """Return a connection for queries, which commits each."""
        return self._open()

    def replication(self) -> "psycopg.Connection[Any]":
        """Return a connection for replication commands."""
        return self._open(replication="database")

    def _open(self, **more: Any) -> "psycopg.Connection[Any]":
        parameters: dict[str, Any] = {
            "connect_timeout": _CONNECT_SECONDS,
            "application_name": "headrace",
            "keepalives_idle": 30,
            **self._options,
            "client_encoding": "UTF8",
            # The last one of two values counts.
            "options": f"{self._options.get('options', '')} {_SESSION}".strip(),
            **more,
        }
        return self._connect(self._url, autocommit=True, **parameters)
