// All consumer groups.

import { poll } from "../api.js";
import { h } from "../dom.js";
import { count, plural, rate } from "../format.js";
import { badge, RANK } from "../status.js";
import { Table } from "../table.js";

export function render(root) {
  let all = [];
  const problem = h("p", { class: "problem", role: "alert", hidden: true });
  const summary = h("p", { class: "summary" });
  const filter = h("input", { type: "search", placeholder: "Filter by group or topic", "aria-label": "Filter groups by name or topic", oninput: () => show() });
  const sick = h("input", { type: "checkbox", onchange: () => show() });
  const internal = h("input", { type: "checkbox", onchange: () => show() });
  const table = new Table([
    { title: "Group", cell: named, sign: (each) => each.name, sort: (each) => each.flow ?? each.name },
    { title: "Status", cell: (each) => badge(each.status), sign: (each) => each.status, sort: (each) => RANK[each.status] },
    { title: "State", cell: (each) => each.state, sort: (each) => each.state },
    { title: "Lag", cell: (each) => count(each.lag), sort: (each) => each.lag, num: true },
    { title: "Read", cell: (each) => (each.rate ? rate(each.rate) : "–"), sort: (each) => each.rate, num: true },
    { title: "Partitions", cell: (each) => count(each.partitions), sort: (each) => each.partitions, num: true },
    { title: "Topics", cell: (each) => each.topics.slice(0, 3).join(", ") + (each.topics.length > 3 ? `, and ${each.topics.length - 3} more` : "") || "–" },
    { title: "Kind", cell: (each) => each.type || "–", sort: (each) => each.type },
  ], { key: (each) => each.name, label: "Consumer groups" });

  root.append(h("h1", {}, "Consumer groups"), problem,
    h("div", { class: "bar" }, filter, h("label", { class: "check" }, sick, "only those that are not OK"), h("label", { class: "check" }, internal, "internal groups"), summary), table.element,
    h("p", { class: "hint" }, "The status comes from the last ten commits of each partition, without thresholds: WARN reads and falls behind; ERR has stopped, stalled or gone back."));
  const show = () => {
    const wanted = filter.value.trim().toLowerCase();
    const rows = all.filter((each) => (internal.checked || !each.internal) && (!sick.checked || each.status !== "OK") && (each.name.toLowerCase().includes(wanted) || each.topics.some((topic) => topic.toLowerCase().includes(wanted))));
    table.update(rows, all.length ? "No group matches." : "There is no group yet.");
    summary.textContent = `${plural(rows.length, "group")}, lag ${count(rows.reduce((sum, each) => sum + each.lag, 0))}`;
  };
  return poll("groups", (found) => {
    problem.hidden = true;
    all = found.groups;
    show();
  }, (error) => {
    problem.hidden = false;
    problem.textContent = error.message;
  });
}

/** Show a flow's group by the flow's name; the title has the group's own name. */
function named({ name, flow }) {
  const link = h("a", { href: `#/groups/${encodeURIComponent(name)}`, title: name }, flow ?? name);
  return flow === null ? link : h("span", {}, link, " ", h("span", { class: "badge" }, "flow"));
}
