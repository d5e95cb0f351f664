"""The page in a real browser, against a real broker: every page clicked through, in light and dark,
with hostile data, on a phone, by keyboard. Any complaint of the browser fails the test.

`HEADRACE_SCREENSHOTS=docs/images` keeps the pictures of the pages.
"""

import json
import os
import random
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest
from confluent_kafka import Producer
from playwright.sync_api import Page, expect

from headrace.audit.reporter import Reporter
from headrace.audit.tally import Tally
from headrace.client.address import Address
from headrace.client.admin import Admin, NewTopic
from headrace.client.group_admin import GroupAdmin
from headrace.client.pool import ConnectionPool
from headrace.client.settings import ClientSettings
from headrace.config.properties import parse_properties
from headrace.console.server import ConsoleServer
from headrace.console.settings import ConsoleSettings
from headrace.console.user import Users, hash_password
from headrace.flow.metrics_server import MetricsServer
from headrace.flow.registry import FOLDER_VARIABLE, Registry, this_run
from headrace.ingest.assembly import assemble
from headrace.ingest.config import plan_agent
from headrace.ingest.monitor import Monitor
from headrace.model.ids import TopicPartition
from headrace.testing.broker_process import BrokerProcess
from headrace.testing.browser import strict_page
from headrace.testing.readiness import wait_until

EVERY_LEGAL_CHARACTER = (
    "All.legal_characters-0123456789-ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
)
SCRIPT = '<img src=x onerror="window.pwned=1"><script>window.pwned=1</script>'
HOSTILE_GROUP = 'a/group & "more" <b>%2F</b>'
AXE = Path(__file__).with_name("vendor") / "axe.min.js"
PAGES = {
    "overview": "/overview",
    "topics": "/topics",
    "messages": "/topics/page-views",
    "partitions": "/topics/page-views/partitions",
    "readers": "/topics/page-views/groups",
    "configuration": "/topics/page-views/config",
    "groups": "/groups",
    "group": "/groups/search-index",
    "flows": "/flows",
    "agents": "/agents",
    "audit": "/audit",
}
SHOWN = ("overview", "topics", "messages", "groups", "group", "flows", "agents", "audit")


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClientSettings]:
    """A broker of our own, with the data of a small site and some that means harm."""
    process = BrokerProcess(
        tmp_path_factory.mktemp("console-broker"), {"message.max.bytes": "9000000"}
    )
    with process as broker:
        settings = ClientSettings.of({"bootstrap.servers": broker.address})
        with ConnectionPool(settings) as pool:
            topics = [
                *(NewTopic(name, 3) for name in ("page-views", "searches", "impressions")),
                *(NewTopic(name, 1) for name in ("alerts", "hostile", EVERY_LEGAL_CHARACTER)),
            ]
            assert set(Admin(pool).create_topics(topics).values()) == {None}
            write_site(broker.address, 3_000)
            write_hostile(broker.address)
            commit_some(pool)
        audit_some(settings)
        with traffic(broker.address, settings):
            yield settings


def write_site(address: str, views: int) -> None:
    chance = random.Random(7)
    producer = Producer({"bootstrap.servers": address})
    for number in range(views):
        user = f"user-{chance.randrange(400)}"
        page = chance.choice(["/", "/docs", "/pricing", "/blog/lag-without-thresholds"])
        view = {"user": user, "page": page, "ms": chance.randrange(900), "status": 200}
        producer.produce("page-views", json.dumps(view), user, headers={"trace": f"{number:06x}"})
        if number % 3 == 0:
            producer.produce("searches", json.dumps({"user": user, "q": "kafka"}), user)
            producer.poll(0)
    assert producer.flush(60) == 0


def write_hostile(address: str) -> None:
    producer = Producer({"bootstrap.servers": address, "message.max.bytes": 9_000_000})
    producer.produce("hostile", b"x" * 5_000_000, b"5 MB")
    producer.produce("hostile", bytes(range(256)), bytes(range(128, 256)))
    producer.produce("hostile", None, b"tombstone")
    producer.produce("hostile", SCRIPT, SCRIPT, headers={SCRIPT: SCRIPT})
    producer.produce("hostile", json.dumps({"html": SCRIPT}), b"json")
    producer.produce(EVERY_LEGAL_CHARACTER, "a value", "a key")
    assert producer.flush(60) == 0


def commit_some(pool: ConnectionPool) -> None:
    admin = GroupAdmin(pool)
    for group, offset in (("page-count-flow", 900), ("search-index", 200), (HOSTILE_GROUP, 5)):
        partitions = [TopicPartition("page-views", index) for index in range(3)]
        assert set(admin.commit(group, dict.fromkeys(partitions, offset)).values()) == {None}


