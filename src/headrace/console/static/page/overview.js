// The whole cluster at a glance.

import { ask, poll } from "../api.js";
import { Chart } from "../chart.js";
import { dialog, h, put, toast } from "../dom.js";
import { bytes, count, plural, rate, short } from "../format.js";
import { picture } from "../picture.js";
import { Table } from "../table.js";

export function render(root) {
  const problem = h("p", { class: "problem", role: "alert", hidden: true });
  const tiles = {};
  const tile = (name, title) => {
    tiles[name] = { value: h("strong", {}, "–"), note: h("small", {}, "") };
    return h("div", { class: "tile" }, h("span", {}, title), tiles[name].value, tiles[name].note);
  };
  const chart = new Chart("Throughput per second", ["written", "read"]);
  let last = null;
  let unit = "records";
  const units = ["records", "bytes"].map((each) => h("button", { type: "button", class: "small", "aria-pressed": String(each === unit), onclick: () => choose(each) }, each));
  const choose = (wanted) => {
    unit = wanted;
    for (const button of units) button.setAttribute("aria-pressed", String(button.textContent === wanted));
    chart.setUnit(unit === "bytes" ? bytes : short);
    if (last) plot(last.rates);
  };
  const plot = (rates) => chart.update(rates.times, unit === "bytes" ? [rates.in_bytes, rates.out_bytes] : [rates.in, rates.out]);
  const rest = h("p", { class: "hint" });
  const scene = h("div", { class: "scene", tabindex: "0", role: "region", "aria-label": "The flow of records" });
  const brokers = new Table([
    { title: "Broker", cell: (each) => each.id, sort: (each) => each.id, num: true },
    { title: "Address", cell: (each) => `${each.host}:${each.port}`, sort: (each) => each.host },
    { title: "Rack", cell: (each) => each.rack ?? "–" },
    { title: "Leads", cell: (each) => count(each.leads), sort: (each) => each.leads, num: true },
    { title: "Data", cell: (each) => bytes(each.bytes), sort: (each) => each.bytes, num: true },
    { title: "Disk", cell: disk, sign: (each) => `${each.disk_total} ${Math.round(each.disk_free / 1e8)}` },
    { title: "", cell: (each) => h("button", { type: "button", class: "small", "aria-label": `Configuration of broker ${each.id}`, onclick: () => showConfig(each.id) }, "Configuration"), sign: (each) => each.id },
  ], { key: (each) => each.id, label: "Brokers" });

  root.append(
    h("h1", {}, "Overview"), problem,
    h("div", { class: "tiles" }, tile("in", "Written"), tile("out", "Read"), tile("topics", "Topics"),
      tile("health", "Partitions"), tile("groups", "Groups"), tile("brokers", "Brokers")),
    h("section", { class: "card" }, h("h2", {}, "Flow"), scene, rest),
    h("section", { class: "card" }, h("div", { class: "head" }, h("h2", {}, "Throughput"), h("div", { class: "buttons", role: "group", "aria-label": "Measured in" }, units)), chart.element),
    h("section", { class: "card" }, h("h2", {}, "Brokers"), brokers.element));

  const show = (found) => {
    problem.hidden = !found.problem;
    problem.textContent = found.problem ? `${found.problem} What is shown is from before.` : "";
    last = found;
    const { in: written, out: read, in_bytes: writtenBytes, out_bytes: readBytes } = found.rates;
    set("in", rate(mean(written)), `${bytes(mean(writtenBytes))}/s`);
    set("out", rate(mean(read)), `${bytes(mean(readBytes))}/s`);
    set("topics", count(found.topics), plural(found.partitions, "partition"));
    const urgent = found.offline + found.under_min_isr;
    const ill = found.offline || found.under_replicated;
    const dangers = [[found.offline, "offline"], [found.under_min_isr, "under min ISR"], [found.under_replicated, "under-replicated"]];
    set("health", ill ? `${Math.max(found.under_replicated, urgent)} to mend` : "all well",
      ill ? dangers.filter(([number]) => number).map(([number, what]) => `${count(number)} ${what}`).join(", ") : "all replicas in sync",
      urgent ? "bad" : ill ? "warn" : "good");
    const bad = (found.group_status.ERR ?? 0) + (found.group_status.WARN ?? 0);
    set("groups", count(found.groups), bad ? `${found.group_status.ERR ?? 0} ERR, ${found.group_status.WARN ?? 0} WARN` : `lag ${short(found.lag)}`,
      found.group_status.ERR ? "bad" : bad ? "warn" : "");
    const led = found.brokers.some((each) => each.id === found.controller);
    set("brokers", count(found.brokers.length), `${led ? `controller ${found.controller}` : "no controller"}, ${bytes(found.bytes)} on disk`, led ? "" : "bad");
    plot(found.rates);
    // A node that has the keyboard focus must keep it: do not redraw now.
    if (!scene.contains(document.activeElement) || scene === document.activeElement) {
      put(scene, flow(found.picture));
      put(rest, left(found.picture.more));
    }
    brokers.update(found.brokers);
  };
  const set = (name, value, note, kind = "") => {
    put(tiles[name].value, value);
    put(tiles[name].note, note);
    tiles[name].value.className = kind;
  };
  const stop = poll("overview", show, (error) => {
    problem.hidden = false;
    problem.textContent = error.message;
  });
  return () => {
    stop();
    chart.close();
  };
}

