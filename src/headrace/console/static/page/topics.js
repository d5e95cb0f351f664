// All topics.

import { ask, poll } from "../api.js";
import { dialog, field, h, toast } from "../dom.js";
import { bytes, count, plural, rate } from "../format.js";
import { Table } from "../table.js";

export function render(root, _, context) {
  let all = [];
  const problem = h("p", { class: "problem", role: "alert", hidden: true });
  const summary = h("p", { class: "summary" });
  const filter = h("input", { type: "search", placeholder: "Filter by name", "aria-label": "Filter topics by name", oninput: () => show() });
  const internal = h("input", { type: "checkbox", onchange: () => show() });
  const table = new Table([
    { title: "Topic", cell: (each) => h("a", { href: `#/topics/${encodeURIComponent(each.name)}` }, each.name), sign: (each) => each.name, sort: (each) => each.name },
    { title: "Partitions", cell: (each) => count(each.partitions), sort: (each) => each.partitions, num: true },
    { title: "Replicas", cell: (each) => count(each.replicas), sort: (each) => each.replicas, num: true },
    { title: "Records", cell: (each) => count(each.records), sort: (each) => each.records, num: true },
    { title: "Size", cell: (each) => bytes(each.bytes), sort: (each) => each.bytes, num: true },
    { title: "Written", cell: (each) => (each.rate ? rate(each.rate) : "–"), sort: (each) => each.rate, num: true },
    { title: "Bytes", cell: (each) => (each.byte_rate ? `${bytes(each.byte_rate)}/s` : "–"), sort: (each) => each.byte_rate, num: true },
    { title: "Groups", cell: (each) => count(each.groups), sort: (each) => each.groups, num: true },
    { title: "Health", cell: health, sign: (each) => `${each.offline} ${each.under_replicated}`, sort: (each) => each.offline * 1e6 + each.under_replicated },
  ], { key: (each) => each.name, label: "Topics", empty: "No topic matches." });

  root.append(
    h("div", { class: "head" }, h("h1", {}, "Topics"),
      context.may("editor") ? h("button", { type: "button", class: "primary", onclick: () => create(context) }, "New topic") : null),
    problem,
    h("div", { class: "bar" }, filter, h("label", { class: "check" }, internal, "internal topics"), summary),
    table.element);

  const show = () => {
    const wanted = filter.value.trim().toLowerCase();
    const rows = all.filter((each) => (internal.checked || !each.internal) && each.name.toLowerCase().includes(wanted));
    table.update(rows, all.length ? "No topic matches." : "There is no topic yet.");
    const size = rows.reduce((sum, each) => sum + each.bytes, 0);
    summary.textContent = `${plural(rows.length, "topic")}, ${bytes(size)}`;
  };
  return poll("topics", (found) => {
    problem.hidden = true;
    all = found.topics;
    show();
  }, (error) => {
    problem.hidden = false;
    problem.textContent = error.message;
  }, 3000);
}

function health(topic) {
  if (topic.offline) return h("span", { class: "badge bad" }, `${topic.offline} offline`);
  if (topic.under_replicated) return h("span", { class: "badge warn" }, `${topic.under_replicated} under-replicated`);
  return h("span", { class: "badge good" }, "well");
}

function create(context) {
  dialog("New topic", (close) => {
    const name = h("input", { required: true, maxlength: "249", pattern: "[A-Za-z0-9._\\-]+", autocomplete: "off" });
    const partitions = h("input", { type: "number", min: "1", max: "10000", value: "1" });
    const replicas = h("input", { type: "number", min: "1", max: "100", placeholder: "the cluster's default" });
    const compact = h("input", { type: "checkbox" });
    const make = async (event) => {
      event.preventDefault();
      const body = { name: name.value, partitions: Number(partitions.value), replicas: replicas.value ? Number(replicas.value) : -1, config: compact.checked ? { "cleanup.policy": "compact" } : {} };
      try {
        await ask("topics", { method: "POST", body });
        close();
        toast(`Topic ${body.name} is there.`);
        context.go(`/topics/${encodeURIComponent(body.name)}`);
      } catch (error) {
        toast(error.message, "bad");
      }
    };
    return h("form", { onsubmit: make },
      field("Name", name, "Letters, digits, dot, dash and underscore."), field("Partitions", partitions), field("Replicas", replicas),
      h("label", { class: "check" }, compact, "keep only the last record of each key (compact)"),
      h("footer", {}, h("button", { type: "button", onclick: close }, "Cancel"), h("button", { class: "primary" }, "Create")));
  });
}
