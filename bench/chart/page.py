"""docs/performance.md and its SVG files, from what bench/RESULTS.md says and from nothing else."""

from collections.abc import Sequence
from pathlib import Path

from bench.chart.bar_chart import Panel, bar_chart
from bench.chart.catalogue import CHARTS, NOT_A_PEER
from bench.chart.comparison import (
    AHEAD,
    BEHIND,
    LEVEL,
    Comparison,
    compared,
    compared_rows,
    exact_ratio,
)
from bench.chart.frame import Frame, days_text
from bench.chart.line_chart import line_chart
from bench.chart.plan import ChartPlan, Pick
from bench.chart.ratio_chart import ratio_chart
from bench.chart.scale import figure
from bench.results import Result, Results

DOCS = Path(__file__).parents[2] / "docs"
PAGE = "performance.md"
FOLDER = "performance"
_LEAST_POINTS = 3


def write_page(results: Results, docs: Path = DOCS) -> Path:
    """Write the page and its charts, remove charts that are no longer shown, return the page."""
    files = performance_files(results)
    folder = docs / FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("*.svg"):
        if f"{FOLDER}/{old.name}" not in files:
            old.unlink()
    for name, text in files.items():
        (docs / name).write_text(text)
    return docs / PAGE


def performance_files(results: Results) -> dict[str, str]:
    """Return the text of the page and of each chart, by its path below docs/."""
    files: dict[str, str] = {}
    sections = [_overview(results, files)]
    for plan in CHARTS:
        panels = _panels(plan, results)
        series = ("Headrace", *(_versioned(peer, results) for peer in plan.peers))
        frame = Frame(title=plan.heading, series=series, machine=results.machine)
        if not panels:
            sections.append(_not_measured(plan))
            continue
        draw = line_chart(frame, panels, plan.axis) if plan.axis else bar_chart(frame, panels)
        files[f"{FOLDER}/{plan.file}.svg"] = draw
        sections.append(_section(plan, panels, series[1:]))
    files[PAGE] = "\n".join([_heading(results), *sections])
    return files


def _heading(results: Results) -> str:
    rows = [row for row in results.rows if row.reached is not None]
    missed = len([row for row in rows if not row.reached])
    python = results.versions.get("Python", "")
    return f"""# Performance

Every figure here is in `bench/RESULTS.md`, which `make bench` writes. `python -m bench charts`
writes this page from it; please do not edit it by hand. Charts show the losses like the wins: what
is behind its peer or misses its bar says so in red and in words. Of {len(rows)} rows with a bar,
{missed} miss it.

The machine: {results.machine};
Python {python}. Both sides of a comparison ran in one run, in turn, and figures are medians.
A whisker is as long as the spread of our rounds (the largest minus the smallest) and has the median
in its middle: the table keeps how far apart the rounds were, not where they lay, and it keeps no
spread of the peer's rounds. Ratios are Headrace's figure over the peer's.
"""


# -- all rows ----------------------------------------------------------------------------------


def _overview(results: Results, files: dict[str, str]) -> str:
    with_peer = [row for row in results.rows if _has_peer(row)]
    parts = ["## Every comparison\n"]
    for file, more, title, words in (
        ("rates", True, "Rates: more than 1× is better", "rates, where more is better"),
        (
            "costs",
            False,
            "Times, CPU and memory: less than 1× is better",
            "times, CPU and memory, where less is better",
        ),
    ):
        rows = [row for row in with_peer if row.more_is_better == more]
        if not rows:
            continue
        found = [(row, compared(_full_name(row), [row])) for row in rows]
        drawn = [(row, each) for row, each in found if each is not None]
        frame = Frame(title=title, series=(), machine=results.machine)
        name = f"{FOLDER}/{file}.svg"
        files[name] = ratio_chart(frame, [each for _, each in drawn], more_is_better=more)
        standings = [each.peers[0].standing for _, each in drawn]
        days = days_text(row.measured for row in rows)
        parts.append(
            f"![{title}]({name})\n\n"
            f"The {len(drawn)} {words}, each against the peer that its suite compares with, "
            f"measured {days}. Headrace is ahead in {standings.count(AHEAD)}, level in "
            f"{standings.count(LEVEL)} and behind in {standings.count(BEHIND)}. "
            f"{_missed_rows(drawn)}\n"
        )
    alone = [row for row in results.rows if row.reached is False and not _has_peer(row)]
    if alone:
        parts.append("Bars missed by figures that have no peer:\n")
        parts += [f"- {_full_name(row)}: {_alone(row)}, bar {row.bar}" for row in alone]
        parts.append("")
    return "\n".join(parts)


