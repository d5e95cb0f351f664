// One topic: its messages, partitions, readers and configuration.

import { ask, poll } from "../api.js";
import { Chart } from "../chart.js";
import { dialog, field, h, put, toast } from "../dom.js";
import { bytes, count, plural, rate } from "../format.js";
import { badge } from "../status.js";
import { Table } from "../table.js";
import { freshness } from "./tables.js";
import { messages } from "./messages.js";
import { config } from "./topic_config.js";

const TABS = [["messages", "Messages"], ["partitions", "Partitions"], ["groups", "Groups"], ["config", "Configuration"]];

export function render(root, [name, wanted], context) {
  const tab = TABS.some(([each]) => each === wanted) ? wanted : "messages";
  const base = `#/topics/${encodeURIComponent(name)}`;
  const problem = h("p", { class: "problem", role: "alert", hidden: true });
  const facts = h("p", { class: "facts" });
  const body = h("div", {});
  const write = context.may("editor") ? h("button", { type: "button", class: "primary", onclick: () => produce(name) }, "Produce") : null;
  const remove = context.may("admin") ? h("button", { type: "button", class: "danger", onclick: () => confirmDelete(name, context, () => stop()) }, "Delete") : null;
  root.append(
    h("nav", { class: "crumbs", "aria-label": "Where you are" }, h("a", { href: "#/topics" }, "Topics"), " / "),
    h("div", { class: "head" }, h("h1", { class: "name" }, name), h("div", { class: "buttons" }, write, remove)),
    problem, facts,
    h("nav", { class: "tabs", "aria-label": "Parts of the topic" }, TABS.map(([each, title]) => h("a", { href: `${base}/${each}`, "aria-current": each === tab ? "page" : null }, title))),
    body);
  const view = { messages, partitions, groups, config }[tab](body, name, context);
  const stop = poll(`topics/${encodeURIComponent(name)}`, (found) => {
    problem.hidden = true;
    const records = found.partitions.reduce((sum, each) => sum + Math.max((each.end ?? 0) - (each.start ?? 0), 0), 0);
    const size = found.partitions.reduce((sum, each) => sum + (each.bytes ?? 0), 0);
    put(facts, `${plural(found.partitions.length, "partition")} · ${plural(records, "record")} · ${bytes(size)} · ${rate(found.rate)} written · ${plural(found.groups.length, "group")} reading${found.hidden ? " · fields are hidden" : ""}${landing(found.table)}`);
    view.update?.(found);
  }, (error) => {
    problem.hidden = false;
    problem.textContent = error.message;
  });
  return () => {
    stop();
    view.close?.();
  };
}

/** Say which table the topic lands in, and how that is. */
function landing(table) {
  if (!table) return "";
  const how = { landing: freshness(table), failing: "failing", silent: "no process" }[table.state];
  return ` · lands in ${table.table}, ${table.rows === null ? "no rows yet" : plural(table.rows, "row")}, ${how}`;
}

function partitions(root) {
  const chart = new Chart("Records written per second", ["written"]);
  const table = new Table([
    { title: "Partition", cell: (each) => each.partition, sort: (each) => each.partition, num: true },
    { title: "Leader", cell: (each) => (each.leader < 0 ? h("span", { class: "badge bad" }, "none") : String(each.leader)), sign: (each) => each.leader, sort: (each) => each.leader, num: true },
    { title: "Replicas", cell: (each) => each.replicas.join(", ") },
    { title: "In sync", cell: (each) => each.in_sync.length < each.replicas.length ? h("span", { class: "badge warn" }, each.in_sync.join(", ")) : each.in_sync.join(", "), sign: (each) => each.in_sync.join() },
    { title: "First offset", cell: (each) => count(each.start), sort: (each) => each.start, num: true },
    { title: "End", cell: (each) => count(each.end), sort: (each) => each.end, num: true },
    { title: "Records", cell: (each) => count(each.end - each.start), sort: (each) => each.end - each.start, num: true },
    { title: "Size", cell: (each) => bytes(each.bytes), sort: (each) => each.bytes, num: true },
  ], { key: (each) => each.partition, label: "Partitions" });
  root.append(h("section", { class: "card" }, h("h2", {}, "Written"), chart.element), h("section", { class: "card" }, h("h2", {}, "Partitions"), table.element));
  return {
    update(found) {
      chart.update(found.rates.times, [found.rates.in]);
      table.update(found.partitions);
    },
    close: () => chart.close(),
  };
}

