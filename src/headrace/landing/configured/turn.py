"""One turn of a topic: lands it from where its table is up to its end, or for some time.

A turn opens the table and begins where the table's offsets are. So it does not matter how the last
one ended, and nothing is kept in memory between two.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from headrace.client.settings import ClientSettings
from headrace.landing.column_ddl import columns_of
from headrace.landing.committer import Landed
from headrace.landing.configured.configured_topic import ConfiguredTopic
from headrace.landing.configured.table_folder import TableFolder
from headrace.landing.lander import Lander, LandingOptions
from headrace.landing.row.choice import row_decoder
from headrace.landing.source import Source
from headrace.model.table.table_name import TableKind
from headrace.serde.registry_client import RegistryClient

# Several turns at once, and a turn that finds a table away is repeated later.
_BYTES_IN_FLIGHT: Final = 8 * 1024 * 1024
_RETRY_SECONDS: Final = 5.0


@dataclass(frozen=True, slots=True)
class TurnSettings:
    """What all turns of a process share.

    Attributes:
        folder: where Delta tables are.
        catalogs: properties of Iceberg catalogs by their names, beside those of PyIceberg's own
            configuration.
        registry: for topics whose values name their schemas.
        skip_lost: go on behind records that a topic no longer has.
    """

    client: ClientSettings
    folder: TableFolder
    catalogs: Mapping[str, Mapping[str, str]] = field(default_factory=dict, repr=False)
    registry: RegistryClient | None = None
    skip_lost: bool = False


@dataclass(frozen=True, slots=True)
class TurnResult:
    """What a turn has landed.

    Attributes:
        rows: how many rows the table has; None if there is no table yet.
    """

    landed: Landed
    rows: int | None


def take_turn(
    settings: TurnSettings,
    topic: ConfiguredTopic,
    *,
    stopped: Callable[[], bool],
    committed: Callable[[Landed], None],
    lost: Callable[[str], None],
) -> TurnResult:
    """Land a topic up to where it ends now.

    Args:
        stopped: asked often; the turn then commits what it has read, and ends.
        committed: called after every commit, by another thread.
        lost: called with a sentence when records were skipped.

    Raises:
        HeadraceError: the topic cannot be read, or the table cannot be written.
    """
    table = topic.table
    name = settings.folder.place(table.name)
    catalog = settings.catalogs.get(name.catalog, {}) if name.kind is TableKind.ICEBERG else {}
    decoder = row_decoder(
        table.format,
        columns=None if table.columns is None else columns_of(table.columns),
        keys=table.keys,
        envelope=table.envelope,
        registry=settings.registry,
        partition_by=table.partition_by,
    )
    lander = Lander(
        # A turn is short: to connect and log in would take longer than what it asks.
        replace(settings.client, reuses_connections=True),
        # The topic's id is looked up when it is read: it may have been created again.
        Source(
            topic=topic.name,
            topic_id=None,
            values=table.format,
            keys=table.keys,
            envelope=table.envelope,
            partition_by=table.partition_by,
        ),
        decoder,
        LandingOptions(
            table=name,
            catalog=catalog,
            follow=False,
            every_seconds=table.freshness_ms / 1000,
            retry_seconds=_RETRY_SECONDS,
            skip_lost=settings.skip_lost,
            bytes_in_flight=_BYTES_IN_FLIGHT,
        ),
        committed=committed,
        lost=lost,
        making=lambda: settings.folder.making(name),
    )
    landed = lander.run(stopped)
    return TurnResult(landed, lander.rows())
