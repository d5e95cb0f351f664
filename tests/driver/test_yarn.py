"""A flow on YARN, with its checkpoint on HDFS and a login at the broker, loses its executor and its
driver; each record counts once. Commands on another machine see it, and stop it.

All of it runs on this machine: a real ResourceManager, two NodeManagers and an HDFS in one Java
process, and a process per container. `tools/chaos-flow` kills more of them.
"""

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from headrace.testing.readiness import wait_until
from testkit.fault.yarn_flow import YarnFlow, secure_broker
from testkit.peer.mini_yarn import MiniYarn
from testkit.peer.peer import PeerMissing, require_peer

PROGRAM = Path(__file__).with_name("program") / "yarn_words.py"
# One driver is killed, and YARN starts it again. On a busy machine a Python process may not respond
# to Spark in ten seconds, which costs a driver too.
ATTEMPTS = 4


@pytest.fixture
def yarn(tmp_path: Path) -> Iterator[MiniYarn]:
    try:
        with MiniYarn(tmp_path / "yarn", master_attempts=ATTEMPTS) as running:
            yield running
    except PeerMissing as missing:
        require_peer(str(missing))


@pytest.fixture
def flow(yarn: MiniYarn, tmp_path: Path) -> Iterator[YarnFlow]:
    try:
        with secure_broker(tmp_path) as client:
            yield YarnFlow(yarn, client, PROGRAM, tmp_path, attempts=ATTEMPTS)
    except PeerMissing as missing:
        require_peer(str(missing))


@pytest.mark.timeout(3600)
def test_a_flow_on_yarn_counts_every_record_once_whatever_is_killed_and_wherever_its_driver_runs(
    yarn: MiniYarn, flow: YarnFlow
) -> None:
    chance = random.Random(15)
    flow.submit()
    flow.feed(chance)
    flow.wait_until_counted("the first words")

    for driver in (False, True):
        flow.feed(chance)
        flow.kill(driver=driver)
        flow.feed(chance)
        flow.wait_until_counted(
            f"the words after a kill of the {'driver' if driver else 'executor'}"
        )

    rows: list[dict[str, Any]] = []

    def is_listed() -> bool:
        rows[:] = flow.listed()
        return [each["state"] for each in rows] == ["active"]

    wait_until(is_listed, what="the second driver in the list")
    (row,) = rows
    figures = flow.command("metrics", flow.NAME)

    def has_batch() -> bool:
        """Its records are there before Spark has the figures of the batch."""
        nonlocal figures
        figures = flow.command("metrics", flow.NAME)
        return figures.code == 0 and figures.lines[0].startswith("batch ")

    wait_until(has_batch, what="the figures of a batch")
    stopped = flow.command("stop", flow.NAME)
    listed = flow.listed()
    wait_until(
        lambda: "UNDEFINED" not in yarn.applications().values(),
        what="its end in YARN",
        timeout_seconds=300.0,
    )

    assert (stopped.code, listed) == (0, []), stopped.err
    assert yarn.applications() == {row["application"]: "SUCCEEDED"}

    flow.feed(chance)
    flow.run_here()
    flow.wait_until_counted("all words, by a driver on this machine")
    assert flow.problems() == []
