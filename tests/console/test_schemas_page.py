"""The Schemas page in a real browser, with a real broker and registry."""

import json
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from playwright.sync_api import Page, expect

from headrace.console.server import ConsoleServer
from headrace.schema.schema import SchemaText, SchemaType
from headrace.serde.registry_client import RegistryClient
from headrace.serde.serializer import Serializer
from headrace.testing.readiness import wait_until
from testkit.peer.browser import strict_page
from testkit.process.broker_process import BrokerProcess
from testkit.process.console_client import ConsoleClient
from testkit.sample.console_site import SCRIPT

AXE = Path(__file__).with_name("vendor") / "axe.min.js"
FAULTS = """async () => (await axe.run(document, {resultTypes: ["violations"]})).violations
  .filter((each) => ["serious", "critical"].includes(each.impact))
  .map((each) => [each.id, each.nodes.map((node) => node.html.slice(0, 200))])"""
FITS = "document.scrollingElement.scrollWidth <= 390"


def versions_of(topic: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return two versions of a schema that no other topic has: ids belong to texts."""
    old: dict[str, Any] = {
        "type": "record",
        "name": topic.replace("-", "_"),
        "doc": SCRIPT,
        "fields": [{"name": "page", "type": "string"}],
    }
    return old, {**old, "fields": [*old["fields"], {"name": "ms", "type": "int", "default": 0}]}


@pytest.fixture
def topic(broker: BrokerProcess, registry: RegistryClient, schema_console: ConsoleServer) -> str:
    """A topic with a value of the second of two versions."""
    name = f"clicks-{uuid.uuid4().hex[:8]}"
    serializer = Serializer(registry)
    for each in versions_of(name):
        text = SchemaText(SchemaType.AVRO, json.dumps(each))
        schema = serializer.register(f"{name}-value", text)
    producer = Producer({"bootstrap.servers": broker.address})
    producer.produce(name, serializer.encode({"page": SCRIPT, "ms": 7}, schema), b"key")
    assert producer.flush(60) == 0
    poller = schema_console.state.cluster_poller
    wait_until(
        lambda: name in poller.snapshot.metadata.topics, what="the topic", timeout_seconds=60
    )
    # A page waits a second at most for the registry, and is not loaded again.
    client = ConsoleClient(schema_console.url)
    wait_until(
        lambda: "schema" in client.get(f"topics/{name}/messages").json()["messages"][0]["value"],
        what="the schema",
    )
    return name


@pytest.fixture(scope="module")
def page(browser: Any, schema_console: ConsoleServer) -> Iterator[Page]:
    size = {"width": 1280, "height": 860}
    with strict_page(browser, schema_console.url, viewport=size) as opened:
        yield opened
        assert opened.evaluate("window.pwned") is None


def go(page: Page, path: str) -> None:
    page.evaluate("path => { location.hash = path }", path)


def test_a_record_leads_to_its_schema(page: Page, topic: str) -> None:
    go(page, f"/topics/{topic}")
    page.locator(".messages summary").first.click()
    opened = page.locator(".open")
    expect(opened.locator("pre")).to_contain_text('"ms": 7')
    expect(opened.get_by_role("button", name="AVRO")).to_have_attribute("aria-pressed", "true")
    opened.get_by_role("link", name=f"{topic}-value, version 2").click()
    expect(page.get_by_role("heading", name=f"{topic}-value")).to_be_visible()
    expect(page.get_by_label("Schema", exact=True)).to_contain_text('"name": "ms"')


def test_subjects_are_found_by_keyboard_and_their_versions_compared(page: Page, topic: str) -> None:
    go(page, "/overview")
    expect(page.get_by_role("heading", name="Overview")).to_be_visible()
    page.keyboard.press("g")
    page.keyboard.press("c")
    page.get_by_label("Filter subjects by name").fill(topic)
    row = page.get_by_role("region", name="Subjects").get_by_role("row").filter(has_text=topic)
    expect(row).to_contain_text("AVRO")
    row.get_by_role("link").click()
    page.get_by_role("link", name="Difference").click()
    expect(page.get_by_role("status").filter(has_text="0 lines removed, 5 added.")).to_be_visible()
    expect(page.locator(".diff .line.added").nth(2)).to_contain_text('"name": "ms"')
    page.get_by_role("checkbox", name="side by side").uncheck()
    expect(page.get_by_role("region", name="Difference", exact=True)).to_be_visible()


def test_a_schema_is_tried_out_and_registered(page: Page, topic: str) -> None:
    _, new = versions_of(topic)
    go(page, f"/schemas/{topic}-value/try")
    schema = page.get_by_label("Schema", exact=True)
    expect(schema).to_have_value(json.dumps(new, indent=2))
    wrong = {**new, "fields": [*new["fields"], {"name": "who", "type": "string"}]}
    schema.fill(json.dumps(wrong))
    page.get_by_role("button", name="Try out").click()
    verdict = page.locator(".verdict")
    expect(verdict).to_contain_text("not compatible")
    expect(verdict).to_contain_text("READER_FIELD_MISSING_DEFAULT_VALUE")
    wrong["fields"][-1]["default"] = ""
    schema.fill(json.dumps(wrong))
    page.get_by_role("button", name="Try out").click()
    expect(verdict.get_by_text("compatible", exact=True)).to_be_visible()
    page.get_by_role("button", name="Register").click()
    expect(page.get_by_role("heading", name="Version 3")).to_be_visible()


def test_the_pages_are_accessible_in_light_and_dark_and_fit_a_phone(page: Page, topic: str) -> None:
    page.evaluate(AXE.read_text())
    shown = {"": "pre", "/diff": ".diff tr", "/try": ".verdict", "-list": "tbody tr"}
    for part, ready in shown.items():
        go(page, "/schemas" if part == "-list" else f"/schemas/{topic}-value{part}")
        expect(page.locator(f"#main {ready}").first).to_be_attached()
        for _ in range(2):
            assert page.evaluate(FAULTS) == [], part
            page.locator("#theme").click()
        page.set_viewport_size({"width": 390, "height": 800})
        page.wait_for_function(FITS)
        page.set_viewport_size({"width": 1280, "height": 860})
