// Mirrors: clusters, and how far the copies between them are.

import { poll } from "../api.js";
import { h, put } from "../dom.js";
import { count, plural, rate, short } from "../format.js";
import { picture } from "../picture.js";
import { Table } from "../table.js";

const GAP = 170;
const KINDS = { brokers: "the target's brokers copy, offsets stay", process: "a process copies, offsets are translated" };

export function render(root) {
  const problem = h("p", { class: "problem", role: "alert", hidden: true });
  const scene = h("div", { class: "scene", tabindex: "0", role: "region", "aria-label": "Clusters" });
  const map = h("section", { class: "card", hidden: true }, h("h2", {}, "Clusters"), scene);
  const list = h("div", {});
  const empty = h("p", { class: "empty", hidden: true }, "No mirror is known. Start the console with --mirror and the file that headrace mirror run has.");
  root.append(h("h1", {}, "Mirrors"), problem, empty, map, list);
  const cards = new Map();
  return poll("mirrors", (found) => {
    problem.hidden = true;
    empty.hidden = found.flows.length > 0;
    map.hidden = !found.flows.length;
    put(scene, clusters(found.picture));
    found.flows.forEach((flow, index) => {
      if (!cards.has(index)) {
        cards.set(index, new Flow(flow));
        list.append(cards.get(index).element);
      }
      cards.get(index).update(flow);
    });
  }, (error) => {
    problem.hidden = false;
    problem.textContent = error.message;
  });
}

/** Draw the clusters, with lag and age on the arrows between them. */
function clusters({ nodes, layers, arrows }) {
  const shown = Object.fromEntries(Object.entries(nodes).map(([id, each]) => [id, { ...each, name: each.here ? `${each.name} · here` : each.name }]));
  return picture({
    nodes: shown, layers, gap: GAP, paired: true,
    arrows: arrows.map((each) => ({ path: each.path, weight: 0.2, label: summary(each), still: !each.rate, kind: each.problem || each.trouble ? "bad" : "" })),
    label: arrows.map((each) => `${nodes[each.path[0]].name} to ${nodes[each.path.at(-1)].name}: ${summary(each)}`).join(", "),
  });
}

const age = (ms) => {
  if (ms >= 60_000) return `${short(Math.round(ms / 60_000))} min`;
  return ms >= 1000 ? `${(ms / 1000).toFixed(1)} s` : `${ms} ms`;
};

/** Say in a few words how far a flow is. */
function summary({ problem, states, lag, age_ms: oldest, trouble }) {
  if (problem) return "cannot be seen";
  if (trouble) return states.join(", ");
  if (!lag) return lag === 0 && !states.length ? "all copied" : states.join(", ") || "nothing to copy";
  return `lag ${short(lag)}${oldest === null ? "" : ` · ${age(oldest)}`}`;
}

class Flow {
  constructor({ name }) {
    this.note = h("p", { class: "hint" });
    this.problem = h("p", { class: "problem", hidden: true });
    this.more = h("p", { class: "hint" });
    this.table = new Table([
      { title: "Topic", cell: (each) => each.topic, sort: (each) => each.topic },
      { title: "At the target", cell: (each) => each.remote_topic, sort: (each) => each.remote_topic },
      { title: "Partitions", cell: (each) => count(each.partitions), sort: (each) => each.partitions, num: true },
      { title: "Lag", cell: (each) => count(each.lag), sort: (each) => each.lag, num: true },
      { title: "Age", cell: (each) => (each.age_ms === null ? "–" : age(each.age_ms)), sort: (each) => each.age_ms ?? -1, num: true },
      { title: "State", cell: (each) => state(each), sign: (each) => `${each.states} ${each.trouble}` },
    ], { key: (each) => each.topic, label: `Topics of ${name}`, sort: 3, descending: true });
    this.element = h("section", { class: "card", "aria-label": `Flow ${name}` }, h("h2", {}, name.replace("->", " → ")), this.problem, this.note, this.table.element, this.more);
  }

  update(flow) {
    this.problem.hidden = !flow.problem;
    this.problem.textContent = flow.problem ?? "";
    put(this.note, flow.problem ? KINDS[flow.kind] : [KINDS[flow.kind], plural(flow.partitions, "partition"), summary(flow), `${rate(flow.rate)} copied`].join(" · "));
    this.table.update(flow.topics, flow.problem ? "Nothing is known of its topics." : "It has no topics yet.");
    put(this.more, flow.more ? `${plural(flow.more, "more topic")} less far behind.` : "");
  }
}

const state = ({ states, trouble }) => h("span", { class: `badge ${trouble ? "bad" : states.length ? "warn" : "good"}` }, states.join(", ") || "ok");
