"""Running the programs of `examples/`, each in topics of its own, in a Spark session."""

import json
from pathlib import Path
from typing import Any

from confluent_kafka import Producer

from headrace.cli.flow.program import ProgramArguments, load_program
from headrace.cli.flow.topic import create_missing
from headrace.flow.execution.job import start
from headrace.flow.plan.plan import Plan
from testkit.peer.transactional import read_to_end

EXAMPLES = Path(__file__).parents[2] / "examples"
_SECONDS = 300.0


class ExampleRunner:
    """Runs examples with topics that begin with `name` and checkpoints in `folder`."""

    def __init__(self, address: str, spark: Any, name: str, folder: Path) -> None:
        self.address, self.spark, self.name, self.folder = address, spark, name, folder
        self._producer = Producer({"bootstrap.servers": address, "linger.ms": 0})

    def topic(self, name: str) -> str:
        return f"{self.name}-{name}"

    def plan(self, path: str, *topics: str, **pairs: str) -> Plan:
        """Return the plan of an example; these of its topics are renamed, and created."""
        arguments = {each: self.topic(each) for each in topics} | pairs
        plan = load_program(str(EXAMPLES / path), ProgramArguments(self.address, arguments)).plan
        create_missing(plan, self.address)
        return plan

    def feed(self, topic: str, *values: Any) -> None:
        """Write values to a topic: texts, or anything else as JSON."""
        for value in values:
            text = value if isinstance(value, str) else json.dumps(value)
            self._producer.produce(self.topic(topic), text)
        assert self._producer.flush(60) == 0

    def run(self, plan: Plan) -> None:
        """Run a plan over all records there are."""
        checkpoint = self.folder / plan.name
        query = start(
            plan,
            self.spark,
            brokers=self.address,
            checkpoint=checkpoint,
            trigger={"availableNow": True},
        )
        try:
            assert query.awaitTermination(_SECONDS)
        finally:
            query.stop()

    def forget_last_batch(self, plan: Plan) -> None:
        """Remove the last commit, as if the driver had died before it was written."""
        commits = self.folder / plan.name / "commits"
        last = max(int(each.name) for each in commits.iterdir() if each.name.isdigit())
        (commits / str(last)).unlink()
        (commits / f".{last}.crc").unlink(missing_ok=True)

    def read(self, topic: str) -> list[Any]:
        """Return the values of a topic, read as JSON."""
        return [json.loads(each) for each in read_to_end(self.address, self.topic(topic))]