/** Draw the map of the cluster: rates on the arrows, bytes below the topics. */
function flow({ nodes, layers, arrows }) {
  const most = Math.max(1, ...arrows.map((each) => each.rate ?? 0));
  const shown = Object.fromEntries(Object.entries(nodes).map(([id, each]) => [id, {
    ...each, note: each.kind === "topic" ? (each.bytes >= 1 ? `${bytes(each.bytes)}/s` : "quiet") : each.note,
    title: each.kind === "sink" ? each.note : `${each.kind === "source" ? "" : `${each.kind} `}${each.name}`,
  }]));
  const named = (id) => nodes[id].name;
  return picture({
    nodes: shown, layers,
    arrows: arrows.map((each) => ({ path: each.path, weight: Math.sqrt((each.rate ?? 0) / most), label: each.rate ? rate(each.rate) : "", still: each.rate === 0 })),
    label: arrows.map((each) => `${named(each.path[0])} to ${named(each.path.at(-1))}${each.rate ? ` ${rate(each.rate)}` : ""}`).join(", ") || "nothing flows yet",
  });
}

function left({ topics, flows, groups }) {
  const parts = [[topics, "quieter topic"], [flows, "flow"], [groups, "group"]].filter(([number]) => number > 0);
  return parts.length ? `And ${parts.map(([number, what]) => plural(number, what)).join(", ")}.` : "";
}

const mean = (values) => {
  const last = values.slice(-5);
  return last.length ? last.reduce((sum, each) => sum + each, 0) / last.length : 0;
};

function disk(broker) {
  if (broker.disk_total <= 0) return "–";
  const used = 1 - broker.disk_free / broker.disk_total;
  return h("span", { class: "meter-line" },
    h("meter", { min: "0", max: "1", high: "0.85", low: "0.7", optimum: "0", value: used, "aria-label": `Disk of broker ${broker.id}` }),
    `${bytes(broker.disk_free)} free`);
}

async function showConfig(broker) {
  try {
    const { config } = await ask(`brokers/${broker}/config`);
    dialog(`Configuration of broker ${broker}`, () => h("div", { class: "config" }, config.map((each) =>
      h("div", { class: each.default ? "entry" : "entry set" },
        h("div", {}, h("code", {}, each.name), each.doc ? h("p", {}, each.doc) : null),
        h("code", { class: "value" }, each.sensitive ? "•••" : each.value ?? "–")))), { wide: true });
  } catch (error) {
    toast(error.message, "bad");
  }
}
