"""How the lines of bench/RESULTS.md are kept and read."""

import pytest

from bench.results import RESULTS, lines_of, merged, read_results


def line(name: str, ours: str, theirs: str = "") -> str:
    return f"| {name} | {ours} | {theirs} | s |  | 12% |  |  | 2026-11-15 |"


def test_rows_that_are_the_same_about_different_subjects_stay_apart() -> None:
    lines = [line("produce", "1"), line("the same, CPU", "2"), line("consume", "3")]
    lines.append(line("the same, CPU", "4"))

    assert merged([], lines) == lines
    assert merged(lines, lines) == lines


def test_a_row_that_is_measured_again_takes_the_place_of_the_one_before() -> None:
    before = [line("produce", "1"), line("the same, CPU", "2"), line("consume", "3")]

    after = merged(before, [line("consume", "9"), line("the same, CPU", "8"), line("new", "7")])

    assert after == [
        line("produce", "1"),
        line("the same, CPU", "2"),
        line("consume", "9"),
        line("the same, CPU", "8"),
        line("new", "7"),
    ]


def test_merging_the_whole_file_with_itself_changes_nothing() -> None:
    for section in RESULTS.read_text().split("\n## ")[1:]:
        lines = lines_of(section)
        assert merged(lines, lines) == lines


def test_a_row_says_what_its_line_says() -> None:
    results = read_results(RESULTS.read_text())

    row = results.find(
        "broker", "the same, broker CPU", "produce 1 KiB records, lz4, confluent-kafka"
    )

    assert row is not None
    assert row.unit == "s/GB" and not row.more_is_better
    assert row.ours is not None and row.theirs is not None and row.ratio is not None
    assert row.ratio == pytest.approx(row.ours / row.theirs, abs=0.01)
    assert results.versions["Apache Kafka"][0].isdigit()
    assert "cores" in results.machine


def test_words_instead_of_a_figure_are_no_figure() -> None:
    text = "# R\n\n## log\n\n| what |\n|---|\n"

    (row,) = read_results(text + line("a", "4.57", "not reached")).rows

    assert (row.ours, row.theirs, row.spread) == (4.57, None, 0.12)


def test_a_line_with_another_number_of_columns_is_refused() -> None:
    with pytest.raises(ValueError, match=r"log in bench/RESULTS\.md: 9 columns expected, not 2"):
        read_results("# R\n\n## log\n\n| what |\n|---|\n| a | 1 |\n")