@contextmanager
def traffic(address: str, settings: ClientSettings) -> Iterator[None]:
    """Something is always going on: records come, and a group follows them."""
    stopping = Event()

    def run() -> None:
        producer = Producer({"bootstrap.servers": address})
        with ConnectionPool(settings) as pool:
            read = 0
            while not stopping.wait(0.25):
                for number in range(20):
                    producer.produce("impressions", f'{{"ad": {number}}}', partition=0)
                    producer.produce("searches", '{"q": "spark"}', partition=number % 3)
                producer.flush(60)
                read += 18
                GroupAdmin(pool).commit("ad-billing", {TopicPartition("impressions", 0): read})

    thread = Thread(target=run, name="traffic", daemon=True)
    thread.start()
    try:
        yield
    finally:
        stopping.set()
        thread.join()


def audit_some(settings: ClientSettings) -> None:
    now_ms = time.time_ns() // 1_000_000
    for tier, lost in (("producer", 0), ("broker", 0), ("lake", 7)):
        tally = Tally(tier, bucket_ms=60_000)
        for minute in range(2, 8):
            tally.count("page-views", now_ms - minute * 60_000, 12_000 - lost * (minute == 4))
            tally.count("searches", now_ms - minute * 60_000, 4_000)
        Reporter(tally, settings).report()


AGENT = """
a1.sources = r1
a1.channels = c1
a1.sinks = k1
a1.sources.r1.type = seq
a1.sources.r1.channels = c1
a1.channels.c1.type = memory
a1.channels.c1.capacity = 1000
a1.sinks.k1.type = logger
a1.sinks.k1.channel = c1
"""

GRAPH = {
    "name": "page-counts",
    "guarantee": "exactly once",
    "nodes": [
        {"name": name, "kind": kind, "what": name, "parallelism": 2, "stage": 0}
        for name, kind in (("views", "spout"), ("by-page", "bolt"), ("counts", "bolt"))
    ],
    "arrows": [
        {"source": "views", "target": "by-page"},
        {"source": "by-page", "target": "counts"},
    ],
}


@pytest.fixture(scope="module")
def agent_url() -> Iterator[str]:
    """The monitoring of a real agent's parts, which do not run."""
    plan, _ = plan_agent(parse_properties(AGENT, {}), "a1")
    assembly = assemble(plan)
    monitor = Monitor(Address("127.0.0.1", 0), lambda: assembly)
    monitor.start()
    yield f"http://127.0.0.1:{monitor.port}/metrics"
    monitor.stop()


@pytest.fixture(scope="module")
def site(
    settings: ClientSettings, agent_url: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ConsoleServer]:
    """A console with everything in it, a flow and an agent beside it."""
    folder = tmp_path_factory.mktemp("flows")
    before = os.environ.get(FOLDER_VARIABLE)
    os.environ[FOLDER_VARIABLE] = str(folder)
    with MetricsServer() as metrics:
        metrics.follow("page-counts", lambda: None)
        run = this_run(
            name="page-counts",
            program="examples/page_views",
            master="local[2]",
            brokers="",
            metrics=metrics.address,
            graph=GRAPH,
        )
        Registry(folder).write(run)
        told = ConsoleSettings(
            settings,
            listen=Address("127.0.0.1", 0),
            agents={"collector": agent_url},
            interval_seconds=0.5,
        )
        with ConsoleServer(told) as server:
            wait_until(lambda: seen(server), what="a first look", timeout_seconds=120)
            yield server
    if before is None:
        del os.environ[FOLDER_VARIABLE]
    else:
        os.environ[FOLDER_VARIABLE] = before


def seen(server: ConsoleServer) -> bool:
    return server.desk.watch.problem is None and bool(server.desk.watch.sight.groups)


@pytest.fixture
def page(browser: Any, site: ConsoleServer) -> Iterator[Page]:
    with strict_page(browser, site.url, viewport={"width": 1280, "height": 860}) as opened:
        yield opened


def go(page: Page, path: str) -> None:
    page.evaluate("path => { location.hash = path }", path)


def test_the_overview_shows_the_cluster(page: Page) -> None:
    expect(page.locator(".tile").nth(2)).to_contain_text("partitions")
    expect(page.locator(".picture a").filter(has_text="page-views").first).to_be_visible()
    page.get_by_role("button", name="Configuration of broker 1").click()
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_text("log.retention.ms", exact=True)).to_be_visible()
    page.keyboard.press("Escape")
    expect(dialog).to_have_count(0)


