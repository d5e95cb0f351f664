// Flows: the graph of each, and what its components do.

import { ask, poll } from "../api.js";
import { dialog, h, put, svg, toast } from "../dom.js";
import { ago, bytes, count, plural, rate, short } from "../format.js";
import { plainTable } from "../table.js";

export function render(root, _, context) {
  const problem = h("p", { class: "problem", role: "alert", hidden: true });
  const list = h("div", {});
  root.append(h("h1", {}, "Flows"), problem, list);
  return poll("flows", (found) => {
    problem.hidden = true;
    if (!found.flows.length) put(list, h("p", { class: "empty" }, "No flow runs on this machine. Start one with headrace flow run, or name one with --flow NAME=http://HOST:PORT."));
    else if (!list.contains(document.activeElement)) list.replaceChildren(...found.flows.map((each) => flow(each, context)));
  }, (error) => {
    problem.hidden = false;
    problem.textContent = error.message;
  }, 3000);
}

function flow(each, context) {
  const figures = each.figures;
  const facts = [each.program, each.master, each.started_ms ? `started ${ago(each.started_ms)}` : ""].filter(Boolean).join(" · ");
  const stop = each.pid && context.may("admin") ? h("button", { type: "button", class: "danger small", "aria-label": `Stop ${each.name}`, onclick: () => confirmStop(each) }, "Stop") : null;
  return h("section", { class: "card" },
    h("div", { class: "head" }, h("h2", {}, each.name), stop),
    h("p", { class: "facts" }, facts),
    each.problem ? h("p", { class: "problem" }, each.problem) : null,
    figures ? h("p", {}, `Batch ${figures.batch ?? "–"}: ${plural(figures.records, "record")} in ${count(figures.batch_ms)} ms, ${rate(figures.records_per_second)} · state ${short(figures.state_rows)} rows, ${bytes(figures.state_bytes)}${figures.lag === null ? "" : ` · lag ${count(figures.lag)}`}`) : null,
    each.graph?.nodes?.length ? h("div", { class: "scene", tabindex: "0", role: "region", "aria-label": `Graph of ${each.name}` }, graph(each)) : null,
    figures?.components?.length ? plainTable(`Components of ${each.name}`, ["Component", "Executed", "Emitted", "Failed", "Latency", "Capacity"],
      figures.components.map((one) => [one.component, count(one.executed), count(one.emitted), count(one.failed), `${one.latency_ms.toFixed(2)} ms`, `${(one.capacity * 100).toFixed(0)} %`]), [1, 2, 3, 4, 5]) : null);
}

function graph({ name, graph: { nodes, arrows }, figures }) {
  const depth = new Map(nodes.map((each) => [each.name, 0]));
  for (let round = 0; round < nodes.length; round += 1) {
    for (const each of arrows) depth.set(each.target, Math.max(depth.get(each.target), depth.get(each.source) + 1));
  }
  const columns = [];
  for (const each of nodes) (columns[depth.get(each.name)] ??= []).push(each);
  const high = Math.max(...columns.map((each) => each.length)) * 62 + 10;
  const place = new Map();
  columns.forEach((column, x) => column.forEach((each, y) => place.set(each.name, [x * 230 + 4, (high - column.length * 62) / 2 + y * 62 + 31])));
  const emitted = new Map((figures?.components ?? []).map((each) => [each.component, each.emitted]));
  return svg("svg", { viewBox: `0 0 ${columns.length * 230 - 40} ${high}`, class: "picture", role: "img", "aria-label": `${name}: ${arrows.map((each) => `${each.source} to ${each.target}`).join(", ")}` },
    arrows.map((each) => {
      const [fromX, fromY] = place.get(each.source);
      const [toX, toY] = place.get(each.target);
      const line = `M${fromX + 170} ${fromY}C${fromX + 200} ${fromY} ${toX - 30} ${toY} ${toX} ${toY}`;
      return [svg("path", { d: line, class: "arrow", "stroke-width": 3 }), svg("path", { d: line, class: "stream" })];
    }),
    nodes.map((each) => {
      const [x, y] = place.get(each.name);
      return svg("g", {}, svg("title", {}, each.what ?? each.name),
        svg("rect", { x, y: y - 22, width: 170, height: 44, rx: 8, class: `node ${each.kind === "spout" ? "topic" : ""}` }),
        svg("text", { x: x + 12, y: y - 3, class: "name" }, each.name.slice(0, 20)),
        svg("text", { x: x + 12, y: y + 13, class: "note" }, emitted.has(each.name) ? `${short(emitted.get(each.name))} emitted` : each.kind));
    }));
}

function confirmStop(each) {
  dialog(`Stop ${each.name}?`, (close) => h("form", { onsubmit: async (event) => {
    event.preventDefault();
    try {
      await ask("flows/stop", { method: "POST", body: { name: each.name, pid: each.pid } });
      toast(`${each.name} stops after the batch at hand.`);
    } catch (error) {
      toast(error.message, "bad");
    }
    close();
  } }, h("p", {}, "A later run from its checkpoint goes on where it stopped."),
  h("footer", {}, h("button", { type: "button", onclick: close }, "Cancel"), h("button", { class: "danger" }, "Stop"))));
}
