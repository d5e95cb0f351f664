"""What a console has seen, and when it has seen nothing."""

import pytest

from headrace.client.error import ClientError
from headrace.client.settings import ClientSettings
from headrace.console.watch import Watch
from headrace.testing.readiness import free_port, wait_until


def test_a_cluster_that_is_not_there_is_told() -> None:
    settings = ClientSettings.of({"bootstrap.servers": f"127.0.0.1:{free_port()}"})
    watch = Watch(settings, interval_seconds=0.05)
    watch.start()
    try:
        wait_until(lambda: "refused" in (watch.problem or ""), what="the refusal")
        with pytest.raises(ClientError, match="refused"):
            _ = watch.sight
    finally:
        watch.stop()
