"""What a query says about itself."""

from headrace.cli.flow_pulse import Pulse, pulse_of

PROGRESS = {
    "batchId": 7,
    "numInputRows": 8,
    "processedRowsPerSecond": 16.0,
    "batchDuration": 500,
    "sources": [
        {
            "startOffset": {"lines": {"0": 10, "1": 20}},
            "endOffset": '{"lines": {"0": 1010, "1": 220}}',
            "latestOffset": {"lines": {"0": 1012, "1": 220}, "more": {"0": 5}},
        }
    ],
    "stateOperators": [{"numRowsTotal": 3, "memoryUsedBytes": 2_000_000}],
}


def test_the_figures_of_the_last_batch() -> None:
    pulse = pulse_of(PROGRESS, active=True)

    assert (pulse.batch, pulse.lag, pulse.state_rows) == (7, 7, 3)
    assert pulse.line == "batch 7, 1,200 records, 2,400 records/s, 500 ms, state 2.0 MB, lag 7"


def test_a_source_that_counts_otherwise_has_no_lag() -> None:
    progress = {**PROGRESS, "sources": [{"endOffset": 3, "latestOffset": "x"}]}

    assert pulse_of(progress, active=True).lag is None


def test_before_the_first_batch() -> None:
    assert pulse_of(None, active=True) == Pulse(True)
    assert Pulse(True).line == "waiting for the first batch"
