"""The examples in the docstrings of `headrace.records` run."""

import doctest
import importlib

import pytest


@pytest.mark.parametrize(
    "module", ["batch", "compression", "control", "decode", "encode", "varint"]
)
def test_the_examples_of_a_module_hold(module):
    outcome = doctest.testmod(importlib.import_module(f"headrace.records.{module}"))

    assert outcome.attempted > 0
    assert outcome.failed == 0