def test_a_topic_is_found_and_its_records_read(page: Page) -> None:
    page.get_by_role("link", name="Topics", exact=True).click()
    page.get_by_label("Filter topics by name").fill("views")
    page.get_by_role("region", name="Topics").get_by_role("link", name="page-views").click()
    expect(page.locator(".messages li")).to_have_count(50)
    page.locator(".messages summary").first.click()
    expect(page.locator(".open pre")).to_contain_text('"page":')
    page.get_by_role("button", name="HEX").click()
    expect(page.locator(".open pre")).to_contain_text("00000000  7b 22")


def test_records_are_searched_by_text_and_by_path(page: Page) -> None:
    go(page, "/topics/page-views")
    page.get_by_label("Text to look for").fill("pricing")
    page.get_by_role("button", name="Search").click()
    expect(page.locator(".messages .preview").first).to_contain_text("/pricing")
    page.get_by_label("Text to look for").fill("")
    page.get_by_text("JSON path").click()
    page.get_by_label("Path", exact=True).fill("status")
    page.get_by_label("Equals").fill("500")
    page.get_by_role("button", name="Search").click()
    expect(page.get_by_role("status").filter(has_text="Nothing found")).to_be_visible()


def test_a_produced_record_shows_up_in_the_live_tail(page: Page) -> None:
    go(page, "/topics/alerts")
    page.get_by_role("button", name="Live tail").click()
    expect(page.get_by_text("Waiting for new records")).to_be_visible()
    page.get_by_role("button", name="Produce").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Key").fill("page-7")
    dialog.get_by_label("Value", exact=True).fill('{"failing": true}')
    dialog.get_by_label("Headers, one a line").fill("by: hand")
    dialog.get_by_role("button", name="Produce").click()
    expect(page.locator(".messages .key").first).to_have_text("page-7")
    page.get_by_role("button", name="Stop").click()


def test_a_topic_lives_from_its_making_to_its_end(page: Page) -> None:
    go(page, "/topics")
    page.get_by_role("button", name="New topic").click()
    page.get_by_role("dialog").get_by_label("Name").fill("short-lived")
    page.get_by_role("button", name="Create").click()
    expect(page.get_by_role("heading", name="short-lived")).to_be_visible()
    page.get_by_role("link", name="Configuration").click()
    page.get_by_role("button", name="Change retention.ms").click()
    page.get_by_label("Value").fill("7200000")
    page.get_by_role("button", name="Save").click()
    expect(page.locator(".entry.set").get_by_text("7200000")).to_be_visible()
    page.get_by_role("button", name="Delete", exact=True).click()
    gone = page.get_by_role("button", name="Delete for ever")
    expect(gone).to_be_disabled()
    page.get_by_label("Type the topic's name to confirm").fill("short-lived")
    gone.click()
    expect(page.get_by_role("heading", name="Topics")).to_be_visible()


def test_offsets_are_reset_after_a_preview(page: Page, settings: ClientSettings) -> None:
    go(page, "/groups")
    page.get_by_role("link", name="page-count-flow").click()
    expect(page.get_by_role("region", name="Partitions").locator("tbody tr")).to_have_count(3)
    page.get_by_role("button", name="Reset offsets").click()
    page.get_by_label("Go to").select_option("shift")
    page.get_by_label("Records (negative goes back)").fill("-50")
    page.get_by_role("button", name="Preview").click()
    expect(page.get_by_text("3 partitions of 3 would move.")).to_be_visible()
    page.get_by_role("button", name="Reset", exact=True).click()
    expect(page.get_by_text("are set.")).to_be_visible()
    with ConnectionPool(settings) as pool:
        assert set(GroupAdmin(pool).offsets("page-count-flow").values()) == {850}


def test_hostile_data_is_only_text(page: Page) -> None:
    go(page, "/topics/hostile")
    expect(page.locator(".messages li")).to_have_count(5)
    for line in page.locator(".messages summary").all():
        line.click()
    expect(page.locator(".open pre")).to_have_count(5)
    expect(page.locator(".open pre").filter(has_text=SCRIPT).first).to_be_visible()
    expect(page.locator(".open .problem:visible")).to_contain_text("Too long to show")
    expect(page.locator(".open .headers dd").filter(has_text=SCRIPT).first).to_be_visible()
    assert page.evaluate("window.pwned") is None
    assert page.locator("main img, main script").count() == 0


def test_names_of_any_kind_have_their_page(page: Page) -> None:
    go(page, f"/topics/{EVERY_LEGAL_CHARACTER}")
    expect(page.get_by_role("heading", name=EVERY_LEGAL_CHARACTER)).to_be_visible()
    expect(page.locator(".messages .key")).to_have_text("a key")
    go(page, "/groups")
    page.get_by_role("link", name=HOSTILE_GROUP).click()
    expect(page.get_by_role("heading", name=HOSTILE_GROUP)).to_be_visible()
    expect(page.get_by_role("region", name="Partitions").locator("tbody tr")).to_have_count(3)


