"""`headrace.table.*`: topic configuration that lands a topic in a table.

Rule 1: a name can do no harm where a process lands it. The parts of a path and of a catalog's
table are plain words, so that they name nothing above a folder or a warehouse, and no topic takes
the table of another one's dead letters.
Rule 2: nothing here is a secret, and no key names a file: everyone who may describe a topic reads
it. The process that lands has the logins of catalogs.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, cast

from headrace.model.config import ConfigKey, ConfigType, ConfigValue
from headrace.model.error import ConfigError, InvalidArgument
from headrace.model.table.column import parse_columns
from headrace.model.table.table_name import DEAD_LETTERS, TableKind, TableName

TABLE_KEYS: Final = "headrace.table."
"""How keys begin that say where and how a topic lands."""

FORMATS: Final = ("raw", "json", "registry")
"""How values become columns."""

_NAME: Final = TABLE_KEYS + "name"
_FORMAT: Final = TABLE_KEYS + "format"
_SCHEMA: Final = TABLE_KEYS + "schema"
_KEYS: Final = TABLE_KEYS + "keys"
_ENVELOPE: Final = TABLE_KEYS + "envelope"
_PARTITION_BY: Final = TABLE_KEYS + "partition.by"
_FRESHNESS: Final = TABLE_KEYS + "freshness.ms"
_NO_ENVELOPE: Final = "none"
_DAY_MS: Final = 24 * 60 * 60 * 1000
# A broker reads what any client sends it.
_MOST_CHARACTERS: Final = 20_000
_LONGEST_NAME: Final = 500
_FOLDER: Final = re.compile(r"[^\W_][\w .=@+-]*")
_WORD: Final = re.compile(r"[\w-]+")
_TIME_PARTITION: Final = re.compile(r"(hour|day)\(([^()]+)\)")


def _key(name: str, type_: ConfigType, default: ConfigValue, doc: str, **rest: object) -> ConfigKey:
    return ConfigKey(name=name, type=type_, default=default, doc=doc, **rest)  # type: ignore[arg-type]


TABLE_CONFIG_KEYS: Final = (
    _key(
        _ENVELOPE,
        ConfigType.STRING,
        _NO_ENVELOPE,
        "Of a topic that lands in a table: 'debezium' if its values are change events.",
        choices=(_NO_ENVELOPE, "debezium"),
    ),
    _key(
        _FORMAT,
        ConfigType.STRING,
        "raw",
        "Of a topic that lands in a table: how values become columns. 'raw' keeps bytes, 'json' "
        "makes a column of each field, 'registry' reads Avro by the schemas of a registry.",
        choices=FORMATS,
    ),
    _key(
        _FRESHNESS,
        ConfigType.LONG,
        5_000,
        "Of a topic that lands in a table: how long records wait for a commit.",
        minimum=100,
        maximum=_DAY_MS,
    ),
    _key(
        _KEYS,
        ConfigType.LIST,
        (),
        "Of a topic that lands in a table: the columns that name a row. A later record replaces "
        "the row, one without a value removes it. Without them rows are only added.",
    ),
    _key(
        _NAME,
        ConfigType.STRING,
        "",
        "The table that `headrace land --configured` lands this topic in: "
        "iceberg:CATALOG.DB.TABLE, or delta:PATH below the process's folder. Empty: none.",
    ),
    _key(
        _PARTITION_BY,
        ConfigType.STRING,
        "",
        "Of a topic that lands in a table: hour(COLUMN) or day(COLUMN) splits its files by the "
        "times of a column.",
    ),
    _key(
        _SCHEMA,
        ConfigType.STRING,
        "",
        "Of a topic whose JSON lands in a table: the columns, such as 'page STRING, ms INT'. "
        "Without them the first records show the columns.",
    ),
)
"""The keys, in the order of their names."""

_DEFAULTS: Final = {key.name: key.default for key in TABLE_CONFIG_KEYS}


@dataclass(frozen=True, slots=True, kw_only=True)
class TableConfig:
    """Where and how a topic lands.

    Attributes:
        columns: the declaration of JSON values' columns; None lets the first records show them.
        keys: the columns that name a row, for upserts.
        envelope: debezium, if values are change events.
        partition_by: such as hour(timestamp).
        freshness_ms: how long records wait for a commit.
    """

    name: TableName
    format: str = "raw"
    columns: str | None = None
    keys: tuple[str, ...] = ()
    envelope: str | None = None
    partition_by: str | None = None
    freshness_ms: int = 5_000

    @classmethod
    def of(cls, values: Mapping[str, ConfigValue]) -> "TableConfig | None":
        """Return how a topic lands, of typed values by key; None if it lands nowhere.

        Other keys may be set all the same: without a name they wait for one. They are checked, so
        that a name that comes later finds them sound.

        Raises:
            ConfigError: the keys do not fit together, or one cannot be read.
        """
        found = {**_DEFAULTS, **{key: each for key, each in values.items() if key in _DEFAULTS}}
        texts = {key: str(each) for key, each in found.items()}
        name = texts[_NAME]
        config = cls(
            # Something to check the other keys with; None is returned for it.
            name=_table_name(name) if name else TableName(TableKind.DELTA, "none"),
            format=texts[_FORMAT],
            columns=texts[_SCHEMA] or None,
            keys=cast(tuple[str, ...], found[_KEYS]),
            envelope=None if texts[_ENVELOPE] == _NO_ENVELOPE else texts[_ENVELOPE],
            partition_by=_partition_by(texts[_PARTITION_BY]),
            freshness_ms=cast(int, found[_FRESHNESS]),
        )
        config._check()
        return config if name else None

    def _check(self) -> None:
        """Check that the keys fit together."""
        if self.columns is not None and self.format != "json":
            raise ConfigError(f"{_SCHEMA} declares columns of JSON: set {_FORMAT}=json")
        if self.keys and self.format == "raw":
            raise ConfigError(f"{_KEYS} names columns of values: set {_FORMAT}=json or registry")
        if self.envelope is not None and not self.keys:
            raise ConfigError(f"{_ENVELOPE}={self.envelope} changes rows: name their {_KEYS}=id")
        if self.envelope is not None and self.format == "json" and self.columns is None:
            raise ConfigError(f"change events in JSON need the columns of rows: {_SCHEMA}='id INT'")
        times = self._times()
        if self.partition_by is not None and times is not None:
            column = self.partition_by.partition("(")[2][:-1]
            if column not in times:
                raise ConfigError(
                    f"{_PARTITION_BY}={self.partition_by}: {column} is no column of times; there "
                    f"are {', '.join(times)}"
                )

    def _times(self) -> list[str] | None:
        """Return the columns of times; None while records have to show them. Also check that
        declared columns can be read, and have the keys."""
        if self.format == "raw":
            return ["timestamp"]
        if self.columns is None:
            return None
        if len(self.columns) > _MOST_CHARACTERS:
            raise ConfigError(
                f"{_SCHEMA} has {len(self.columns)} characters: declare the columns in at most "
                f"{_MOST_CHARACTERS}"
            )
        try:
            columns = parse_columns(self.columns)
        except ConfigError as error:
            raise ConfigError(f"{_SCHEMA}: {error}") from None
        names = [each.name for each in columns]
        missing = [each for each in self.keys if each not in names]
        if missing:
            raise ConfigError(f"{_KEYS} has {missing[0]!r}, which is no column of {_SCHEMA}")
        return ["_timestamp", *(each.name for each in columns if each.type.name == "TIMESTAMP")]


def _table_name(text: str) -> TableName:
    if len(text) > _LONGEST_NAME:
        raise ConfigError(f"{_NAME} has {len(text)} characters: write at most {_LONGEST_NAME}")
    try:
        found = TableName.parse(text)
    except InvalidArgument as error:
        raise ConfigError(f"{_NAME}: {error}") from None
    if found.kind is TableKind.ICEBERG:
        for each in found.name.split("."):
            if not _WORD.fullmatch(each):
                raise ConfigError(
                    f"{_NAME}={text}: {each!r} is no part of a name here: write letters, digits, "
                    "_ and -"
                )
        _check_no_dead_letters(text, found.name)
        return found
    if found.name.startswith("file:"):
        raise ConfigError(f"{_NAME}={text}: write the path alone, delta:PATH")
    for each in found.name.removeprefix("/").split("/"):
        if not _FOLDER.fullmatch(each):
            raise ConfigError(
                f"{_NAME}={text}: {each!r} is no folder of a table here: write letters, digits, "
                "spaces and . _ = @ + -, and begin with a letter or digit"
            )
        # Also the folders around: a table must not be inside another one.
        _check_no_dead_letters(text, each)
    return found


def _check_no_dead_letters(text: str, part: str) -> None:
    # Some catalogs and file systems do not tell capitals from small letters.
    if part.lower().endswith(DEAD_LETTERS):
        raise ConfigError(
            f"{_NAME}={text}: names that end in {DEAD_LETTERS} are for the dead letters of other "
            "tables: write another name"
        )


def _partition_by(text: str) -> str | None:
    if not text:
        return None
    found = _TIME_PARTITION.fullmatch(text)
    column = "" if found is None else found[2].strip()
    if found is None or not column:
        raise ConfigError(
            f"{_PARTITION_BY} cannot be {text[:_LONGEST_NAME]!r}: write hour(COLUMN) or day(COLUMN)"
        )
    return f"{found[1]}({column})"
