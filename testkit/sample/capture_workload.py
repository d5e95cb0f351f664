"""A generated workload of a PostgreSQL database, to hold two captures of it against each other.

The tables have every kind of replica identity and key, large values that are not stored in their
row, and every type that change capture knows. The transactions insert, update and delete, move rows
to other keys, undo parts of themselves, truncate, and change the tables' columns on the way.
"""

import json
from collections.abc import Callable
from random import Random
from typing import Any, Final
from uuid import UUID

import psycopg

FENCE: Final = "fence"
"""The table whose only row is written last."""

# By table: its columns, and the replica identity where it is not the default.
_TABLES: Final = {
    "account": (
        "id int PRIMARY KEY, name text NOT NULL, balance numeric(12, 2) NOT NULL, "
        "active bool NOT NULL DEFAULT true, since timestamptz, note varchar(40)",
        "",
    ),
    "line": (
        "item int, order_id int, product text, quantity smallint, price numeric, "
        "PRIMARY KEY (order_id, item)",
        "",
    ),
    "document": ("id uuid PRIMARY KEY, revision int NOT NULL, body text, raw bytea", ""),
    "journal": ("id bigint PRIMARY KEY, body text, meta jsonb, raw bytea", "FULL"),
    "tick": ("at timestamp, value double precision", ""),
    "keyless": ("n int, t text", "FULL"),
    "coded": ("id int PRIMARY KEY, code text NOT NULL UNIQUE, n int", "USING INDEX coded_code_key"),
    "preset": (
        "id int PRIMARY KEY, a int NOT NULL DEFAULT -3, b text NOT NULL DEFAULT 'it is', "
        "c numeric(6, 2) NOT NULL DEFAULT 1.5, d bool NOT NULL DEFAULT false, "
        "e timestamp NOT NULL DEFAULT '2020-01-01 10:00', g date NOT NULL DEFAULT '2020-02-29', "
        "h double precision NOT NULL DEFAULT 2.5, i jsonb NOT NULL DEFAULT '{}', "
        "m uuid NOT NULL DEFAULT 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11', n int DEFAULT 7",
        "",
    ),
    "computed": (
        "id int PRIMARY KEY, a int, twice int GENERATED ALWAYS AS (a * 2) STORED, n bigserial, "
        "made timestamptz(3) NOT NULL DEFAULT now(), day date NOT NULL DEFAULT CURRENT_DATE, "
        "tag uuid NOT NULL DEFAULT gen_random_uuid(), low text NOT NULL DEFAULT lower('ABC'), "
        "both_texts text DEFAULT ('a' || 'b'), free numeric NOT NULL DEFAULT random(), "
        "yes bool NOT NULL DEFAULT (1 = 1), at timestamptz DEFAULT CURRENT_TIMESTAMP, "
        "clock time NOT NULL DEFAULT LOCALTIME, share float8 NOT NULL DEFAULT random(), "
        "price numeric(8, 2) NOT NULL DEFAULT random(), who text DEFAULT CURRENT_USER, "
        "sum int NOT NULL DEFAULT (1 + 1), doc jsonb NOT NULL DEFAULT jsonb_build_object('a', 1)",
        "",
    ),
    FENCE: ("id int PRIMARY KEY", ""),
}
_DAYS: Final = (
    *("'infinity'", "'-infinity'", "'0044-03-15 BC'", "'0001-01-01 BC'", "'4713-01-01 BC'"),
    *("'0001-01-01'", "'1500-03-01'", "'1582-10-04'", "'12345-06-07'"),
)
# Times that only the stream has: what Debezium reads first loses the era of a date.
_EONS: Final = {
    "a_date": "date",
    "a_timestamp": "timestamp",
    "a_short_timestamp": "timestamp(3)",
    "a_timestamptz": "timestamptz",
    "a_short_timestamptz": "timestamptz(3)",
    "a_whole_timestamptz": "timestamptz(0)",
}
# By column of the table of types: its type, and literals to choose from.
_KINDS: Final = {
    "a_smallint": ("smallint", ("-32768", "0", "32767")),
    "a_bigint": ("bigint", ("-9223372036854775808", "9007199254740993")),
    "a_real": ("real", ("1.5", "'NaN'", "1e-7", "3.4e38", "'-Infinity'", "0.1", "100")),
    "a_double": ("double precision", ("0.1", "'NaN'", "1e300", "-0", "5", "1e7", "1e-5", "1e22")),
    "a_bool": ("boolean", ("true", "false")),
    "a_numeric": ("numeric(8, 2)", ("-1.28", "0", "999999.99")),
    "a_whole": ("numeric(5)", ("12345", "-1")),
    "a_free": ("numeric", ("12.345", "-100", "0.000001", "1e20")),
    "a_money": ("money", ("'$1,234.50'", "'-0.01'")),
    "a_char": ("char(3)", ("'a'", "''")),
    "a_varchar": ("varchar(9)", ("'a\"b\\ü'", "'\U0001f600'", "E'\\n\\t'")),
    "a_bytea": ("bytea", ("'\\x00ff'", "''")),
    "a_date": ("date", ("'2020-02-29'", "'1969-12-31'")),
    "a_time": ("time", ("'12:00:00.5'", "'00:00'", "'23:59:59.999999'")),
    "a_short_time": ("time(3)", ("'12:00:00.5'", "'00:00'")),
    "a_timestamp": (
        "timestamp",
        ("'1969-12-31 23:59:59.999999'", "'2001-09-09 01:46:40.123456'", "'infinity'"),
    ),
    "a_short_timestamp": ("timestamp(3)", ("'2001-09-09 01:46:40.1239'", "'1960-01-01 00:00'")),
    "a_timestamptz": (
        "timestamptz",
        ("'2020-01-01 12:00:00.25+02'", "'1970-01-01 00:00+00'", "'2024-07-01 10:00:00.123456+00'"),
    ),
    "a_short_timestamptz": ("timestamptz(3)", ("'2020-01-01 12:00:00.25+02'", "'infinity'")),
    "a_whole_timestamptz": ("timestamptz(0)", ("'2020-01-01 12:00:00.75+02'",)),
    "a_timetz": ("timetz", ("'01:00:00+03'", "'12:30:00.5-05:30'")),
    "an_interval": ("interval", ("'1 mon -1 day 00:00:01'", "'2 years'", "'-00:00:00.5'")),
    "a_uuid": ("uuid", ("'A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11'",)),
    "a_json": ("json", ("'{\"a\":  [1]}'", "'null'")),
    "a_jsonb": ("jsonb", ('\'{"b": 1, "a": [1]}\'', "'3'")),
    "an_xml": ("xml", ("'<a>1</a>'",)),
    "a_bit": ("bit(1)", ("B'1'", "B'0'")),
    "some_bits": ("bit(9)", ("B'100000001'", "B'000000000'")),
    "more_bits": ("bit varying(12)", ("B'101'", "B''")),
    "an_oid": ("oid", ("42",)),
    "a_point": ("point", ("'(1.5,-2)'", "'(1e7,0)'")),
    "an_inet": ("inet", ("'10.1.2.3/8'", "'::1'")),
    "a_cidr": ("cidr", ("'10.0.0.0/8'",)),
    "a_macaddr": ("macaddr", ("'08:00:2b:01:02:03'",)),
    "a_range": ("int4range", ("'[1,5)'", "'empty'")),
    "a_time_range": ("tstzrange", ("'[2020-01-01 00:00+00, 2020-01-02 00:00+00)'",)),
    "a_mood": ("{schema}.mood", ("'happy'", "'so so'")),
    "an_age": ("{schema}.age", ("7", "120")),
    "some_ints": ("int[]", ("'{1,NULL,-3}'", "'{}'")),
    "some_texts": ("text[]", ('\'{"a,b","","NULL"}\'', "'{x}'")),
    "some_dates": ("date[]", ("'{2020-02-29}'",)),
    "some_numerics": ("numeric(6, 2)[]", ("'{1.28,-3}'",)),
    "some_times": ("timestamptz[]", ("'{2020-01-01 12:00:00+02}'",)),
    "some_short_times": ("timestamptz(3)[]", ("'{2020-01-01 12:00:00+02}'",)),
    "some_uuids": ("uuid[]", ("'{A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11}'",)),
}