function groups(root) {
  const table = new Table([
    { title: "Group", cell: (each) => h("a", { href: `#/groups/${encodeURIComponent(each.name)}` }, each.name), sign: (each) => each.name, sort: (each) => each.name },
    { title: "Status", cell: (each) => badge(each.status), sign: (each) => each.status },
    { title: "State", cell: (each) => each.state, sort: (each) => each.state },
    { title: "Lag here", cell: (each) => count(each.lag), sort: (each) => each.lag, num: true },
  ], { key: (each) => each.name, label: "Groups that read this topic", empty: "No group has committed in this topic." });
  root.append(h("section", { class: "card" }, h("h2", {}, "Groups"), table.element));
  return { update: (found) => table.update(found.groups) };
}

function produce(name) {
  dialog(`Produce to ${name}`, (close) => {
    const key = h("input", { autocomplete: "off", placeholder: "none" });
    const value = h("textarea", { rows: "8", spellcheck: "false" });
    const headers = h("textarea", { rows: "2", spellcheck: "false", placeholder: "name: value" });
    const partition = h("input", { type: "number", min: "0", placeholder: "by the key" });
    const tombstone = h("input", { type: "checkbox", onchange: () => { value.disabled = tombstone.checked; } });
    const send = async (event) => {
      event.preventDefault();
      const pairs = headers.value.split("\n").filter((line) => line.trim()).map((line) => {
        const at = line.indexOf(":");
        return at < 0 ? [line.trim(), null] : [line.slice(0, at).trim(), line.slice(at + 1).trim()];
      });
      const body = { key: key.value === "" ? null : key.value, value: tombstone.checked ? null : value.value, headers: pairs, ...(partition.value ? { partition: Number(partition.value) } : {}) };
      try {
        const found = await ask(`topics/${encodeURIComponent(name)}/messages`, { method: "POST", body });
        toast(`Written to partition ${found.partition} at offset ${count(found.offset)}.`);
        close();
      } catch (error) {
        toast(error.message, "bad");
      }
    };
    return h("form", { onsubmit: send }, field("Key", key), field("Value", value), h("label", { class: "check" }, tombstone, "null value (a tombstone)"),
      field("Headers, one per line", headers), field("Partition", partition),
      h("footer", {}, h("button", { type: "button", onclick: close }, "Cancel"), h("button", { class: "primary" }, "Produce")));
  });
}

function confirmDelete(name, context, leave) {
  dialog(`Delete topic ${name}`, (close) => {
    const typed = h("input", { autocomplete: "off", oninput: () => { go.disabled = typed.value !== name; } });
    const go = h("button", { class: "danger", disabled: true }, "Delete for ever");
    const remove = async (event) => {
      event.preventDefault();
      leave(); // Stop polling a topic that is about to be deleted.
      try {
        await ask(`topics/${encodeURIComponent(name)}`, { method: "DELETE", body: { confirm: typed.value } });
        close();
        toast(`Topic ${name} is gone.`);
        context.go("/topics");
      } catch (error) {
        close();
        toast(error.message, "bad");
        dispatchEvent(new Event("hashchange"));
      }
    };
    return h("form", { onsubmit: remove }, h("p", {}, "All its records are deleted with it. This cannot be undone."), field("Type the topic's name to confirm", typed),
      h("footer", {}, h("button", { type: "button", onclick: close }, "Cancel"), go));
  });
}
