"""Decides what to do with a table that the stream shows for the first time.

The stream has the whole of a table only if nothing was written to it before it was captured. That
is sure in one case: the publication is one of all tables, and the table was created since the
catalog was looked at, has had no other name, and no other file, as it has after SET LOGGED. A table
that was added to the publication, or renamed so that the filter lets it through, has rows that the
stream never sends.
"""

from typing import Final

from headrace.ingest.cdc.postgres.catalog import Catalog
from headrace.ingest.cdc.postgres.pgoutput import Relation
from headrace.ingest.cdc.table_unread import TableUnread

_MOST_NAMES: Final = 100_000
_NO_NAME: Final = ""


class UnseenTables:
    """Knows the relations that the stream has shown since the catalog was looked at.

    Ids of relations rise. After 4 billion of them they begin again, and then no table counts as
    new: its rows are read for nothing, which harms nothing.
    """

    def __init__(self, catalog: Catalog, publication: str) -> None:
        self._catalog = catalog
        self._publication = publication
        self._newest = catalog.newest_relation()
        self._names: dict[int, str] = {}

    def saw(self, relation: Relation) -> None:
        """Take every relation of the stream, also of tables that are not captured."""
        if relation.id <= self._newest:
            return
        if len(self._names) >= _MOST_NAMES:
            self._newest = max(self._names)
            self._names.clear()
        name = f"{relation.schema}.{relation.name}"
        if self._names.setdefault(relation.id, name) != name:
            self._names[relation.id] = _NO_NAME

    def is_streamed(self, relation: Relation) -> bool:
        """Return whether the stream has all of a table that was not read; False for one that cannot
        be read: it is no longer there, no longer published, or a partition that is published as a
        part of its table.

        Raises:
            TableUnread: it has rows that the stream may not have, and the next reading has it.
        """
        name = f"{relation.schema}.{relation.name}"
        catalog, publication = self._catalog, self._publication
        if catalog.is_published(publication, relation):
            is_young = self._names.get(relation.id) == name
            if is_young and catalog.has_first_file(relation.id, publication):
                return True
            if catalog.is_listed(publication, relation):
                raise TableUnread(name)
        if relation.id in self._names:
            self._names[relation.id] = _NO_NAME
        return False
