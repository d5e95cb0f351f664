"""Writes rows into a table: inserts, upserts and deletes in the dialect of the database."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import Any, Final, NamedTuple

import sqlalchemy as sa
from sqlalchemy.dialects.mysql import insert as mysql_insert
from sqlalchemy.dialects.postgresql import insert as postgresql_insert
from sqlalchemy.dialects.sqlite import insert as sqlite_insert
from sqlalchemy.engine import Connection
from sqlalchemy.exc import NoSuchTableError

from headrace.ingest.error import IngestError
from headrace.ingest.event import Event
from headrace.ingest.sql.column_value import BadRow, column_value

UPSERTS: Final = ("postgresql", "sqlite", "mysql", "mariadb")
"""The databases that have an upsert."""
_KEY_LENGTH = 255  # of a text key in a table that is created; MySQL has no key without a length


class Change(NamedTuple):
    """What an event does to the table.

    Attributes:
        values: of the columns of a row; of a delete, only of the key columns.
        partial: the row has more values, which only the table knows: it must be there.
    """

    event: Event
    delete: bool
    values: dict[str, Any]
    partial: bool = False

    @property
    def shape(self) -> tuple[bool, bool, tuple[str, ...]]:
        """Changes of one shape have the same statement."""
        return self.delete, self.partial, tuple(sorted(self.values))


class TableWriter:
    """The statements for one table.

    Changes are executed in their order: neighbours of one shape at once, as many rows of one
    statement. So the last change of a key wins, and a column that a row does not have keeps its
    value, or gets its default.
    """

    def __init__(self, table: sa.Table, keys: Sequence[str], *, upsert: bool) -> None:
        self.table = table
        self._keys = list(keys)
        self._upsert = upsert

    @classmethod
    def of(
        cls,
        connection: Connection,
        name: tuple[str | None, str],
        keys: Sequence[str],
        *,
        upsert: bool,
    ) -> "TableWriter | None":
        """Return the writer of a table as the database describes it; None if there is none.

        Raises:
            IngestError: it has no such key columns.
        """
        try:
            table = sa.Table(name[1], sa.MetaData(), schema=name[0], autoload_with=connection)
        except NoSuchTableError:
            return None
        missing = [key for key in keys if key not in table.columns]
        if missing:
            raise IngestError(f"table {table.fullname} has no column {missing[0]}: see keyColumns")
        if upsert and not _is_unique(connection, table, set(keys)):
            raise IngestError(
                f"table {table.fullname} has no primary key and no unique index of "
                f"{', '.join(keys)}: create one, or write mode = insert"
            )
        return cls(table, keys, upsert=upsert)

    def row(self, event: Event, fields: dict[str, Any], *, partial: bool = False) -> Change:
        """Return the change that writes a row.

        Args:
            partial: an upsert must find the row, which has values that `fields` lacks.

        Raises:
            BadRow: the table does not take it.
        """
        columns = self.table.columns
        unknown = [name for name in fields if name not in columns]
        if unknown:
            raise BadRow(f"table {self.table.fullname} has no column {unknown[0]}")
        for key in self._keys:
            if fields.get(key) is None:
                raise BadRow(f"the key column {key} has no value")
        if not fields:
            raise BadRow("the row has no column")
        return Change(
            event,
            False,
            {name: column_value(columns[name], value) for name, value in fields.items()},
            partial and self._upsert,
        )

    def deletion(self, event: Event, fields: dict[str, Any]) -> Change:
        """Return the change that deletes the row of a key.

        Raises:
            BadRow: a key column has no value, or a wrong one.
        """
        missing = [key for key in self._keys if fields.get(key) is None]
        if missing or not self._keys:
            what = f"the key column {missing[0]} has no value" if missing else "there is no key"
            raise BadRow(what)
        columns = self.table.columns
        return Change(
            event, True, {key: column_value(columns[key], fields[key]) for key in self._keys}
        )

    def write(self, connection: Connection, changes: Iterable[Change]) -> list[Change]:
        """Execute changes in their order, and return the partial ones that found no row."""
        missed: list[Change] = []
        for (delete, partial, names), some in groupby(changes, key=lambda change: change.shape):
            if partial:
                missed += self._update(connection, names, some)
                continue
            rows = [change.values for change in some]
            if delete:
                statement = self._delete()
                rows = [{f"key_{name}": value for name, value in row.items()} for row in rows]
                connection.execute(statement, rows)
            else:
                connection.execute(self.statement(connection.dialect.name, names), rows)
        return missed

    def _update(
        self, connection: Connection, names: Sequence[str], changes: Iterable[Change]
    ) -> Iterator[Change]:
        """Update rows, each by a statement of its own: drivers do not count those of many."""
        # A row of keys alone changes nothing that is there, and must be there all the same.
        others = [name for name in names if name not in self._keys] or self._keys[:1]
        columns = self.table.columns
        for change in changes:
            is_row = [columns[key] == change.values[key] for key in self._keys]
            new = {columns[name]: change.values[name] for name in others}
            if connection.execute(sa.update(self.table).where(*is_row).values(new)).rowcount == 0:
                yield change

    def _delete(self) -> sa.Delete:
        conditions = [
            self.table.columns[key]
            == sa.bindparam(f"key_{key}", type_=self.table.columns[key].type)
            for key in self._keys
        ]
        return sa.delete(self.table).where(*conditions)

    def statement(self, dialect: str, names: Sequence[str]) -> sa.Insert:
        """Return the insert, or the upsert, of rows with these columns."""
        if not self._upsert:
            return sa.insert(self.table)
        others = [name for name in names if name not in self._keys]
        if dialect in ("mysql", "mariadb"):
            mysql = mysql_insert(self.table)
            # A row of keys alone changes nothing that is there.
            kept = others or self._keys[:1]
            return mysql.on_duplicate_key_update({name: mysql.inserted[name] for name in kept})
        make: Any = postgresql_insert if dialect == "postgresql" else sqlite_insert
        insert: Any = make(self.table)
        if not others:
            return insert.on_conflict_do_nothing(index_elements=self._keys)  # type: ignore[no-any-return]
        changed = {name: insert.excluded[name] for name in others}
        return insert.on_conflict_do_update(index_elements=self._keys, set_=changed)  # type: ignore[no-any-return]


def not_deleted_later(missed: Iterable[Change], changes: Sequence[Change]) -> list[Change]:
    """Return those of `missed` whose row no later one of `changes` deletes.

    A batch that comes again after a lost commit updates rows that it has deleted before.
    """
    places = {id(change): place for place, change in enumerate(changes)}
    deleted = [(place, change.values) for place, change in enumerate(changes) if change.delete]
    return [
        each
        for each in missed
        if not any(
            place > places[id(each)] and key.items() <= each.values.items()
            for place, key in deleted
        )
    ]


def create_table(
    connection: Connection,
    name: tuple[str | None, str],
    keys: Sequence[str],
    rows: Sequence[dict[str, Any]],
) -> None:
    """Create a table whose columns have the names and the simplest types of these rows."""
    samples: dict[str, Any] = {}
    for row in rows:
        for field, value in row.items():
            if samples.get(field) is None:
                samples[field] = value
    columns = [
        sa.Column(
            field,
            _type_of(value, key=field in keys),
            primary_key=field in keys,
            autoincrement=False,
            nullable=field not in keys,
        )
        for field, value in samples.items()
    ]
    sa.Table(name[1], sa.MetaData(), *columns, schema=name[0]).create(connection, checkfirst=True)


def _type_of(value: Any, *, key: bool) -> Any:
    match value:
        case bool():
            return sa.Boolean()
        case int():
            return sa.BigInteger()
        case float():
            return sa.Double()
        case dict() | list():
            return sa.JSON()
    return sa.String(_KEY_LENGTH) if key else sa.Text()


def _is_unique(connection: Connection, table: sa.Table, keys: set[str]) -> bool:
    if {column.name for column in table.primary_key} == keys:
        return True
    inspector = sa.inspect(connection)
    constraints = inspector.get_unique_constraints(table.name, schema=table.schema)
    indexes = inspector.get_indexes(table.name, schema=table.schema)
    unique = [set(each["column_names"]) for each in constraints]
    unique += [set(each["column_names"]) for each in indexes if each["unique"]]  # type: ignore[arg-type]
    return keys in unique
