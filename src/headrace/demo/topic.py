"""The topics of the demo and their retention."""

from headrace.audit.record import TOPIC as AUDIT
from headrace.client.admin.admin import Admin, NewTopic
from headrace.client.network.pool import ConnectionPool
from headrace.client.settings import ClientSettings

VIEWS = "page-views"
SEARCHES = "searches"
IMPRESSIONS = "impressions"
PROFILES = "profiles"
ACCESS = "access-log"
COUNTS = "page-counts"
MINUTES = "page-minutes"
ALERTS = "alerts"
COUNTRIES = "country-views"

PARTITIONS = 2

# A demo that runs over night must not fill the disk.
_HOUR = {"retention.ms": "3600000", "segment.ms": "600000"}
_NEWEST = {"cleanup.policy": "compact"}


def create_topics(address: str) -> None:
    """Create the topics.

    Raises:
        BrokerError: a topic could not be created.
    """
    topics = [
        *(NewTopic(each, PARTITIONS, configs=_HOUR) for each in (VIEWS, SEARCHES, IMPRESSIONS)),
        NewTopic(ACCESS, 1, configs=_HOUR),
        NewTopic(PROFILES, PARTITIONS, configs=_NEWEST),
        *(NewTopic(each, 1, configs=_HOUR) for each in (COUNTS, MINUTES, ALERTS, COUNTRIES, AUDIT)),
    ]
    with ConnectionPool(ClientSettings.of({"bootstrap.servers": address})) as pool:
        for error in Admin(pool).create_topics(topics).values():
            if error is not None:
                raise error
