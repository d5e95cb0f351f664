"""What the command line says when Spark raises."""

from pathlib import Path

import pytest
from py4j.protocol import Py4JNetworkError
from pyspark.errors import PySparkException

from headrace.cli.flow.failure_message import flow_failed, spark_failures_reported
from headrace.flow.error import FlowError

GONE = """[STREAM_FAILED] Query [id = 1, runId = 2] terminated with exception: Traceback (most\
 recent call last):
  File "/opt/venv/lib/python3.11/site-packages/headrace/client/pool.py", line 80, in connect
    raise Unreachable(address)
headrace.client.error.Unreachable: cannot reach 127.0.0.1:9092: connection refused
 SQLSTATE: 38000
=== Streaming Query ===
Logical Plan: a long one
"""


def test_a_lost_broker_is_reported_with_what_happens_next() -> None:
    sentence = str(flow_failed("words", ValueError(GONE), traceback=False, log=None))

    assert sentence == (
        "words failed: cannot reach 127.0.0.1:9092: connection refused; once it is back, the next"
        " run continues where this one stopped"
    )


def test_the_traceback_is_added_on_request() -> None:
    sentence = str(flow_failed("words", ValueError(GONE), traceback=True, log=None))

    assert sentence.startswith("words failed: cannot reach 127.0.0.1:9092")
    assert sentence.endswith(GONE)


def test_a_lost_java_process_is_reported_with_its_log() -> None:
    log = Path("words.checkpoint.log")

    sentence = str(flow_failed("words", Py4JNetworkError("no answer"), traceback=False, log=log))

    assert sentence == (
        "words failed: Spark's Java process is gone; the end of words.checkpoint.log may say why"
    )


def test_what_spark_raises_inside_becomes_a_sentence() -> None:
    raised = PySparkException("[X_Y] it went wrong. SQLSTATE: 38000")

    with (
        pytest.raises(FlowError, match=r"^words failed: it went wrong$"),
        spark_failures_reported("words", traceback=False),
    ):
        raise raised


def test_a_java_process_that_does_not_answer_any_more_is_gone_too() -> None:
    from py4j.java_gateway import GatewayClient, GatewayParameters

    def asked() -> None:
        client = GatewayClient(gateway_parameters=GatewayParameters(port=1))
        client.send_command("p\ne\n", retry=False)

    with (
        pytest.raises(FlowError, match="Spark's Java process is gone"),
        spark_failures_reported("words", traceback=False),
    ):
        asked()


def test_an_error_of_another_connection_is_left_alone() -> None:
    with pytest.raises(ConnectionRefusedError), spark_failures_reported("words", traceback=False):
        raise ConnectionRefusedError("not Java's")
