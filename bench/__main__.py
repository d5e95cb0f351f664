"""Run the benchmarks and write their table.

python -m bench               every suite, into bench/RESULTS.md
python -m bench records log   only these, printed; with --write their rows replace those of the same
                              name in bench/RESULTS.md, and all others stay, with their dates
python -m bench charts        no suite: docs/performance.md again, from what bench/RESULTS.md says

Whatever writes bench/RESULTS.md writes docs/performance.md and its charts, too.
"""

import argparse
import datetime
import importlib
import importlib.metadata
import os
import platform
import sys
from pathlib import Path

from bench.chart.page import write_page
from bench.peer_version import peer_versions
from bench.results import RESULTS, lines_of, merged, read_results
from bench.row import Row

SUITES = (
    "records",
    "avro",
    "log",
    "stored",
    "cold_read",
    "compaction",
    "wire",
    "fetch_session",
    "broker",
    "scaling",
    "cluster",
    "many_partitions",
    "scale",
    "background",
    "client",
    "client_write",
    "spark",
    "flow",
    "ingest",
    "console",
    "kinesis",
    "rest",
    "tables",
    "mirror",
    "cdc",
)
CHARTS = "charts"
LIBRARIES = (
    "aiokafka",
    "boto3",
    "confluent-kafka",
    "cramjam",
    "crc32c",
    "deltalake",
    "fastavro",
    "kio",
    "moto",
    "numba",
    "numpy",
    "pyarrow",
    "pyiceberg",
    "pyspark",
)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("suites", nargs="*", metavar="SUITE", help=", ".join((*SUITES, CHARTS)))
    parser.add_argument("--write", action="store_true", help="also write what was chosen")
    arguments = parser.parse_args()
    chosen = arguments.suites
    if chosen == [CHARTS]:
        print(f"Written to {write_page(read_results(RESULTS.read_text()))}")
        return 0
    unknown = sorted(set(chosen) - set(SUITES))
    if unknown:
        parser.error(f"no suite called {', '.join(unknown)}; there are {', '.join(SUITES)}")
    write = arguments.write or not chosen
    sections = written() if chosen and write else {}
    for suite in chosen or SUITES:
        print(f"{suite} ...", flush=True)
        lines = [line(row) for row in importlib.import_module(f"bench.{suite}").run()]
        print(table(suite, lines), flush=True)
        sections[suite] = merged(sections.get(suite, []), lines)
        if write:  # after every suite, so that a run that is stopped leaves what it measured
            ordered = [table(each, sections[each]) for each in SUITES if each in sections]
            RESULTS.write_text("\n".join([heading(), *ordered]))
            page = write_page(read_results(RESULTS.read_text()))
    if write:
        print(f"Written to {RESULTS} and {page}")
    return 0


def written() -> dict[str, list[str]]:
    """The lines of each section that bench/RESULTS.md has."""
    if not RESULTS.exists():
        return {}
    _, *parts = RESULTS.read_text().split("\n## ")
    return {part.partition("\n")[0]: lines_of(part) for part in parts}


def heading() -> str:
    versions = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in LIBRARIES)
    peers = ", ".join(f"{name} {version}" for name, version in peer_versions().items())
    return f"""# Benchmark results

Command: `make bench`. Each row says when it was measured.
Machine: {cpu_model()}, {os.cpu_count()} cores, {memory_gib()} GiB, Linux {platform.release()},
Python {platform.python_version()}, {versions}.
Peers: {peers}.

Both sides of a ratio run in one process run, alternating; figures are medians, and the spread is
(largest - smallest) / median of our rounds.

Two rows are not the plain figure. The decode and encode rates of `records` are by CPU time of
one thread, not by wall clock. The append rate up to the stored size in `log` is a multiple of
what a plain `pwritev` reaches at that moment, because the disk itself slows down on the way; the
raw rate is in `stored`, tenth by tenth, with a plain `pwritev` of the same bytes beside it.

A spread of 100 % or more comes from a machine that was busy with other work: the median says less
there, and "reached" is said of the median only.
"""


def table(suite: str, lines: list[str]) -> str:
    head = [
        f"## {suite}",
        "",
        "| what | ours | theirs | unit | ratio | spread | bar | reached | measured |",
        "|---|---:|---:|---|---:|---:|---|---|---|",
    ]
    return "\n".join([*head, *lines, ""])


def line(row: Row) -> str:
    cells = [
        row.name,
        number(row.ours),
        number(row.theirs),
        row.unit,
        "" if row.ratio is None else f"{row.ratio:.2f}×",
        "" if row.spread is None else f"{row.spread:.0%}",
        row.bar,
        {True: "yes", False: "**no**", None: ""}[row.reached],
        datetime.date.today().isoformat(),
    ]
    return "| " + " | ".join(cells) + " |"


def number(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def cpu_model() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def memory_gib() -> int:
    return round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30)


if __name__ == "__main__":
    sys.exit(main())
