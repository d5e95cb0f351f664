"""A database that SQLAlchemy knows, from the settings of a component."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy.engine import URL, Connection, Engine
from sqlalchemy.exc import ArgumentError, NoSuchModuleError, SQLAlchemyError

from headrace.ingest.error import IngestError
from headrace.ingest.settings import Settings, prefix, secret, text
from headrace.model.error import ConfigError

DATABASE_SETTINGS: Final = (
    text(
        "url",
        "The database, as SQLAlchemy writes it: postgresql://host:port/database, "
        "mysql://host/database, sqlite:////path.",
        required=True,
        other_names=("connectionUrl",),
    ),
    text("username", "The user."),
    secret("password", "The user's password."),
    prefix("connect", "Arguments of the database's driver, such as connect.connect_timeout."),
)
"""The settings of every component with a database."""

# The driver of a URL that names none, and the extra of this package that has it.
_DRIVERS: Final = {
    "postgresql": ("postgresql+psycopg", "postgres"),
    "postgres": ("postgresql+psycopg", "postgres"),
    "mysql": ("mysql+pymysql", "mysql"),
    "mariadb": ("mariadb+pymysql", "mysql"),
}
# A host that went away must not hold a component for ever. Seconds, but for tcp_user_timeout.
_TIMEOUTS: Final[dict[str, dict[str, object]]] = {
    "psycopg": {"connect_timeout": 10, "tcp_user_timeout": 60_000, "keepalives_idle": 30},
    "pymysql": {"connect_timeout": 10, "read_timeout": 300, "write_timeout": 60},
}
_NUMBER = re.compile(r"\d{1,9}")
_NAME = re.compile(r"[^\x00\"`\[\]]+")


class Database:
    """Connections to one database, one at a time; they are opened when they are needed.

    Errors of the database are raised as `IngestError` with one sentence, without the values of
    rows that SQLAlchemy would print, and without the password.
    """

    def __init__(self, settings: Settings) -> None:
        """Raises:
        ConfigError: the URL is none, or its driver is not installed.
        """
        url = _url(settings)
        self._secrets = [each for each in (url.password, settings.optional("password")) if each]
        try:
            self.engine: Engine = sa.create_engine(
                url,
                connect_args={**_timeouts(url), **_arguments(settings)},
                hide_parameters=True,
                pool_size=1,
                max_overflow=0,
                pool_pre_ping=True,
            )
            if self.dialect == "sqlite":
                _begin_by_hand(self.engine)
        except NoSuchModuleError:
            raise settings.wrong(
                "url",
                f"url names the database {url.drivername!r}, which SQLAlchemy does not know: write "
                "postgresql://, mysql:// or sqlite:///, or install the dialect",
            ) from None
        except ImportError as error:
            raise ConfigError(_missing(url, error)) from error
        except (ArgumentError, TypeError) as error:
            raise settings.wrong("url", f"url cannot be used: {self.sentence(error)}") from None

    @property
    def dialect(self) -> str:
        """The database's name: postgresql, mysql, mariadb, sqlite."""
        return str(self.engine.dialect.name)

    @property
    def place(self) -> str:
        """Which database it is, without user and password."""
        url = self.engine.url
        host = f"{url.host or ''}{f':{url.port}' if url.port else ''}"
        return f"{url.get_backend_name()}://{host}/{url.database or ''}"

    @contextmanager
    def transaction(self, what: str) -> Iterator[Connection]:
        """Open a transaction, which is committed at the end of the block and rolled back when an
        exception leaves it.

        Args:
            what: what an error says was not done: "rows were not written".

        Raises:
            IngestError: the database refused or was lost.
        """
        try:
            with self.engine.begin() as connection:
                yield connection
        except (SQLAlchemyError, UnicodeError) as error:
            raise IngestError(f"{what}: {self.sentence(error)}") from None

    def sentence(self, error: Exception) -> str:
        """Return an error as one line without a password."""
        cause = getattr(error, "orig", None) or error
        line = " ".join(str(cause).split()) or type(cause).__name__
        for each in self._secrets:
            line = line.replace(each, "***")
        return line

    def close(self) -> None:
        self.engine.dispose()


def _begin_by_hand(engine: Engine) -> None:
    """Begin every transaction of SQLite with a statement of ours. Python's driver begins one only
    before some statements, so that a savepoint would be a transaction of its own."""

    @sa.event.listens_for(engine, "connect")
    def connected(connection: Any, record: object) -> None:
        connection.isolation_level = None

    @sa.event.listens_for(engine, "begin")
    def began(connection: Connection) -> None:
        connection.exec_driver_sql("BEGIN")


def table_name(settings: Settings, key: str = "table") -> tuple[str | None, str]:
    """Return the schema, if there is one, and the name of a setting `schema.table`.

    Raises:
        SettingError: it is no name.
    """
    written = settings.text(key)
    parts = written.split(".")
    if len(parts) > 2 or not all(_NAME.fullmatch(each) for each in parts):
        raise settings.wrong(
            key, f"{key} is {written!r}, which is no name of a table: write TABLE or SCHEMA.TABLE"
        )
    return (parts[0] if len(parts) == 2 else None), parts[-1]


def _url(settings: Settings) -> URL:
    written = settings.text("url").removeprefix("jdbc:")
    scheme, colon, rest = written.partition(":")
    driver = _DRIVERS.get(scheme)
    try:
        url = sa.make_url(f"{driver[0]}{colon}{rest}" if driver else written)
    except (ArgumentError, ValueError):
        # The URL is not repeated: it may hold a password.
        raise settings.wrong(
            "url", "url is no URL of a database: write postgresql://host:port/database"
        ) from None
    if url.get_backend_name() == "sqlite":
        for key in ("username", "password"):
            if settings.optional(key) is not None:
                raise settings.wrong(key, f"SQLite has no users: remove {key}")
        if not url.database or url.database == ":memory:":
            raise settings.wrong("url", "url names no file: write sqlite:////path/of/the/file")
    return url.set(
        username=settings.optional("username") or url.username,
        password=settings.optional("password") or url.password,
    )


def _timeouts(url: URL) -> dict[str, object]:
    """Return the timeouts of a driver; those in the URL come first."""
    _, _, driver = url.drivername.partition("+")
    defaults = _TIMEOUTS.get(driver, {})
    return {name: value for name, value in defaults.items() if name not in url.query}


def _arguments(settings: Settings) -> dict[str, object]:
    return {
        name: int(value) if _NUMBER.fullmatch(value) else value
        for name, value in settings.below("connect").items()
    }


def _missing(url: URL, error: ImportError) -> str:
    extra = next((extra for full, extra in _DRIVERS.values() if full == url.drivername), None)
    what = f"a database {url.get_backend_name()} needs {error.name}"
    return f"{what}: pip install '{f'headrace[{extra}]' if extra else error.name}'"
