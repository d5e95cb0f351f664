// Streams of the Kinesis gateway: their shards over time, and what is written against the limits.

import { poll } from "../api.js";
import { h, put, svg } from "../dom.js";
import { ago, bytes, count, moment, plural, rate } from "../format.js";
import { Table } from "../table.js";

const WIDTH = 760;
const HEIGHT = 132;
const LEFT = 44;

export function render(root) {
  const problem = h("p", { class: "problem", role: "alert", hidden: true });
  const list = h("div", {});
  const cards = new Map();
  root.append(h("h1", {}, "Streams"), problem, list);
  return poll("streams", (found) => {
    problem.hidden = !found.problem;
    put(problem, found.problem ?? "");
    const present = new Set(found.streams.map(({ name }) => name));
    for (const [name, card] of cards) {
      if (!present.has(name)) {
        card.element.remove();
        cards.delete(name);
      }
    }
    list.querySelector(":scope > .empty")?.remove();
    if (!found.streams.length) list.append(h("p", { class: "empty" }, "There is no stream yet. Start the gateway with headrace kinesis, then create one: aws kinesis create-stream."));
    for (const each of found.streams) {
      if (!cards.has(each.name)) {
        const card = new StreamCard(each, found.limits);
        cards.set(each.name, card);
        list.append(card.element);
      }
      cards.get(each.name).update(each, found.now_ms);
    }
  }, (error) => {
    problem.hidden = false;
    problem.textContent = error.message;
  }, 2000);
}

/** One stream. Its elements stay while its figures change. */
class StreamCard {
  constructor({ name }, limits) {
    this.facts = h("p", { class: "facts" });
    this.tree = h("div", { class: "scene", tabindex: "0", role: "region", "aria-label": `Shards of ${name} over time` });
    this.table = new Table([
      { title: "Shard", cell: (each) => h("span", { class: "nowrap" }, each.id), sign: (each) => each.id, sort: (each) => each.id },
      { title: "Hash keys", cell: (each) => `${percent(each.keys[0])} to\u00a0${percent(each.keys[1])}`, sort: (each) => each.keys[0] },
      { title: "Partition", cell: (each) => String(each.partition), sort: (each) => each.partition, num: true },
      { title: "Records", cell: (each) => count(each.records), sort: (each) => each.records ?? 0, num: true },
      { title: `Records/s of ${count(limits.records)}`, cell: (each) => load(each, each.records_per_second, limits.records, rate), sign: (each) => each.records_per_second, sort: (each) => each.records_per_second },
      { title: `Bytes/s of ${bytes(limits.bytes)}`, cell: (each) => load(each, each.bytes_per_second, limits.bytes, (number) => `${bytes(number)}/s`), sign: (each) => each.bytes_per_second, sort: (each) => each.bytes_per_second },
    ], { key: (each) => each.id, label: `Open shards of ${name}`, sort: 1 });
    this.element = h("section", { class: "card", "aria-label": `Stream ${name}` },
      h("div", { class: "head" }, h("h2", {}, h("a", { href: `#/topics/${encodeURIComponent(name)}` }, name))),
      this.facts, this.tree, h("h3", {}, "Open shards"), this.table.element);
  }

  update(each, now) {
    put(this.facts, [each.status.toLowerCase(), each.mode === "ON_DEMAND" ? "on demand" : "provisioned", `${plural(each.open, "open shard")}, ${count(each.closed)} closed`,
      `kept for ${each.retention_hours} h`, each.consumers.length ? plural(each.consumers.length, "registered consumer") : "", `created ${ago(each.created_ms)}`].filter(Boolean).join(" · "));
    if (!this.tree.contains(document.activeElement) || this.tree === document.activeElement) put(this.tree, tree(each, now));
    this.table.update(each.shards.filter((shard) => shard.open), "No shard is open.");
  }
}

const percent = (part) => `${Number((100 * part).toFixed(2))}\u00a0%`;

function load(shard, value, limit, text) {
  return h("div", { class: "load" },
    h("meter", { min: "0", max: String(limit), low: String(0.8 * limit), high: String(0.95 * limit), optimum: "0", value: Math.min(value, limit), "aria-label": `Load of ${shard.id}` }),
    h("span", { class: value > 0.95 * limit ? "below" : "" }, text(value)));
}

/** Draw each shard as the time it was open by the hash keys it has: children lie right of their parents. */
function tree({ name, shards, created_ms: created }, now) {
  const from = Math.min(created, ...shards.map((each) => each.created_ms));
  const span = Math.max(1, now - from);
  const x = (ms) => LEFT + ((WIDTH - LEFT) * Math.max(0, ms - from)) / span;
  const boxes = shards.map((each) => {
    const left = x(each.created_ms);
    const right = x(each.open ? now : each.closed_ms ?? now);
    const [top, bottom] = each.keys.map((part) => part * HEIGHT);
    const wide = Math.max(2, right - left - 1);
    const high = Math.max(1, bottom - top - 1);
    const parents = each.parents.length ? `, from ${each.parents.join(" and ")}` : "";
    const title = `${each.id}: ${each.open ? "open" : `closed ${moment(each.closed_ms)}`}, opened ${moment(each.created_ms)}${parents}, ${plural(each.records ?? 0, "record")}`;
    return svg("g", { class: each.open ? "shard open" : "shard" }, svg("title", {}, title),
      svg("rect", { x: left.toFixed(1), y: (4 + top).toFixed(1), width: wide.toFixed(1), height: high.toFixed(1), rx: "2" }),
      wide > 60 && high > 13 ? svg("text", { x: (left + 6).toFixed(1), y: (4 + top + high / 2 + 4).toFixed(1) }, String(Number(each.id.slice(8)))) : null);
  });
  const drawn = svg("svg", { viewBox: `0 0 ${WIDTH + 2} ${HEIGHT + 26}`, class: "shards", role: "img", "aria-label": `${name}: ${plural(shards.length, "shard")}` },
    svg("text", { x: "0", y: "14" }, "0 %"), svg("text", { x: "0", y: String(HEIGHT) }, "100 %"),
    svg("text", { x: String(LEFT), y: String(HEIGHT + 20) }, moment(from)), svg("text", { x: String(WIDTH), y: String(HEIGHT + 20), "text-anchor": "end" }, "now"), boxes);
  drawn.style.minWidth = "560px";
  return drawn;
}
