"""Interceptors: what each does to a batch."""

import socket
import time
import uuid
from pathlib import Path

import pytest

from headrace.ingest.event import EventBatch
from headrace.ingest.interceptor import Interceptor
from headrace.model.error import ConfigError
from testkit.sample.ingest_agent import make


def intercept(type_name: str, batch: EventBatch, /, **texts: str) -> EventBatch:
    interceptor = make(
        "interceptor", type_name, {key.replace("__", "."): value for key, value in texts.items()}
    )
    assert isinstance(interceptor, Interceptor)
    return interceptor.intercept(batch)


@pytest.fixture
def own_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / "own_interceptor.py").write_text(
        "def upper(event):\n"
        "    if event.body != b'drop':\n"
        "        return event._replace(body=event.body.upper())\n"
        "def first(batch):\n"
        "    return batch.cut(0, 1)\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    return "own_interceptor"


def test_timestamp_writes_now() -> None:
    before = time.time_ns() // 1_000_000
    (event,) = intercept("timestamp", EventBatch.plain([b"x"], {"a": "1"}))
    assert event.headers["a"] == "1"
    assert before <= int(event.headers["timestamp"]) <= time.time_ns() // 1_000_000


def test_timestamp_can_leave_one_that_is_there() -> None:
    batch = EventBatch.plain([b"x"], {"timestamp": "5"})
    assert next(iter(intercept("timestamp", batch))).headers["timestamp"] != "5"
    kept = intercept("timestamp", batch, preserveExisting="true")
    assert kept.headers == [{"timestamp": "5"}]


def test_the_batch_that_came_in_is_not_changed() -> None:
    batch = EventBatch.plain([b"x"], {})
    intercept("static", batch, key="k", value="v")
    assert batch.headers == [{}]


def test_static_leaves_a_header_that_is_there_by_default() -> None:
    batch = EventBatch([b"x", b"y"], [{"k": "own"}, {}])
    assert intercept("static", batch, key="k", value="v").headers == [{"k": "own"}, {"k": "v"}]
    over = intercept("static", batch, key="k", value="v", preserveExisting="false")
    assert over.headers == [{"k": "v"}, {"k": "v"}]


def test_host_writes_the_name_or_the_address() -> None:
    batch = EventBatch.plain([b"x"])
    assert intercept("host", batch, useIP="false").headers == [{"host": socket.gethostname()}]
    (address,) = intercept("host", batch, hostHeader="ip").headers
    socket.inet_aton(address["ip"])


def test_remove_header_by_name_list_and_expression() -> None:
    batch = EventBatch.plain([b"x"], {"a": "1", "b": "2", "ab": "3"})
    assert intercept("remove_header", batch, withName="a").headers == [{"b": "2", "ab": "3"}]
    assert intercept("remove_header", batch, fromList="a, b").headers == [{"ab": "3"}]
    assert intercept("remove_header", batch, matching="a.*").headers == [{"b": "2"}]


def test_search_replace_understands_java_s_groups() -> None:
    batch = EventBatch.plain([b"user=joe age=5", b"none"])
    changed = intercept(
        "search_replace", batch, searchPattern=r"(\w+)=(?<v>\w+)", replaceString="${v}:$1"
    )
    assert changed.bodies == [b"joe:user 5:age", b"none"]


def test_regex_filter_keeps_or_drops() -> None:
    batch = EventBatch.plain([b"ERROR a", b"INFO b"])
    assert intercept("regex_filter", batch, regex="^ERROR").bodies == [b"ERROR a"]
    dropped = intercept("regex_filter", batch, regex="^ERROR", excludeEvents="true")
    assert dropped.bodies == [b"INFO b"]


def test_regex_extractor_fills_headers() -> None:
    changed = intercept(
        "regex_extractor",
        EventBatch.plain([b"1:2:3.4foobar5", b"nothing"]),
        regex=r"(\d):(\d):(\d)",
        serializers="s1 s2 s3",
        serializers__s1__name="one",
        serializers__s2__name="two",
        serializers__s3__name="three",
    )
    assert changed.headers == [{"one": "1", "two": "2", "three": "3"}, {}]


def test_regex_extractor_turns_dates_into_milliseconds() -> None:
    changed = intercept(
        "regex_extractor",
        EventBatch.plain([b"2012-10-18 18:47:57 +0000,614 x"]),
        regex=r"^(\d+-\d+-\d+ \d+:\d+:\d+ .\d+)",
        serializers="s1",
        serializers__s1__type=(
            "org.apache.flume.interceptor.RegexExtractorInterceptorMillisSerializer"
        ),
        serializers__s1__name="timestamp",
        serializers__s1__pattern="yyyy-MM-dd HH:mm:ss Z",
    )
    assert changed.headers == [{"timestamp": "1350586077000"}]


def test_uuid_gives_each_event_its_own() -> None:
    changed = intercept("UUID", EventBatch.plain([b"a", b"b"]), prefix="p-")
    first, second = (headers["id"] for headers in changed.headers)
    assert first != second
    uuid.UUID(first.removeprefix("p-"))


def test_a_custom_function_changes_and_drops(own_module: str) -> None:
    batch = EventBatch.plain([b"a", b"drop"])
    assert intercept("python", batch, function=f"{own_module}:upper").bodies == [b"A"]


def test_a_function_for_batches_gets_the_batch(own_module: str) -> None:
    changed = intercept(
        "python", EventBatch.plain([b"a", b"b"]), function=f"{own_module}:first", batch="true"
    )
    assert changed.bodies == [b"a"]


@pytest.mark.parametrize(
    ("type_name", "texts", "message"),
    [
        ("regex_filter", {"regex": "("}, "is no regular expression"),
        ("search_replace", {"searchPattern": "a", "replaceString": "$1"}, "a group that is not"),
        ("search_replace", {}, "searchPattern is missing"),
        ("remove_header", {}, "names no header"),
        ("regex_extractor", {"regex": "a", "serializers": "s1"}, "serializers.s1.name is missing"),
        ("python", {"function": "os.path"}, "write module:name"),
        ("python", {"function": "os:nothing"}, "does not exist"),
    ],
)
def test_settings_that_cannot_be_meant(type_name: str, texts: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        make("interceptor", type_name, texts)
