// Flows: the graph, components, batch times and tables of each.

import { ask, poll } from "../api.js";
import { Chart } from "../chart.js";
import { dialog, h, put, toast } from "../dom.js";
import { ago, bytes, count, plural, rate, short, took } from "../format.js";
import { picture } from "../picture.js";
import { plainTable } from "../table.js";

export function render(root, _, context) {
  const problem = h("p", { class: "problem", role: "alert", hidden: true });
  const list = h("div", {});
  const cards = new Map();
  root.append(h("h1", {}, "Flows"), problem, list);
  const stop = poll("flows", (found) => {
    problem.hidden = true;
    const present = new Set(found.flows.map(key));
    for (const [id, card] of cards) {
      if (!present.has(id)) {
        card.close();
        cards.delete(id);
      }
    }
    if (!found.flows.length) {
      put(list, h("p", { class: "empty" }, "No flow runs on this machine, and none reports to these brokers. Start one with headrace flow run, or name one with --flow NAME=http://HOST:PORT."));
      return;
    }
    list.querySelector(":scope > .empty")?.remove();
    for (const each of found.flows) {
      if (!cards.has(key(each))) {
        const card = new FlowCard(each, context);
        cards.set(key(each), card);
        list.append(card.element);
      }
      cards.get(key(each)).update(each);
    }
  }, (error) => {
    problem.hidden = false;
    problem.textContent = error.message;
  }, 2000);
  return () => {
    stop();
    for (const card of cards.values()) card.close();
  };
}

const key = (each) => `${each.name} ${each.application ?? each.pid}`;

/** One flow. Its elements stay while its figures change, so that focus and scroll position stay. */
class FlowCard {
  constructor(each, context) {
    this.facts = h("p", { class: "facts" });
    this.activation = h("button", { type: "button", class: "small", onclick: () => confirm(each, this.active ? DEACTIVATE : ACTIVATE) });
    this.problem = h("p", { class: "problem", hidden: true });
    this.last = h("p", {});
    this.graph = h("div", { class: "scene", tabindex: "0", role: "region", "aria-label": `Graph of ${each.name}`, hidden: true });
    this.chart = new Chart(`Batch times of ${each.name}`, ["a batch"], { height: 120, unit: took });
    this.times = h("div", { hidden: true }, h("h3", {}, "Batch times"), this.chart.element);
    this.components = h("div", {});
    this.tables = h("div", {});
    this.element = h("section", { class: "card", "aria-label": `Flow ${each.name}` },
      h("div", { class: "head" }, h("h2", {}, each.name), each.pid && context.may("admin") ? h("div", { class: "buttons" }, this.activation,
        h("button", { type: "button", class: "small", "aria-label": `Restart ${each.name}`, onclick: () => confirm(each, RESTART) }, "Restart"),
        h("button", { type: "button", class: "danger small", "aria-label": `Stop ${each.name}`, onclick: () => confirm(each, STOP) }, "Stop")) : null),
      this.facts, this.problem, this.last, this.graph, this.tables, this.times, this.components);
  }

  update(each) {
    const { figures, batches } = each;
    this.active = each.active;
    const { title } = each.active ? DEACTIVATE : ACTIVATE;
    this.activation.setAttribute("aria-label", `${title} ${each.name}`);
    put(this.activation, title);
    put(this.facts, [each.active ? "" : "inactive", each.program, each.master, each.host ? `driver on ${each.host}, ${each.application}` : "", each.started_ms ? `started ${ago(each.started_ms)}` : ""].filter(Boolean).join(" · "));
    this.problem.hidden = !each.problem;
    put(this.problem, each.problem ?? "");
    put(this.last, figures ? summary(figures) : "");
    this.graph.hidden = !each.graph.layers.length;
    if (!this.graph.hidden && !focused(this.graph)) put(this.graph, graph(each));
    this.times.hidden = batches.times.length < 2;
    if (!this.times.hidden) this.chart.update(batches.times, [batches.ms]);
    if (!focused(this.components)) put(this.components, figures?.components.length ? components(each.name, figures.components) : "");
    if (!focused(this.tables)) this.tables.replaceChildren(...each.tables.map(table));
  }

  close() {
    this.chart.close();
    this.element.remove();
  }
}

const focused = (place) => place.contains(document.activeElement) && place !== document.activeElement;

