"""What a user reads when a flow fails, from what Spark 4.3 has reported."""

import traceback

import pytest

from headrace.flow.execution.failure import FlowFailure, failure_of
from headrace.flow.runtime.failure_note import failure_note

PACKAGES = "/opt/venv/lib/python3.11/site-packages"
QUERY = """ SQLSTATE: 38000 SQLSTATE: XXKST
=== Streaming Query ===
Identifier: words [id = 20dcf1cb-a578-4f3d-ba1a-9ff0e23bdfe0, runId = bd05a6ed-ad47-4c56]
Current Committed Offsets: {}

Logical Plan:
WriteToMicroBatchDataSource headrace-chunks
+- ~StreamingDataSourceV2ScanRelation[slot#0, edge#1, chunk#2] headrace-b8f4b60f-lines
"""
FAILED = "[STREAM_FAILED] Query [id = 20dcf1cb, runId = bd05a6ed] terminated with exception: "
MISSING_TOPIC = f"""{FAILED}[PYTHON_STREAMING_DATA_SOURCE_RUNTIME_ERROR] Failed when Python\
 streaming data source perform initialOffset: Traceback (most recent call last):
  File "{PACKAGES}/pyspark/sql/streaming/python_streaming_source_runner.py", line 84, in initial
    offset = reader.initialOffset()
             ^^^^^^^^^^^^^^^^^^^^^^
  File "{PACKAGES}/headrace/spark/topic_choice.py", line 140, in _all
    raise _missing(name, pool)
headrace.spark.source.topic_choice.TopicMissing: there is no topic lines; did you mean line?
{QUERY}"""
FRAMES = f"""  File "{PACKAGES}/headrace/flow/runtime/stage_run.py", line 109, in _call
    emissions = list(self._attempts(component, source, batch, tries))
                ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  File "{PACKAGES}/headrace/flow/storm/bolt.py", line 102, in execute
    made.extend(_tuples(function(*values)))
                        ^^^^^^^^^^^^^^^^^
  File "/home/ada/words.py", line 9, in broken
    return value.upper() + parse(value)
                           ^^^^^^^^^^^^
"""
OWN_LINES = """  File "/home/ada/words.py", line 9, in broken
    return value.upper() + parse(value)
                           ^^^^^^^^^^^^"""
BOLT = f"""{FAILED}[PYTHON_EXCEPTION] An exception was thrown from the Python worker: Traceback\
 (most recent call last):
{FRAMES}ZeroDivisionError: division by zero
in the component shout, at offset 5 of lines-0
{QUERY}"""
IN_A_BATCH = f"""
  An exception was thrown from the Python worker:
Traceback (most recent call last):
{FRAMES}ZeroDivisionError: division by zero
in the component shout, at offset 5 of lines-0


JVM stacktrace:
org.apache.spark.api.python.PythonException: Traceback (most recent
\tat org.apache.spark.api.python.BasePythonRunner$ReaderIterator.handle(PythonRunner.scala:1097)
"""
IN_JSON = f"""{FAILED}[PYTHON_EXCEPTION] An exception was thrown from the Python worker: Traceback\
 (most recent call last):
{FRAMES}  File "/usr/lib/python3.11/json/__init__.py", line 346, in loads
    return _default_decoder.decode(s)
json.decoder.JSONDecodeError: Expecting value: line 1 column 1 (char 0)
in the component shout
{QUERY}"""
EMIT = f"""{FAILED}[PYTHON_EXCEPTION] An exception was thrown from the Python worker: Traceback\
 (most recent call last):
{FRAMES}headrace.flow.error.EmitError: shout declares 'word STRING' and emitted 2 columns
in the component shout
{QUERY}"""
OTHER_PROGRAM = f"""{FAILED}[STREAMING_STATEFUL_OPERATOR_NOT_MATCH_IN_STATE_METADATA] Streaming\
 stateful operator name does not match with the operator in state metadata.
Stateful operators in the metadata: [(OperatorId: 0 -> OperatorName: transformWithStateInPandas)];\
{QUERY}"""
LOST_STATE = f"""{FAILED}[STREAMING_STATEFUL_OPERATOR_MISSING_STATE_DIRECTORY] Cannot restart\
 streaming query with stateful operators because the state directory is empty or missing.
Please remove the stateful operators.{QUERY}"""
DAMAGED = f"""{FAILED}Checksum error: file:/var/words.checkpoint/offsets/0 at 0 exp: 7 got: -8\
{QUERY}"""
OTHER = f"""{FAILED}[TABLE_OR_VIEW_NOT_FOUND] The table `x` cannot be failure. Verify it.{QUERY}"""


@pytest.mark.parametrize(
    ("reported", "sentence"),
    [
        (MISSING_TOPIC, "words failed: there is no topic lines; did you mean line?"),
        (
            BOLT,
            "words failed in shout at offset 5 of lines-0: ZeroDivisionError: division by zero\n"
            + OWN_LINES,
        ),
        (
            IN_A_BATCH,
            "words failed in shout at offset 5 of lines-0: ZeroDivisionError: division by zero\n"
            + OWN_LINES,
        ),
        (
            IN_JSON,
            "words failed in shout: json.decoder.JSONDecodeError: Expecting value: line 1 column 1"
            " (char 0)\n" + OWN_LINES,
        ),
        (EMIT, "words failed: shout declares 'word STRING' and emitted 2 columns"),
        (
            OTHER_PROGRAM,
            "words failed: the checkpoint is of a program with other steps that keep state: use"
            " the program that wrote it, or start from the beginning with another --checkpoint",
        ),
        (
            LOST_STATE,
            "words failed: the state in the checkpoint is gone, or the program that wrote it kept"
            " none: use the program that wrote it, or start from the beginning with another"
            " --checkpoint",
        ),
        (
            DAMAGED,
            "words failed: a file of the checkpoint is damaged (/var/words.checkpoint/offsets/0):"
            " restore a good copy, or start from the beginning with another --checkpoint",
        ),
        (OTHER, "words failed: The table `x` cannot be failure. Verify it"),
    ],
)
def test_sixty_lines_become_a_sentence_and_the_users_lines(reported: str, sentence: str) -> None:
    assert failure_of(reported).sentence("words") == sentence


def test_the_kind_of_an_error_of_ours_has_no_module() -> None:
    assert failure_of(MISSING_TOPIC).kind == "TopicMissing"


def test_a_note_of_a_real_exception_names_component_and_record() -> None:
    try:
        raise KeyError("no such page")
    except KeyError as error:
        error.add_note(failure_note("shout", "offset 5 of lines-0"))
        reported = "".join(traceback.format_exception(error))

    failure = failure_of(reported)

    assert (failure.component, failure.at) == ("shout", "offset 5 of lines-0")
    assert failure.why == "KeyError: 'no such page'"
    assert failure.lines[0].startswith(f'  File "{__file__}", line ')


@pytest.mark.parametrize("text", ["", "Traceback (most recent call last):\n", "\n\n", "[]"])
def test_any_text_becomes_a_failure(text: str) -> None:
    assert isinstance(failure_of(text), FlowFailure)