_SCHEMA_CHANGES: Final = (
    "ALTER TABLE account ADD level int NOT NULL DEFAULT 3",
    "ALTER TABLE coded ALTER n TYPE bigint",
    "ALTER TABLE account DROP note",
    "ALTER TABLE keyless ADD added text",
    "ALTER TABLE line RENAME product TO article",
)


class CaptureWorkload:
    """Transactions of one schema; the same seed writes the same.

    Args:
        database: in autocommit mode.
    """

    def __init__(self, database: "psycopg.Connection[Any]", schema: str, seed: int = 1) -> None:
        self._database = database
        self._schema = schema
        self._dice = Random(seed)
        # By table: the keys of its rows, as SQL.
        names = (*_TABLES, "kinds", "strict", "eon")
        self._keys: dict[str, list[str]] = {name: [] for name in names}
        self._next = 0

    @property
    def tables(self) -> list[str]:
        return list(self._keys)

    def create(self) -> None:
        """Create the tables, with some rows in most of them."""
        schema = self._schema
        self._run(f"CREATE SCHEMA {schema}")
        self._run(f"SET search_path = {schema}")
        self._run("CREATE TYPE mood AS ENUM ('happy', 'so so')")
        self._run("CREATE DOMAIN age AS smallint CHECK (value > 0)")
        for name, (columns, identity) in _TABLES.items():
            self._run(f"CREATE TABLE {name} ({columns})")
            if identity:
                self._run(f"ALTER TABLE {name} REPLICA IDENTITY {identity}")
        kinds = ", ".join(f"{name} {kind}" for name, (kind, _) in _KINDS.items())
        self._run(f"CREATE TABLE kinds (id int PRIMARY KEY, {kinds})".format(schema=schema))
        kinds = ", ".join(f"{name} {kind} NOT NULL" for name, (kind, _) in _KINDS.items())
        self._run(f"CREATE TABLE strict (id int PRIMARY KEY, {kinds})".format(schema=schema))
        eons = ", ".join(f"{name} {kind}" for name, kind in _EONS.items())
        self._run(f"CREATE TABLE eon (id int PRIMARY KEY, {eons})")
        for table in ("document", "journal"):
            self._run(f"ALTER TABLE {table} ALTER body SET STORAGE EXTERNAL")
            self._run(f"ALTER TABLE {table} ALTER raw SET STORAGE EXTERNAL")
        filled = [each for each in self._writers if each != "eon"]
        for _ in range(60):
            self._run(self._insert(self._dice.choice(filled)))

    def run(self, transactions: int) -> None:
        """Commit this many transactions, and then the row of the fence."""
        step = max(transactions // (len(_SCHEMA_CHANGES) + 1), 1)
        changes = {step * (at + 1): change for at, change in enumerate(_SCHEMA_CHANGES)}
        for number in range(transactions):
            statements = self._transaction()
            if number in changes:
                statements.insert(self._dice.randrange(len(statements) + 1), changes[number])
            self._run("BEGIN; " + "; ".join(statements) + "; COMMIT")
        self._run_replicated(self._transaction())
        self._run(f"INSERT INTO {FENCE} VALUES (1)")

    def _run_replicated(self, statements: list[str]) -> None:
        """Commit a transaction that says that it came from another server."""
        origin = f"{self._schema}_origin"
        self._run(f"SELECT pg_replication_origin_create('{origin}')")
        self._run(f"SELECT pg_replication_origin_session_setup('{origin}')")
        came = "SELECT pg_replication_origin_xact_setup('0/1234', now())"
        self._run("BEGIN; " + "; ".join([came, *statements]) + "; COMMIT")
        self._run("SELECT pg_replication_origin_session_reset()")

    def _run(self, statements: str) -> None:
        self._database.execute(statements.encode())

    # -- transactions --------------------------------------------------------------------------

    def _transaction(self) -> list[str]:
        size = self._dice.choices((1, 2, 5, 30), (60, 25, 14, 1))[0]
        statements = [self._change() for _ in range(size)]
        if self._dice.random() < 0.05:  # keys that do not come back: none of it is seen
            number = self._number()
            undone = f"INSERT INTO account (id, name, balance) VALUES ({number}, 'undone', 0)"
            statements += ["SAVEPOINT s", undone, "ROLLBACK TO SAVEPOINT s"]
        if self._dice.random() < 0.005:
            statements.append("TRUNCATE keyless")
            self._keys["keyless"].clear()
        return statements

    def _change(self) -> str:
        table = self._dice.choice([*self._writers])
        keys = self._keys[table]
        if not keys or self._dice.random() < 0.4:
            return self._insert(table)
        if self._dice.random() < 0.3:
            key = keys.pop(self._dice.randrange(len(keys)))
            return f"DELETE FROM {table} WHERE {key}"
        return self._update(table, self._dice.randrange(len(keys)))

    def _insert(self, table: str) -> str:
        key, values = self._writers[table](self)
        if key:
            self._keys[table].append(key)
        return f"INSERT INTO {table} {values}"

    def _update(self, table: str, at: int) -> str:
        keys, dice = self._keys[table], self._dice
        key, number = keys[at], self._number()
        if table == "keyless":
            keys[at] = f"n = {number}"
            return f"UPDATE keyless SET n = {number}, t = {self._text()} WHERE {key}"
        moved = dice.random() < 0.1
        match table:
            case "account":
                changed = f"balance = {dice.randrange(-(10**9), 10**9) / 100}, name = 'renamed'"
            case "line":
                changed = f"quantity = {dice.randrange(100)}"
            case "document":
                changed = f"revision = {number}"
                if dice.random() < 0.3:
                    changed += f", body = {self._body()}"
            case "journal":
                changed = f"meta = '{json.dumps({'n': number})}'"
            case "coded":
                changed = f"n = {number}"
            case "preset":
                changed = f"n = {dice.choice(('NULL', '8'))}"
            case "computed":
                changed = f"a = {number}"
            case "eon":
                changed = f"{dice.choice([*_EONS])} = {dice.choice(_DAYS)}"
            case _:
                column = dice.choice([*_KINDS])
                changed = f"{column} = {dice.choice(_KINDS[column][1])}"
        if moved and table not in ("document", "line"):
            name = "code" if table == "coded" else "id"
            value = f"'moved {number}'" if table == "coded" else str(number)
            keys[at] = f"{name} = {value}"
            changed += f", {keys[at]}"
        return f"UPDATE {table} SET {changed} WHERE {key}"

    def _number(self) -> int:
        self._next += 1
        return self._next

    def _text(self) -> str:
        return self._dice.choice(("'plain'", "''", "'Käse, \"quoted\" ''text'' \\'", "NULL", "'✓'"))

    def _body(self) -> str:
        return f"repeat('{self._dice.randrange(10**9)} ', {self._dice.choice((1, 400))})"

    # -- rows: the key as a condition, and what is inserted ------------------------------------

    def _account(self) -> tuple[str, str]:
        number, dice = self._number(), self._dice
        since = dice.choice(("NULL", "'2024-01-01 10:00+01'", "now()"))
        balance = dice.randrange(10**6) / 100
        return (
            f"id = {number}",
            f"(id, name, balance, since) VALUES ({number}, 'n{number}', {balance}, {since})",
        )

    def _line(self) -> tuple[str, str]:
        number, dice = self._number(), self._dice
        order, item = divmod(number, 4)
        price = dice.choice(("NULL", "1.10", "99", "0.001"))
        return (
            f"order_id = {order} AND item = {item}",
            f"VALUES ({item}, {order}, {self._text()}, {dice.randrange(9)}, {price})",
        )

    def _document(self) -> tuple[str, str]:
        identity = UUID(int=self._dice.getrandbits(128))
        raw = f"'\\x{self._dice.randbytes(2000).hex()}'"
        return f"id = '{identity}'", f"VALUES ('{identity}', 1, {self._body()}, {raw})"

    def _journal(self) -> tuple[str, str]:
        number = self._number()
        return f"id = {number}", f"VALUES ({number}, {self._body()}, '{{}}', '\\x01')"

    def _tick(self) -> tuple[str, str]:
        value = self._dice.choice((self._dice.random(), 0.5, 1e10))
        return "", f"VALUES ('2020-01-01 00:00:00.{self._number():06}', {value})"

    def _keyless(self) -> tuple[str, str]:
        number = self._number()
        return f"n = {number}", f"VALUES ({number}, {self._text()})"

    def _coded(self) -> tuple[str, str]:
        number = self._number()
        return f"code = 'c{number}'", f"VALUES ({number}, 'c{number}', 0)"

    def _kinds(self) -> tuple[str, str]:
        number, dice = self._number(), self._dice
        values = [
            "NULL" if dice.random() < 0.1 else dice.choice(literals)
            for _, literals in _KINDS.values()
        ]
        return f"id = {number}", f"VALUES ({number}, {', '.join(values)})"

    def _strict(self) -> tuple[str, str]:
        number = self._number()
        values = [self._dice.choice(literals) for _, literals in _KINDS.values()]
        return f"id = {number}", f"VALUES ({number}, {', '.join(values)})"

    def _preset(self) -> tuple[str, str]:
        number = self._number()
        return f"id = {number}", f"(id) VALUES ({number})"

    def _computed(self) -> tuple[str, str]:
        number = self._number()
        return f"id = {number}", f"(id, a) VALUES ({number}, {self._dice.randrange(99)})"

    def _eon(self) -> tuple[str, str]:
        number = self._number()
        values = [self._dice.choice(_DAYS) for _ in _EONS]
        return f"id = {number}", f"VALUES ({number}, {', '.join(values)})"

    _writers: Final[dict[str, Callable[["CaptureWorkload"], tuple[str, str]]]] = {
        "account": _account,
        "line": _line,
        "document": _document,
        "journal": _journal,
        "tick": _tick,
        "keyless": _keyless,
        "coded": _coded,
        "kinds": _kinds,
        "strict": _strict,
        "preset": _preset,
        "computed": _computed,
        "eon": _eon,
    }
