"""Which tables are captured: Debezium's include and exclude lists."""

import re
from collections.abc import Iterable

from headrace.ingest.settings import Setting, Settings, text

FILTER_SETTINGS: tuple[Setting, ...] = (
    text("schema.include.list", "Regular expressions of schemas, separated by commas."),
    text("schema.exclude.list", "Regular expressions of schemas to leave out."),
    text("table.include.list", "Regular expressions of schema.table, separated by commas."),
    text("table.exclude.list", "Regular expressions of schema.table to leave out."),
)


class TableFilter:
    """Lets tables through by their names; an expression must match a whole name.

    Raises:
        SettingError: a text is no regular expression.
    """

    def __init__(self, settings: Settings, schema_word: str = "schema") -> None:
        self._schemas = _patterns(settings, f"{schema_word}.include.list")
        self._not_schemas = _patterns(settings, f"{schema_word}.exclude.list")
        self._tables = _patterns(settings, "table.include.list")
        self._not_tables = _patterns(settings, "table.exclude.list")

    def includes(self, schema: str, table: str) -> bool:
        """Return whether a table is captured."""
        name = f"{schema}.{table}"
        if self._schemas and not _matches(self._schemas, schema):
            return False
        if self._tables and not _matches(self._tables, name):
            return False
        return not _matches(self._not_schemas, schema) and not _matches(self._not_tables, name)


def _patterns(settings: Settings, key: str) -> list[re.Pattern[str]]:
    patterns = []
    for each in (settings.optional(key) or "").split(","):
        if not each.strip():
            continue
        try:
            patterns.append(re.compile(each.strip()))
        except re.error as error:
            raise settings.wrong(
                key, f"{key}: {each.strip()!r} is no regular expression: {error}"
            ) from None
    return patterns


def _matches(patterns: Iterable[re.Pattern[str]], name: str) -> bool:
    return any(each.fullmatch(name) for each in patterns)