def _has_peer(row: Result) -> bool:
    return row.ratio is not None and not row.name.startswith(NOT_A_PEER)


def _alone(row: Result) -> str:
    said = "" if row.ours is None else f"{figure(row.ours)} {row.unit}"
    return said if row.ratio is None else f"{row.ratio:.2f}× ({said})"


def _full_name(row: Result) -> str:
    if row.name == row.subject:
        return f"{row.suite}: {row.name}"
    subject = row.subject.partition("; against ")[0]
    return f"{row.suite}: {subject}: {row.name.removeprefix('the same').lstrip(' ,')}"


def _missed_rows(rows: Sequence[tuple[Result, Comparison]]) -> str:
    missed = [
        f"- {_full_name(row)}: {exact_ratio(each.ours, each.peers[0])}, bar {row.bar}"
        for row, each in rows
        if row.reached is False
    ]
    return "\n".join(["Bars missed:\n", *missed]) if missed else "Every bar is reached."


# -- one chart ---------------------------------------------------------------------------------


def _panels(plan: ChartPlan, results: Results) -> list[Panel]:
    panels = []
    for each in plan.panels:
        found = [_compared(pick, results) for pick in each.picks]
        comparisons = [comparison for comparison in found if comparison is not None]
        if len(comparisons) >= (_LEAST_POINTS if plan.axis else 1):
            panels.append(Panel(each.title, comparisons))
    return panels


def _compared(pick: Pick, results: Results) -> Comparison | None:
    row = results.find(pick.suite, pick.name, pick.subject)
    if row is None:
        return None
    if pick.peer_rows:
        others = [results.find(pick.suite, each) for each in pick.peer_rows]
        return compared_rows(pick.label, row, [each for each in others if each is not None])
    second = results.find(pick.suite, pick.second) if pick.second else None
    return compared(pick.label, [row] if second is None else [row, second])


def _section(plan: ChartPlan, panels: Sequence[Panel], peers: Sequence[str]) -> str:
    days = days_text(each.measured for panel in panels for each in panel.comparisons)
    against = " and ".join(peers)
    return (
        f"## {plan.heading}\n\n"
        f"![{plan.heading}, Headrace and {against}]({FOLDER}/{plan.file}.svg)\n\n"
        f"{plan.what} Against {against}, on the machine above, measured {days}. "
        f"{_bars(panels, peers)}\n"
    )


def _bars(panels: Sequence[Panel], peers: Sequence[str]) -> str:
    """Every bar of the chart, those that are missed first, and what is behind without a bar."""
    missed: list[str] = []
    reached: list[str] = []
    behind: list[str] = []
    for panel in panels:
        for each in panel.comparisons:
            for peer in each.peers:
                against = f" against {peers[peer.series - 1]}" if len(each.peers) > 1 else ""
                name = f"{panel.title}, {each.label}{against}: {exact_ratio(each.ours, peer)}"
                figures = f"{figure(each.ours)} against {figure(peer.value)} {each.unit}"
                if peer.reached is not None:
                    kept = reached if peer.reached else missed
                    kept.append(f"{name} ({figures}), bar {peer.bar}")
                elif peer.standing == BEHIND:
                    behind.append(f"{name} ({figures})")
    said = [
        *(f"- **Bar missed.** {each}" for each in missed),
        *(f"- **Behind.** {each}, no bar" for each in behind),
        *(f"- Bar reached. {each}" for each in reached),
    ]
    if not said:
        return "No row here has a bar, and Headrace is ahead in all."
    return "\n".join(
        [f"Of its bars, {len(reached)} are reached and {len(missed)} missed.\n", *said]
    )


def _not_measured(plan: ChartPlan) -> str:
    return (
        f"## {plan.heading}\n\n{plan.what} `bench/RESULTS.md` has no such rows yet, so there is no "
        f"chart: `python -m bench {plan.command} --write` measures them.\n"
    )


def _versioned(peer: str, results: Results) -> str:
    version = results.versions.get(peer)
    return f"{peer} {version}" if version else peer
