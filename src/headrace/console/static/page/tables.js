// Tables that topics land in: rows, how far they are behind, and what keeps them from landing.

import { poll } from "../api.js";
import { h, put } from "../dom.js";
import { ago, count, plural } from "../format.js";
import { Table } from "../table.js";

const STATE = {
  landing: ["good", "landing", "Records are landed as they come."],
  failing: ["bad", "failing", "It is tried again later and later."],
  silent: ["warn", "no process", "No headrace land --configured has reported about it for minutes."],
};
const RANK = { landing: 0, silent: 1, failing: 2 };

export function render(root) {
  const problem = h("p", { class: "problem", role: "alert", hidden: true });
  const more = h("p", { class: "hint" });
  const table = new Table([
    { title: "Topic", cell: (each) => h("a", { href: `#/topics/${encodeURIComponent(each.topic)}` }, each.topic), sign: (each) => each.topic, sort: (each) => each.topic },
    { title: "Table", cell: (each) => each.table, sort: (each) => each.table },
    { title: "State", cell: state, sign: (each) => `${each.state} ${each.problem}`, sort: (each) => RANK[each.state] },
    { title: "Rows", cell: (each) => count(each.rows), sort: (each) => each.rows, num: true },
    { title: "Lag", cell: (each) => count(each.lag), sort: (each) => each.lag, num: true },
    { title: "Freshness", cell: (each) => h("span", { class: "nowrap" }, freshness(each)), sign: freshness, sort: (each) => (each.lag === 0 ? Infinity : each.complete_ms) },
    { title: "Last commit", cell: (each) => h("span", { class: "nowrap" }, each.landed_ms === null ? "–" : ago(each.landed_ms)), sign: (each) => (each.landed_ms === null ? "" : ago(each.landed_ms)), sort: (each) => each.landed_ms },
    { title: "Dead letters", cell: (each) => count(each.dead_letters), sort: (each) => each.dead_letters, num: true },
  ], { key: (each) => each.topic, label: "Tables" });
  root.append(h("h1", {}, "Tables"), problem, table.element, more,
    h("p", { class: "hint" }, "A topic lands in a table when its configuration has headrace.table.name and a process runs: headrace land --configured. Dead letters are counted since that process has started."));
  return poll("tables", (found) => {
    problem.hidden = !found.problem;
    put(problem, found.problem ?? "");
    put(more, found.more ? `${plural(found.more, "topic")} more.` : "");
    table.update(found.tables, "No topic's configuration names a table.");
  }, (error) => {
    problem.hidden = false;
    problem.textContent = error.message;
  }, 2000);
}

function state({ state: name, problem }) {
  const [kind, text, title] = STATE[name];
  const shown = h("span", { class: `badge ${kind}`, title }, text);
  return problem ? h("div", {}, shown, h("p", { class: "why" }, problem)) : shown;
}

/** Say until when the table has every record of the topic. */
export function freshness({ lag, complete_ms: complete }) {
  if (lag === 0) return "all records";
  return complete === null ? "–" : `all until ${ago(complete)}`;
}
