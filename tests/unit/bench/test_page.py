"""The page of charts cannot fall behind the table of results, and says what the table says."""

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

from bench.chart.page import DOCS, FOLDER, PAGE, performance_files, write_page
from bench.results import RESULTS, Results, read_results

HEAD = """# Benchmark results

Command: `make bench`.
Machine: A processor, 2 cores, 24 GiB, Linux 6,
Python 3.11.7, moto 5.2.5.
Peers: Apache Kafka 4.2.1, kinesis-mock 0.6.2.

Words.
"""
TABLE = """
## {suite}

| what | ours | theirs | unit | ratio | spread | bar | reached | measured |
|---|---:|---:|---|---:|---:|---|---|---|
{lines}
"""


def page_of(suite: str, *lines: str) -> dict[str, str]:
    return performance_files(results_of(suite, *lines))


def results_of(suite: str, *lines: str) -> Results:
    return read_results(HEAD + TABLE.format(suite=suite, lines="\n".join(lines)))


@pytest.fixture(scope="module")
def files() -> dict[str, str]:
    return performance_files(read_results(RESULTS.read_text()))


def test_the_page_and_its_charts_are_those_that_the_results_make(files: dict[str, str]) -> None:
    there = {f"{FOLDER}/{each.name}" for each in (DOCS / FOLDER).glob("*.svg")}

    assert there == set(files) - {PAGE}, "run python -m bench charts"
    for name, text in files.items():
        assert (DOCS / name).read_text() == text, "run python -m bench charts"


def test_every_chart_is_xml_with_a_title_and_a_description(files: dict[str, str]) -> None:
    for name, text in files.items():
        if name.endswith(".svg"):
            root = ElementTree.fromstring(text)
            title, description = root[0], root[1]
            assert title.tag.endswith("title") and title.text, name
            assert description.tag.endswith("desc") and description.text, name
            assert "prefers-color-scheme: dark" in text


def test_every_row_with_a_bar_that_is_missed_is_on_the_page(files: dict[str, str]) -> None:
    rows = read_results(RESULTS.read_text()).rows
    missed = [row for row in rows if row.reached is False and row.theirs is not None]

    assert missed
    for row in missed:
        assert row.subject.partition("; against ")[0] in files[PAGE]
    assert f"{len([row for row in rows if row.reached is False])} miss it" in files[PAGE]


def test_a_loss_is_said_in_words_and_drawn_in_its_colour() -> None:
    files = page_of(
        "broker",
        "| 50 connections, one record a request | 900 | 1,000 | requests/s | 0.90× | 22% | ≥ 1× "
        "| **no** | 2026-11-15 |",
    )

    assert "**Bar missed.**" in files[PAGE]
    assert "0.90× (900 against 1,000 requests/s), bar ≥ 1×" in files[PAGE]
    assert "Apache Kafka 4.2.1" in files[PAGE]
    chart = files[f"{FOLDER}/broker-throughput.svg"]
    assert re.search(r'class="missed"[^>]*>0\.90× behind<', chart)
    assert re.search(r'class="missed"[^>]*>bar ≥ 1× missed ✗<', chart)


def test_rounding_does_not_hide_a_miss() -> None:
    files = page_of(
        "broker",
        "| 50 connections, one record a request | 976,082 | 815,493 | requests/s | 1.20× | 24% "
        "| ≥ 1.2× | **no** | 2026-11-15 |",
    )

    assert "1.197× (976,082 against 815,493 requests/s), bar ≥ 1.2×" in files[PAGE]


def test_a_series_has_a_chart_when_its_rows_are_measured() -> None:
    name = f"{FOLDER}/connections.svg"
    row = (
        "| connections: {0}, one record per request | {0}000 | 2,000 | requests/s | 1.00× | 9% "
        "| ≥ 1× | yes | 2026-11-20 |"
    )

    measured = page_of("scaling", *(row.format(count) for count in (1, 10, 50)))
    missing = page_of("scaling", row.format(1))

    assert name in measured and name in measured[PAGE]
    assert name not in missing
    assert "`python -m bench scaling --write` measures them" in missing[PAGE]


def test_a_chart_that_is_no_longer_shown_is_removed(tmp_path: Path) -> None:
    old = tmp_path / FOLDER / "old.svg"
    old.parent.mkdir()
    old.write_text("<svg/>")

    write_page(results_of("broker"), tmp_path)

    assert not old.exists()
    assert (tmp_path / PAGE).exists()


def test_figures_far_apart_get_a_logarithmic_axis() -> None:
    row = "| records of {0}: produce | {1} | {1} | MB/s | 1.00× | 9% | ≥ 1× | yes | 2026-11-20 |"
    sizes = (("10 B", 10), ("100 B", 90), ("1 KiB", 900))

    far = page_of("scaling", *(row.format(size, rate) for size, rate in sizes))
    near = page_of("scaling", *(row.format(size, 900) for size, _ in sizes))

    assert "logarithmic axis" in far[f"{FOLDER}/record-size.svg"]
    assert "logarithmic axis" not in near[f"{FOLDER}/record-size.svg"]
