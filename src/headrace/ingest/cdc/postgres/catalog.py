"""What change capture asks PostgreSQL's catalog, and the publication it makes."""

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from headrace.ingest.cdc.postgres.captured_table import ColumnDefault, TableFacts
from headrace.ingest.cdc.postgres.column_default import default_text
from headrace.ingest.cdc.postgres.column_type import PostgresType
from headrace.ingest.cdc.postgres.lsn import parse_lsn
from headrace.ingest.cdc.postgres.pgoutput import Relation, RelationColumn
from headrace.ingest.cdc.postgres.transaction_snapshot import TransactionSnapshot
from headrace.ingest.cdc.table_filter import TableFilter
from headrace.ingest.error import IngestError

if TYPE_CHECKING:
    import psycopg

_COLUMNS_SQL = """
    SELECT a.attname, a.atttypid, a.atttypmod, a.attnotnull, t.typname,
           array_position((i.indkey::smallint[])[0:i.indnkeyatts - 1], a.attnum),
           pg_get_expr(d.adbin, d.adrelid), a.attgenerated <> ''
    FROM pg_attribute a
    JOIN pg_class c ON c.oid = a.attrelid
    JOIN pg_type t ON t.oid = a.atttypid
    LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
    LEFT JOIN pg_index i ON i.indrelid = a.attrelid
        AND CASE c.relreplident WHEN 'i' THEN i.indisreplident ELSE i.indisprimary END
    WHERE a.attrelid = %s AND a.attnum > 0 AND NOT a.attisdropped
    ORDER BY a.attnum
"""
_TABLES_SQL = """
    SELECT n.nspname, c.relname, c.oid, c.relreplident, c.relfilenode,
           EXISTS (SELECT 1 FROM pg_index i WHERE i.indrelid = c.oid AND i.indisprimary),
           c.relkind
    FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
"""
_OPERATIONS: Final = "cudt"
# Changes of partitions are sent as those of the table that they belong to.
_VIA_ROOT: Final = " WITH (publish_via_partition_root = true)"
_PARTITIONS_SQL = """
    SELECT m.nspname, r.relname, t.schemaname, t.tablename
    FROM pg_publication_tables t
    JOIN pg_publication p ON p.pubname = t.pubname AND NOT p.pubviaroot
    JOIN pg_namespace n ON n.nspname = t.schemaname
    JOIN pg_class c ON c.relnamespace = n.oid AND c.relname = t.tablename AND c.relispartition
    JOIN pg_class r ON r.oid = pg_partition_root(c.oid)
    JOIN pg_namespace m ON m.oid = r.relnamespace
    WHERE t.pubname = %s ORDER BY 1, 2, 3, 4
"""


class Slot(NamedTuple):
    """A replication slot; `lost`: the server has removed WAL that it needs."""

    lsn: int
    active: bool
    lost: bool
    plugin: str
    database: str


class PublishedTable(NamedTuple):
    """A table of a publication.

    Attributes:
        columns: the published ones, and those that the server computes.
        rows: the condition of published rows; None for all.
        file: changes when the table is truncated.
        kind: `relkind`: r, or p for one with partitions.
    """

    schema: str
    name: str
    id: int
    identity: str
    has_key: bool
    file: int
    columns: tuple[RelationColumn, ...]
    facts: TableFacts
    rows: str | None
    kind: str = "r"

    @property
    def identifier(self) -> str:
        return f"{self.schema}.{self.name}"


