"""Where Prometheus reads the figures of a mirror, a landing or a gateway."""

import socket
from http.client import HTTPConnection
from urllib.parse import urlsplit

import pytest

from headrace.model.error import ConfigError
from headrace.telemetry.metrics_endpoint import MetricsEndpoint
from headrace.telemetry.reading import Reading


def get(url: str) -> tuple[int, str]:
    parts = urlsplit(url)
    connection = HTTPConnection(parts.netloc, timeout=30)
    try:
        connection.request("GET", parts.path)
        response = connection.getresponse()
        return response.status, response.read().decode()
    finally:
        connection.close()


def copied(count: int) -> Reading:
    return Reading.counter("headrace_copied", "Records copied.", lambda: count)


def test_readings_are_asked_for_at_each_scrape_and_the_figures_of_the_process_are_added() -> None:
    readings = [copied(3)]

    with MetricsEndpoint("127.0.0.1", 0, lambda: readings, owner="the mirror") as metrics:
        status, first = get(metrics.url)
        readings[:] = [copied(4)]
        _, second = get(metrics.url)

    assert status == 200
    assert "headrace_copied_total 3.0" in first
    assert "process_resident_memory_bytes" in first
    assert "headrace_copied_total 4.0" in second


def test_another_path_says_where_the_figures_are() -> None:
    with MetricsEndpoint("127.0.0.1", 0, list, owner="the mirror") as metrics:
        assert get(metrics.url.removesuffix("metrics")) == (404, "The figures are at /metrics.\n")


def test_an_address_in_use_is_a_sentence_that_names_the_owner_and_the_option() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]

        with pytest.raises(ConfigError) as refused:
            MetricsEndpoint("127.0.0.1", port, list, owner="the mirror")

    assert str(refused.value).startswith(f"the mirror cannot serve metrics on 127.0.0.1:{port}: ")
    assert str(refused.value).endswith("choose another place with --metrics HOST:PORT")


def test_the_port_is_free_again_after_close_also_if_it_never_started() -> None:
    endpoint = MetricsEndpoint("127.0.0.1", 0, list, owner="the mirror")
    parts = urlsplit(endpoint.url)
    assert parts.port is not None

    endpoint.close()

    socket.create_server(("127.0.0.1", parts.port)).close()
