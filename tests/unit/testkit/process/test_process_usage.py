"""The usage of a process grows with its work."""

import os

import pytest

from headrace.testing.readiness import wait_until
from testkit.process.process_usage import ProcessUsage


def test_work_shows_as_cpu_time() -> None:
    before = ProcessUsage.of(os.getpid())

    def worked() -> bool:
        sum(range(100_000))
        return ProcessUsage.of(os.getpid()).cpu_seconds > before.cpu_seconds

    wait_until(worked, what="a tick of cpu time")


def test_memory_never_exceeds_its_peak() -> None:
    usage = ProcessUsage.of(os.getpid())
    assert 0 < usage.rss_bytes <= usage.peak_rss_bytes


def test_a_process_that_is_not_there_is_named() -> None:
    with pytest.raises(ProcessLookupError, match="no process 0"):
        ProcessUsage.of(0)