class Catalog:
    """Queries on one connection; in a snapshot's transaction they show the catalog of its time."""

    def __init__(self, connection: "psycopg.Connection[Any]") -> None:
        self._connection = connection

    def check_server(self) -> str:
        """Return the name of the database.

        Raises:
            IngestError: the server does not write logical changes.
        """
        level, database = self._row("SELECT current_setting('wal_level'), current_database()")
        if level != "logical":
            raise IngestError(
                f"PostgreSQL has wal_level = {level}: set wal_level = logical in postgresql.conf "
                "and restart the server"
            )
        return str(database)

    def slot(self, name: str) -> Slot | None:
        """Return a slot, or None without one."""
        cursor = self._connection.execute(
            "SELECT * FROM pg_replication_slots WHERE slot_name = %s", [name]
        )
        row = cursor.fetchone()
        if row is None:
            return None
        columns = [each.name for each in cursor.description or ()]
        fields = dict(zip(columns, row, strict=True))
        confirmed = fields.get("confirmed_flush_lsn")
        return Slot(
            parse_lsn(confirmed) if confirmed else 0,
            bool(fields["active"]),
            fields.get("wal_status") == "lost" or bool(fields.get("conflicting")),
            str(fields["plugin"]),
            str(fields["database"]),
        )

    def log_end(self) -> int:
        """Return the position up to which the server has written its log."""
        (lsn,) = self._row(
            "SELECT (CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn() "
            "ELSE pg_current_wal_lsn() END)::text"
        )
        return parse_lsn(lsn)

    def drop_slot(self, name: str) -> None:
        self._connection.execute("SELECT pg_drop_replication_slot(%s)", [name])

    def current_snapshot(self) -> tuple[TransactionSnapshot, int]:
        """Return what the current transaction sees, and a position after all of it."""
        snapshot, lsn = self._row(
            "SELECT pg_current_snapshot()::text, pg_current_wal_insert_lsn()::text"
        )
        return TransactionSnapshot.parse(snapshot), parse_lsn(lsn)

    def next_transaction(self) -> int:
        """Return an id that is above those of all transactions that have changed something."""
        (snapshot,) = self._row("SELECT pg_current_snapshot()::text")
        return TransactionSnapshot.parse(snapshot).xmax

    def newest_relation(self) -> int:
        """Return the highest id of all relations; those of later ones are above it."""
        (newest,) = self._row("SELECT max(oid)::bigint FROM pg_class")
        return int(newest)

    def is_published(self, publication: str, relation: Relation) -> bool:
        """Return whether a table is in a publication now, by its name and not as a partition of
        another one. Where all tables are, none of them is looked up: there may be very many."""
        name = relation.schema, relation.name
        row = self._connection.execute(
            "SELECT p.puballtables, p.pubviaroot AND c.relispartition, n.nspname, c.relname "
            "FROM pg_publication p, pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace "
            "WHERE p.pubname = %s AND c.oid = %s",
            [publication, relation.id],
        ).fetchone()
        if row is None or row[2:] != name:
            return False
        return not row[1] if row[0] else self.is_listed(publication, relation)

    def is_listed(self, publication: str, relation: Relation) -> bool:
        """Return whether `published` has a table of this name. It has no table that is unlogged
        now, and none whose partitions are published one by one. It takes as long as `published`."""
        found = self._connection.execute(
            "SELECT 1 FROM pg_publication_tables "
            "WHERE pubname = %s AND schemaname = %s AND tablename = %s",
            [publication, relation.schema, relation.name],
        ).fetchone()
        return found is not None

    def has_first_file(self, relation: int, publication: str) -> bool:
        """Return whether a table of a publication of all tables has the file that it was created
        with. A table that is written again as a whole gets another, and its rows are not logged."""
        row = self._connection.execute(
            "SELECT p.puballtables AND c.relkind = 'r' AND c.relfilenode = c.oid "
            "FROM pg_class c, pg_publication p WHERE c.oid = %s AND p.pubname = %s",
            [relation, publication],
        ).fetchone()
        return row is not None and bool(row[0])

    def type(self, type_id: int) -> PostgresType:
        """Return a type; an unknown one is a text."""
        row = self._connection.execute(
            "SELECT typname, typtype, CASE WHEN typcategory = 'A' THEN typelem ELSE 0 END, "
            "typbasetype, typtypmod, ARRAY(SELECT enumlabel::text FROM pg_enum "
            "WHERE enumtypid = t.oid ORDER BY enumsortorder) FROM pg_type t WHERE oid = %s",
            [type_id],
        ).fetchone()
        if row is None:
            return PostgresType("text")
        name, kind, element, base, modifier, labels = row
        return PostgresType(name, kind, element, base, modifier, tuple(labels))

    def facts(self, relation: int) -> TableFacts:
        """Return what the stream does not send of a table."""
        rows = self._connection.execute(_COLUMNS_SQL, [relation]).fetchall()
        return _facts(rows)

    def ensure_publication(self, name: str, mode: str, tables: TableFilter) -> list[str]:
        """Create a publication, or add the tables that it lacks. Return the names of these.

        Args:
            mode: `publication.autocreate.mode`: filtered, all_tables or disabled.

        Raises:
            IngestError: it does not exist and must not be made, no table matches, or it sends a
                matching table's changes as those of partitions that do not match.
        """
        from psycopg import sql

        exists = self._connection.execute(
            "SELECT puballtables FROM pg_publication WHERE pubname = %s", [name]
        ).fetchone()
        identifier = sql.Identifier(name)
        missing: list[tuple[str, str]] = []
        if mode == "disabled":
            if exists is None:
                raise IngestError(
                    f"there is no publication {name}: write CREATE PUBLICATION {name} FOR TABLE "
                    "..., or set publication.autocreate.mode = filtered"
                )
        elif mode == "all_tables":
            if exists is None:
                statement = sql.SQL("CREATE PUBLICATION {} FOR ALL TABLES" + _VIA_ROOT)
                self._connection.execute(statement.format(identifier))
        elif exists is None or not exists[0]:
            missing = self._unpublished(name, tables)
            if exists is None and not missing:
                raise IngestError(
                    "no table matches table.include.list: write schema.table, as public.orders"
                )
            if missing:
                names = sql.SQL(", ").join(sql.Identifier(*each) for each in missing)
                verb = "CREATE PUBLICATION {} FOR TABLE {}" + _VIA_ROOT
                verb = verb if exists is None else "ALTER PUBLICATION {} ADD TABLE {}"
                self._connection.execute(sql.SQL(verb).format(identifier, names))
        self._check_partitions(name, tables)
        return [f"{schema}.{table}" for schema, table in missing]

    def _check_partitions(self, publication: str, tables: TableFilter) -> None:
        for schema, name, leaf_schema, leaf in self._connection.execute(
            _PARTITIONS_SQL, [publication]
        ).fetchall():
            if tables.includes(schema, name) and not tables.includes(leaf_schema, leaf):
                raise IngestError(
                    f"publication {publication} sends the changes of {schema}.{name} as those of "
                    f"its partitions, and table.include.list leaves out {leaf_schema}.{leaf}: "
                    f"write ALTER PUBLICATION {publication} SET (publish_via_partition_root = "
                    "true)"
                )

    def _unpublished(self, publication: str, tables: TableFilter) -> list[tuple[str, str]]:
        rows = self._connection.execute(
            "SELECT n.nspname, c.relname FROM pg_class c JOIN pg_namespace n "
            "ON n.oid = c.relnamespace WHERE c.relkind IN ('r', 'p') AND c.relpersistence = 'p' "
            "AND NOT c.relispartition AND n.nspname NOT IN ('pg_catalog', 'information_schema') "
            "AND NOT EXISTS (SELECT 1 FROM pg_publication_rel r JOIN pg_publication p "
            "ON p.oid = r.prpubid WHERE r.prrelid = c.oid AND p.pubname = %s) ORDER BY 1, 2",
            [publication],
        ).fetchall()
        return [(schema, name) for schema, name in rows if tables.includes(schema, name)]

    def published_names(self, publication: str) -> list[tuple[str, str]]:
        """Return the schemas and names of a publication's tables; none without the publication."""
        return self._connection.execute(
            "SELECT schemaname, tablename FROM pg_publication_tables WHERE pubname = %s",
            [publication],
        ).fetchall()

    def unpublished_operations(self, publication: str) -> set[str]:
        """Return the operations that a publication does not send: some of c, u, d, t."""
        row = self._connection.execute(
            "SELECT pubinsert, pubupdate, pubdelete, pubtruncate FROM pg_publication "
            "WHERE pubname = %s",
            [publication],
        ).fetchone()
        sent = row or (True,) * len(_OPERATIONS)
        return {op for op, is_sent in zip(_OPERATIONS, sent, strict=True) if not is_sent}

    def published(self, publication: str, tables: TableFilter) -> list[PublishedTable]:
        """Return the tables of a publication that the filter lets through, by name."""
        rows = self._connection.execute(
            "SELECT * FROM pg_publication_tables WHERE pubname = %s ORDER BY 2, 3", [publication]
        )
        names = [each.name for each in rows.description or ()]
        found = []
        for row in rows.fetchall():
            fields = dict(zip(names, row, strict=True))
            if tables.includes(fields["schemaname"], fields["tablename"]):
                found.append(self._published(fields))
        return [each for each in found if each is not None]

    def _published(self, fields: dict[str, Any]) -> PublishedTable | None:
        row = self._connection.execute(
            _TABLES_SQL + "WHERE n.nspname = %s AND c.relname = %s",
            [fields["schemaname"], fields["tablename"]],
        ).fetchone()
        if row is None:
            return None
        schema, name, identity, replica_identity, file, has_key, kind = row
        columns = self._connection.execute(_COLUMNS_SQL, [identity]).fetchall()
        published = fields.get("attnames")
        if published is not None and set(published) == {row[0] for row in columns if not row[7]}:
            published = None  # all that are sent; the rows that are read first have computed ones
        return PublishedTable(
            schema,
            name,
            identity,
            replica_identity,
            has_key,
            file,
            tuple(
                RelationColumn(False, column, type_id, modifier)
                for column, type_id, modifier, *_ in columns
                if published is None or column in published
            ),
            _facts(columns),
            fields.get("rowfilter"),
            kind,
        )

    def _row(self, query: str) -> Any:
        row = self._connection.execute(query).fetchone()
        assert row is not None
        return row


def _facts(rows: list[Any]) -> TableFacts:
    stored = [row for row in rows if not row[7]]  # computed columns are not in the stream
    key = sorted((row for row in stored if row[5] is not None), key=lambda row: row[5])
    return TableFacts(
        tuple(row[0] for row in key),
        frozenset(row[0] for row in rows if row[3]),
        tuple(row[4] for row in key),
        tuple(
            ColumnDefault(row[0], text, row[1], row[2])
            for row in stored
            if (text := default_text(row[6], row[4])) is not None
        ),
    )
