"""Mirrors in the console: clusters as boxes, flows as arrows with lag and age."""

import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from playwright.sync_api import Page, expect

from headrace.client.address import Address
from headrace.client.settings import ClientSettings
from headrace.console.server import ConsoleServer
from headrace.console.settings import ConsoleSettings
from headrace.mirror.config.mirror_file import MirrorFile
from headrace.mirror.link.link_status import read_status
from headrace.testing.readiness import wait_until
from testkit.peer.browser import strict_page
from testkit.process.broker_process import BrokerProcess
from testkit.process.console_client import ConsoleClient
from testkit.process.member import create_topic
from testkit.process.mirror_process import MirrorProcess

AXE = Path(__file__).with_name("vendor") / "axe.min.js"
FAULTS = """async () => (await axe.run(document, {resultTypes: ["violations"]})).violations
  .filter((each) => ["serious", "critical"].includes(each.impact))
  .map((each) => [each.id, each.nodes.map((node) => node.html.slice(0, 200))])"""
# Two clusters that copy each other: are the labels inside the picture?
PAIR = """async () => {
  const { picture } = await import("/static/picture.js");
  const node = (name) => ({ name, note: "127.0.0.1:9092", kind: "kafka-cluster" });
  const arrow = (...path) => ({ path, label: "all copied", still: true });
  const drawn = picture({
    nodes: { a: node("a"), b: node("b") }, layers: [["a"], ["b"]], label: "two clusters",
    arrows: [arrow("a", "b"), arrow("b", "a")], gap: 180, paired: true,
  });
  document.body.append(drawn);
  const high = drawn.viewBox.baseVal.height;
  return [...drawn.querySelectorAll("text.flow")].map((text) => {
    const { y, height } = text.getBBox();
    return y >= 0 && y + height <= high;
  });
}"""
FITS = "document.scrollingElement.scrollWidth <= 390"
SECRET = "not for the page"
BEHIND = 5


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path_factory.mktemp("target")) as process:
        yield process


def produce(address: str, topic: str, count: int) -> None:
    producer = Producer({"bootstrap.servers": address})
    for number in range(count):
        producer.produce(topic, b"%d" % number)
    assert producer.flush(60) == 0


def lag_of(running: MirrorProcess) -> int:
    """Return how much is left to copy; a partition without a position counts as one record."""
    statuses = read_status(MirrorFile.read(running.file))
    return sum(1 if each.lag is None else each.lag for each in statuses)


@pytest.fixture(scope="module")
def topic() -> str:
    return f"clicks-{uuid.uuid4().hex[:8]}"


@pytest.fixture(scope="module")
def console(
    tmp_path_factory: pytest.TempPathFactory,
    broker: BrokerProcess,
    target: BrokerProcess,
    topic: str,
) -> Iterator[ConsoleServer]:
    """A console that sees a flow which ended behind, the way back, and a cluster that is away."""
    create_topic(broker.address, topic, 1)
    produce(broker.address, topic, 10)
    clusters = {"us": broker.address, "eu": target.address}
    settings = {"us->eu.enabled": "true", "topics": topic, "emit.heartbeats.enabled": "false"}
    with MirrorProcess(tmp_path_factory.mktemp("mirror"), clusters, settings) as running:
        wait_until(lambda: lag_of(running) == 0, what="the copy")
    produce(broker.address, topic, BEHIND)
    file = MirrorFile.of(
        {
            "clusters": "us, eu, gone",
            **{f"{alias}.bootstrap.servers": at for alias, at in clusters.items()},
            **settings,
            "eu->us.enabled": "true",
            "us->gone.enabled": "true",
            "gone.bootstrap.servers": "127.0.0.1:1",
            "gone.security.protocol": "SASL_PLAINTEXT",
            "gone.sasl.mechanism": "PLAIN",
            "gone.sasl.username": "ann",
            "gone.sasl.password": SECRET,
        }
    )
    console = ConsoleSettings(
        ClientSettings.of({"bootstrap.servers": broker.address}),
        listen=Address("127.0.0.1", 0),
        interval_seconds=0.3,
        mirrors=(file,),
    )
    with ConsoleServer(console) as server:
        yield server


def mirrors(console: ConsoleServer) -> dict[str, Any]:
    return dict(ConsoleClient(console.url).get("mirrors").json())


def test_flows_have_lag_and_age_and_clusters_that_are_away_a_reason(
    console: ConsoleServer, topic: str
) -> None:
    found = mirrors(console)

    flows = {each["name"]: each for each in found["flows"]}
    there = flows["us->eu"]
    assert (there["lag"], there["states"], there["problem"]) == (BEHIND, ["behind"], None)
    assert there["age_ms"] > 0
    assert [(each["topic"], each["remote_topic"]) for each in there["topics"]] == [
        (topic, f"us.{topic}")
    ]
    assert flows["eu->us"]["topics"] == []
    assert "127.0.0.1:1" in flows["us->gone"]["problem"]
    nodes = found["picture"]["nodes"].values()
    assert {each["name"]: each["here"] for each in nodes} == {
        "us": True,
        "eu": False,
        "gone": False,
    }
    assert SECRET.encode() not in ConsoleClient(console.url).get("mirrors").body


def test_a_console_without_mirrors_has_none(start_console: Callable[..., ConsoleServer]) -> None:
    assert mirrors(start_console())["flows"] == []


def test_the_page_draws_clusters_and_what_is_between_them(
    browser: Any, console: ConsoleServer, topic: str
) -> None:
    with strict_page(browser, console.url, viewport={"width": 1280, "height": 860}) as page:
        go_to_mirrors(page)
        picture = page.locator(".picture")
        expect(picture.locator("rect.kafka-cluster")).to_have_count(3)
        expect(picture.locator("text.name").filter(has_text="us · here")).to_be_visible()
        lag = picture.locator("text.flow").filter(has_text=f"lag {BEHIND} ·")
        expect(lag).to_be_visible()
        expect(picture.locator("text.flow.bad")).to_contain_text("cannot be seen")
        flow = page.get_by_role("region", name="Flow us->eu")
        expect(flow.get_by_role("row", name=topic)).to_contain_text("behind")
        page.evaluate(AXE.read_text())
        assert page.evaluate(FAULTS) == []


def test_the_page_fits_on_a_phone(browser: Any, console: ConsoleServer) -> None:
    with strict_page(browser, console.url, viewport={"width": 390, "height": 800}) as page:
        go_to_mirrors(page)
        expect(page.locator(".picture rect.kafka-cluster").first).to_be_visible()
        assert page.evaluate(FITS)


def test_labels_between_two_clusters_are_inside_the_picture(
    browser: Any, console: ConsoleServer
) -> None:
    with strict_page(browser, console.url) as page:
        go_to_mirrors(page)
        assert page.evaluate(PAIR) == [True, True]


def go_to_mirrors(page: Page) -> None:
    page.evaluate("location.hash = '/mirrors'")
    expect(page.get_by_role("heading", name="Mirrors")).to_be_visible()
