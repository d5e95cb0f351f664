"""The snapshot of a cluster, and what the console reports while there is none."""

import pytest

from headrace.client.error import ClientError
from headrace.client.settings import ClientSettings
from headrace.console.status.cluster_poller import ClusterPoller
from headrace.testing.readiness import free_port, wait_until


def test_a_cluster_that_does_not_answer_is_a_problem() -> None:
    settings = ClientSettings.of({"bootstrap.servers": f"127.0.0.1:{free_port()}"})
    poller = ClusterPoller(settings, interval_seconds=0.05)
    poller.start()
    try:
        wait_until(lambda: "refused" in (poller.problem or ""), what="the refusal")
        with pytest.raises(ClientError, match="refused"):
            _ = poller.snapshot
    finally:
        poller.stop()
