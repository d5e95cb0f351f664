"""Estimates of what JSON takes in memory, beside what it takes."""

import json
import tracemalloc

import pytest

from headrace.ingest.format.json_memory import memory_bytes, quick_memory_bytes
from headrace.ingest.sources.http import read_json

SHAPES = {
    "empty": "{}",
    "one": '{"":0}',
    "nested": '{"":{}}',
    "event": '{"headers":{"host":"web1","n":"1"},"body":"GET /"}',
    "wide": '{"body":"😀é"}',
    "latin": '{"body":"café %s"}' % ("x" * 500),
    "chinese": '{"body":"好%s"}' % ("x" * 500),
    "emoji": '{"body":"😀%s"}' % ("x" * 500),
    "escaped": '{"body":"\\ud83d\\ude00%s"}' % ("x" * 500),
    "escaped chinese": '{"body":"\\u597d%s"}' % ("x" * 500),
    "long": json.dumps({"body": "x" * 5000}),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_no_estimate_is_too_low_or_far_too_high(shape: str) -> None:
    body = f"[{','.join([SHAPES[shape]] * (200_000 // len(SHAPES[shape])))}]".encode()
    tracemalloc.start()
    try:
        read_json(body, "", "")
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < memory_bytes(body) <= quick_memory_bytes(body) < 4 * peak


def test_what_is_inside_a_text_is_no_structure() -> None:
    inner = json.dumps([{"a": ["\\", '"']}] * 20)
    body = json.dumps([{"body": inner}] * 300).encode()
    plain = json.dumps([{"body": "x" * (len(inner) + inner.count("\\"))}] * 300).encode()
    assert quick_memory_bytes(body) > 3 * memory_bytes(body)
    assert memory_bytes(body) < 1.5 * memory_bytes(plain)


def test_a_text_may_be_longer_than_a_chunk() -> None:
    text = "{" * (3 << 20)
    body = f'["{text}",{{}}]'.encode()
    assert memory_bytes(body) < 3 * len(body) + 1000
