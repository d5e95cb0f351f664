"""Figures, and Prometheus' text of them."""

import threading

from prometheus_client.parser import text_string_to_metric_families

from headrace.telemetry.histogram import Histogram, SharedHistogram
from headrace.telemetry.reading import Reading, collect, process_figures, render


def test_values_are_counted_at_and_below_their_bound() -> None:
    histogram = Histogram((0.1, 1.0))

    for value in (0.05, 0.1, 0.5, 7.0):
        histogram.observe(value)

    assert histogram.buckets() == [("0.1", 2.0), ("1.0", 3.0), ("+Inf", 4.0)]
    assert histogram.total == 7.65


def test_a_sample_counts_for_all_that_it_stands_for() -> None:
    histogram = Histogram((1.0,))

    histogram.observe(0.5, 16)

    assert histogram.buckets() == [("1.0", 16.0), ("+Inf", 16.0)]
    assert histogram.total == 8.0


def test_threads_share_a_histogram() -> None:
    histogram = SharedHistogram()

    def observe() -> None:
        for _ in range(5000):
            histogram.observe(0.001)

    threads = [threading.Thread(target=observe) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert histogram.buckets()[-1] == ("+Inf", 20_000.0)


def test_readings_become_prometheus_text() -> None:
    times = Histogram((0.5,))
    times.observe(0.25)
    readings = [
        Reading.gauge("topics", "Topics.", lambda: 3),
        Reading.gauge("absent", "Not here.", lambda: None),
        Reading.counter("errors", "Errors.", lambda: {("Fetch", "OFFLINE"): 2}, "api", "error"),
        Reading.histogram("seconds", "Times.", lambda: {("Produce",): times}, "api"),
    ]

    text = render(collect(readings)).decode()

    samples = {
        (sample.name, *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }
    assert samples == {
        ("topics",): 3.0,
        ("errors_total", "Fetch", "OFFLINE"): 2.0,
        ("seconds_bucket", "Produce", "0.5"): 1.0,
        ("seconds_bucket", "Produce", "+Inf"): 1.0,
        ("seconds_count", "Produce"): 1.0,
        ("seconds_sum", "Produce"): 0.25,
    }


def test_the_process_is_shown_under_the_usual_names() -> None:
    names = {family.name for family in process_figures()}

    assert {"process_resident_memory_bytes", "process_cpu_seconds", "process_open_fds"} <= names
