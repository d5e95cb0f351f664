"""Programs that ask a broker when they are loaded."""

import sys
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from headrace.cli.flow.program import ProgramArguments, load_program
from testkit.process.broker_process import BrokerProcess

JOB = """
job.name = {topic}-job
task.class = count_of_e2e:Count
task.inputs = kafka.{topic}
systems.kafka.samza.factory = org.apache.samza.system.kafka.KafkaSystemFactory
systems.kafka.producer.bootstrap.servers = {address}
systems.kafka.samza.key.serde = string
systems.kafka.samza.msg.serde = json
"""
TASK = """
from headrace.flow.samza.task import StreamTask

class Count(StreamTask):
    def process(self, envelope, collector, coordinator):
        pass
"""


def test_a_samza_job_has_its_own_brokers_and_start(
    broker: BrokerProcess, topic: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setenv("PYTHONPATH", "")
    admin = AdminClient({"bootstrap.servers": broker.address})
    admin.create_topics([NewTopic(topic, 2, 1)])[topic].result(90)
    (tmp_path / "count_of_e2e.py").write_text(TASK)
    job = tmp_path / "job.properties"
    job.write_text(JOB.format(topic=topic, address=broker.address))

    program = load_program(str(job), ProgramArguments("no-broker:1", {"spark.cores.max": "1"}))

    assert program.plan.name == f"{topic}-job"
    assert program.brokers == broker.address
    assert program.begin is not None
    assert program.plan.settings["spark.cores.max"] == "1"
