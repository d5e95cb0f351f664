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
  const chart = new Chart("Records a second", ["written", "read"]);
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
      tile("health", "Partitions"), tile("groups", "Groups"), tile("disk", "On disk")),
    h("section", { class: "card" }, h("h2", {}, "Flow"), scene),
    h("section", { class: "card" }, h("h2", {}, "Throughput"), chart.element),
    h("section", { class: "card" }, h("h2", {}, "Brokers"), brokers.element));

  const show = (found) => {
    problem.hidden = !found.problem;
    problem.textContent = found.problem ? `${found.problem} What is shown is from before.` : "";
    const { times, in: written, out: read } = found.rates;
    set("in", rate(mean(written)), "records, last 10 s");
    set("out", rate(mean(read)), "committed by groups");
    set("topics", count(found.topics), plural(found.partitions, "partition"));
    const well = !found.offline && !found.under_replicated;
    set("health", well ? "all well" : `${found.offline + found.under_replicated} to mend`,
      `${found.offline} offline, ${found.under_replicated} under-replicated`, well ? "good" : "bad");
    const bad = (found.group_status.ERR ?? 0) + (found.group_status.WARN ?? 0);
    set("groups", count(found.groups), bad ? `${found.group_status.ERR ?? 0} ERR, ${found.group_status.WARN ?? 0} WARN` : `lag ${short(found.lag)}`,
      found.group_status.ERR ? "bad" : bad ? "warn" : "");
    set("disk", bytes(found.bytes), plural(found.brokers.length, "broker"));
    chart.update(times, [written, read]);
    // Who has a node in focus keeps it: the picture waits.
    if (!scene.contains(document.activeElement) || scene === document.activeElement) put(scene, picture(found.picture));
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
