"""Looks after a publication while its changes are captured.

PostgreSQL sends nothing of a table that has left the publication or of an operation that it does
not publish, and it refuses updates of published tables without a replica identity. The agent warns
of all three.
"""

import time
from collections.abc import Collection
from typing import Final

import structlog

from headrace.ingest.cdc.postgres.catalog import Catalog
from headrace.ingest.cdc.table_filter import TableFilter

_log = structlog.get_logger(__name__)
_LOOK_SECONDS: Final = 10.0


class PublicationWatch:
    """Warns of what a publication does not send.

    Args:
        source: the name of the source, for the log.
        skipped: the operations that the user does not want: some of c, u, d, t.
    """

    def __init__(
        self,
        catalog: Catalog,
        publication: str,
        tables: TableFilter,
        source: str,
        skipped: Collection[str],
    ) -> None:
        self._catalog = catalog
        self._publication = publication
        self._filter = tables
        self._source = source
        self._published = self._names()
        self._looked_at = time.monotonic()
        self._warn_of_operations(skipped)
        self._warn_of_identities()

    def check(self) -> None:
        """Warn of tables that have left the publication since the last look; call it often."""
        now = time.monotonic()
        if now - self._looked_at < _LOOK_SECONDS:
            return
        self._looked_at = now
        published = self._names()
        for each in sorted(self._published - published):
            _log.warning(
                "table_left_publication",
                source=self._source,
                table=each,
                reason=f"it was dropped, renamed or removed from publication {self._publication}: "
                "changes of it are not captured. With publication.autocreate.mode = filtered the "
                "agent adds it and reads it again at its next start; otherwise write ALTER "
                f"PUBLICATION {self._publication} ADD TABLE {each}",
            )
        self._published = published

    def _names(self) -> set[str]:
        names = self._catalog.published_names(self._publication)
        return {f"{schema}.{name}" for schema, name in names if self._filter.includes(schema, name)}

    def _warn_of_operations(self, skipped: Collection[str]) -> None:
        lacking = self._catalog.unpublished_operations(self._publication) - set(skipped)
        if lacking:
            _log.warning(
                "operations_not_published",
                source=self._source,
                operations=",".join(sorted(lacking)),
                reason=f"publication {self._publication} does not publish them: write ALTER "
                f"PUBLICATION {self._publication} SET (publish = 'insert, update, delete, "
                "truncate')",
            )

    def _warn_of_identities(self) -> None:
        for table in self._catalog.published(self._publication, self._filter):
            if table.identity == "n" or (table.identity == "d" and not table.has_key):
                _log.warning(
                    "updates_refused",
                    source=self._source,
                    table=table.identifier,
                    reason="without a replica identity PostgreSQL refuses updates and deletes of "
                    "a published table: add a primary key, or ALTER TABLE ... REPLICA IDENTITY "
                    "FULL",
                )