def test_the_audit_flags_what_was_lost(page: Page) -> None:
    go(page, "/audit")
    expect(page.get_by_role("status").get_by_text("7 lost")).to_be_visible()
    page.get_by_label("only what is below 100 %").check()
    rows = page.get_by_role("region", name="Counts per topic and bucket").locator("tbody tr")
    expect(rows).to_have_count(1)
    expect(rows.locator(".below")).to_contain_text("99.942 %")


def test_flows_and_agents_are_shown(page: Page) -> None:
    go(page, "/flows")
    expect(page.get_by_role("heading", name="page-counts")).to_be_visible()
    expect(page.locator(".picture .name")).to_have_text(["views", "by-page", "counts"])
    go(page, "/agents")
    expect(page.get_by_role("heading", name="collector")).to_be_visible()
    expect(page.get_by_label("Fill of channel c1")).to_be_visible()


def test_the_keyboard_is_enough(page: Page) -> None:
    # Keys mean nothing before the page stands.
    expect(page.get_by_role("heading", name="Overview")).to_be_visible()
    page.keyboard.press("g")
    page.keyboard.press("t")
    expect(page.get_by_role("heading", name="Topics")).to_be_visible()
    page.keyboard.press("/")
    expect(page.get_by_label("Filter topics by name")).to_be_focused()
    page.get_by_label("Filter topics by name").blur()
    dark = page.locator("html").get_attribute("data-theme") == "dark"
    page.keyboard.press("d")
    expect(page.locator("html")).to_have_attribute("data-theme", "light" if dark else "dark")
    page.keyboard.press("?")
    expect(page.get_by_role("dialog", name="Keys")).to_be_visible()


def test_a_viewer_logs_in_and_cannot_change_anything(browser: Any, site: ConsoleServer) -> None:
    users = Users(f"vic:viewer:{hash_password('long enough')}")
    told = replace(site.desk.settings, users=users, agents={})
    with (
        ConsoleServer(told) as server,
        strict_page(browser, f"{server.url}#/topics/alerts") as page,
    ):
        wait_until(lambda: seen(server), what="a first look", timeout_seconds=120)
        page.get_by_label("Name").fill("vic")
        page.get_by_label("Password").fill("long enough")
        page.get_by_role("button", name="Log in").click()
        expect(page.get_by_role("heading", name="alerts")).to_be_visible()
        expect(page.get_by_role("button", name="Produce")).to_have_count(0)
        expect(page.get_by_role("button", name="Delete")).to_have_count(0)
        page.get_by_role("button", name="Log out vic").click()
        expect(page.get_by_label("Password")).to_be_visible()


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_every_page_is_accessible(
    browser: Any, site: ConsoleServer, theme: str, tmp_path: Path
) -> None:
    kept = os.environ.get("HEADRACE_SCREENSHOTS")
    folder = Path(kept) if kept else tmp_path
    size = {"width": 1280, "height": 860}
    with strict_page(browser, site.url, color_scheme=theme, viewport=size) as page:
        page.evaluate(AXE.read_text())
        for name, path in PAGES.items():
            if theme == "dark" and name not in SHOWN:
                continue  # they are made of the same pieces
            go(page, path)
            expect(page.locator("#main h1")).to_be_visible()
            page.wait_for_function(LOADED)
            if name in SHOWN:
                page.screenshot(path=folder / f"console-{name}-{theme}.png")
            found = page.evaluate(RUN_AXE)
            assert found == [], f"{name}: {json.dumps(found, indent=1)}"


LOADED = "() => document.querySelector('#main tbody tr, #main .card, #main li') !== null"
RUN_AXE = """async () => {
  const found = await axe.run(document, {resultTypes: ["violations"]});
  return found.violations
    .filter((each) => ["serious", "critical"].includes(each.impact))
    .map((each) => [each.id, each.nodes.map((node) => node.html.slice(0, 200))]);
}"""


def test_every_page_fits_a_phone(browser: Any, site: ConsoleServer) -> None:
    size = {"width": 390, "height": 800}
    with strict_page(browser, site.url, viewport=size, is_mobile=True) as page:
        for name, path in PAGES.items():
            go(page, path)
            page.wait_for_function(LOADED)
            wide = page.evaluate("document.scrollingElement.scrollWidth")
            assert wide <= size["width"], f"{name} is {wide} wide"
