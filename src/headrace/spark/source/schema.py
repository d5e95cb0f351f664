"""The schema of the source: the connector's columns and types."""

from collections.abc import Mapping, Sequence
from typing import Final

from headrace.model.error import ConfigError

_FIXED: Final[Mapping[str, str]] = {
    "key": "BINARY",
    "value": "BINARY",
    "topic": "STRING",
    "partition": "INT",
    "offset": "BIGINT",
    "timestamp": "TIMESTAMP_LTZ",
    "timestampType": "INT",
    "headers": "ARRAY<STRUCT<`key`: STRING, `value`: BINARY>>",
}


def source_ddl(*, headers: bool, value: str) -> str:
    """Return the schema of the source as Spark's DDL, with `value` as the type of that column.

    The time is TIMESTAMP_LTZ: the meaning of TIMESTAMP depends on spark.sql.timestampType.
    """
    types = {**_FIXED, "value": value}
    if not headers:
        del types["headers"]
    return ", ".join(f"`{name}` {kind}" for name, kind in types.items())


def check_columns(names: Sequence[str], *, headers: bool) -> None:
    """Check a schema that a user gives. It may leave out columns, which then cost nothing.

    Raises:
        ConfigError: it has a column that the source does not have.
    """
    for name in names:
        if name not in _FIXED:
            raise ConfigError(
                f"the source headrace has no column {name}: "
                f"a schema may leave out some of {', '.join(_FIXED)}, but not add to them"
            )
        if name == "headers" and not headers:
            raise ConfigError("for the column headers set the option includeHeaders to true")
