"""Metrics of mirror links: how far behind the source the copies are, and which have stopped."""

from collections import defaultdict

from headrace.broker.mirror.mirror_links import MirrorLinks
from headrace.telemetry.reading import Reading


def mirror_readings(links: MirrorLinks, now_ms: int) -> list[Reading]:
    """Return the readings of one scrape, by link and topic."""
    lags: dict[tuple[str, ...], float] = defaultdict(float)
    ages: dict[tuple[str, ...], float] = defaultdict(float)
    stopped: dict[tuple[str, ...], float] = defaultdict(float)
    for link, follower in links.followers():
        row = link, follower.name.topic
        lag = max(0, follower.source_end - follower.log.log_end_offset)
        lags[row] += lag
        age = (now_ms - follower.newest_ms) / 1000 if lag and follower.newest_ms >= 0 else 0.0
        ages[row] = max(ages[row], age)
    for partition in links.stopped():
        stopped[(partition.topic,)] += 1
    return [
        Reading.gauge(
            "headrace_mirror_link_lag_records",
            "Offsets of the source that are not copied yet, of the partitions led here.",
            lambda: lags,
            *("link", "topic"),
        ),
        Reading.gauge(
            "headrace_mirror_link_age_seconds",
            "How old the newest copied record is, where something is left to copy.",
            lambda: ages,
            *("link", "topic"),
        ),
        Reading.gauge(
            "headrace_mirror_link_stopped_partitions",
            "Partitions that are not copied any more, because the source is not what it was.",
            lambda: stopped,
            "topic",
        ),
    ]