function summary(figures) {
  if (figures.batch === null) return "No batch yet.";
  const state = figures.state_rows ? ` · state ${short(figures.state_rows)} rows, ${bytes(figures.state_bytes)}` : "";
  const lag = figures.lag === null ? "" : ` · lag ${count(figures.lag)}`;
  return `Batch ${count(figures.batch)}: ${plural(figures.records, "record")} in ${took(figures.batch_ms)}, ${rate(figures.records_per_second)}${state}${lag}`;
}

const components = (name, rows) => plainTable(`Components of ${name}`, ["Component", "Executed", "Emitted", "Failed", "Latency", "Capacity"],
  rows.map((one) => [one.component, count(one.executed), count(one.emitted), one.failed ? h("span", { class: "below" }, count(one.failed)) : "0", `${one.latency_ms.toFixed(2)} ms`, `${(one.capacity * 100).toFixed(0)} %`]), [1, 2, 3, 4, 5]);

function graph({ name, graph: { nodes, layers, arrows }, figures }) {
  const done = new Map((figures?.components ?? []).map((each) => [each.component, each]));
  const shown = Object.fromEntries(Object.entries(nodes).map(([id, each]) => {
    const own = done.get(id);
    const note = own ? `${short(own.executed)} in, ${short(own.emitted)} out` : each.what || each.kind;
    return [id, { ...each, note, title: `${each.kind} ${each.name}: ${each.what}`, status: own?.failed ? "err" : own?.capacity > 0.8 ? "warn" : "" }];
  }));
  return picture({
    nodes: shown, layers, arrows: arrows.map((each) => ({ path: each.path, weight: 0.25 })),
    label: `${name}: ${arrows.map(({ path }) => `${path[0]} to ${path.at(-1)}`).join(", ")}`,
  });
}

/** Draw a table that the flow serves; a column called "change" gets an arrow up or down. */
function table({ title, columns, rows }) {
  const change = columns.findIndex((each) => each.toLowerCase() === "change");
  const numeric = columns.map((_, index) => index).filter((index) => index === change || (rows.length && rows.every((row) => typeof row[index] === "number")));
  const cell = (value, index) => {
    const text = typeof value === "number" ? (Number.isInteger(value) ? count(value) : value.toLocaleString("en", { maximumFractionDigits: 2 })) : value;
    return index === change ? moved(value, text) : text;
  };
  return h("div", {}, h("h3", {}, title),
    plainTable(title || "Table", columns, rows.map((row) => columns.map((_, index) => cell(row[index] ?? "", index))), numeric),
    rows.length ? null : h("p", { class: "empty" }, "Nothing here yet."));
}

function moved(value, text) {
  const number = typeof value === "number" ? value : Number.parseFloat(String(value).replace("−", "-"));
  if (!number) return String(text);
  const up = number > 0;
  return h("span", { class: up ? "rising" : "falling" }, h("span", { "aria-label": up ? "rising" : "falling", role: "img" }, up ? "▲" : "▼"), ` ${text}`);
}

const STOP = { path: "flows/stop", title: "Stop", hint: "A later run from its checkpoint goes on where it stopped.", done: "stops after the batch at hand.", kind: "danger" };
const RESTART = { path: "flows/restart", title: "Restart", hint: "Its query ends after the batch at hand and begins again over its checkpoint. Its process stays.", done: "is restarted.", kind: "primary" };
const ACTIVATE = { path: "flows/activate", title: "Activate", hint: "It reads again, from where it stopped.", done: "is active.", kind: "primary" };
const DEACTIVATE = { path: "flows/deactivate", title: "Deactivate", hint: "After the batch at hand it reads nothing until it is activated, also after a restart. Its process and state stay.", done: "is inactive.", kind: "primary" };

function confirm(each, { path, title, hint, done, kind }) {
  dialog(`${title} ${each.name}?`, (close) => {
    const go = h("button", { class: kind }, title);
    return h("form", { onsubmit: async (event) => {
      event.preventDefault();
      go.disabled = true;
      try {
        await ask(path, { method: "POST", body: { name: each.name, pid: each.pid, application: each.application } });
        toast(`${each.name} ${done}`);
      } catch (error) {
        toast(error.message, "bad");
      }
      close();
    } }, h("p", {}, hint), h("footer", {}, h("button", { type: "button", onclick: close }, "Cancel"), go));
  });
}
