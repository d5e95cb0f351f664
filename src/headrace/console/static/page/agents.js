// Agents: how events flow through each, and how full its channels are.

import { poll } from "../api.js";
import { h, put } from "../dom.js";
import { count, rate, short } from "../format.js";
import { picture } from "../picture.js";

const LAYER = { source: 0, channel: 1, sink: 2 };

export function render(root) {
  const problem = h("p", { class: "problem", role: "alert", hidden: true });
  const list = h("div", {});
  root.append(h("h1", {}, "Agents"), problem, list);
  return poll("agents", (found) => {
    problem.hidden = true;
    if (!found.agents.length) {
      put(list, h("p", { class: "empty" }, "No agent is known. Start one with headrace agent run --monitor 127.0.0.1:34545, and the console with --agent NAME=http://127.0.0.1:34545/metrics."));
      return;
    }
    if (!list.contains(document.activeElement)) list.replaceChildren(...found.agents.map(agent));
  }, (error) => {
    problem.hidden = false;
    problem.textContent = error.message;
  });
}

function agent(each) {
  const channels = each.parts.filter((part) => part.kind === "channel");
  return h("section", { class: "card", "aria-label": `Agent ${each.name}` },
    h("h2", {}, each.name), each.problem ? h("p", { class: "problem" }, each.problem) : null,
    each.parts.length ? h("div", { class: "scene", tabindex: "0", role: "region", "aria-label": `Flow of ${each.name}` }, drawing(each)) : null,
    channels.map(fill));
}

/** Draw sources, channels and sinks. Flume's own agents do not report how they are connected. */
function drawing({ name, parts }) {
  const id = (part) => `${part.kind} ${part.name}`;
  const nodes = Object.fromEntries(parts.map((part) => [id(part), box(part)]));
  const layers = [[], [], []];
  for (const part of parts) layers[LAYER[part.kind]].push(id(part));
  const arrows = parts.flatMap((part) => part.channels.map((channel) => {
    const ends = part.kind === "source" ? [id(part), `channel ${channel}`] : [`channel ${channel}`, id(part)];
    return { path: ends, weight: 0.25, label: part.rate ? rate(part.rate) : "", still: !part.rate };
  })).filter(({ path }) => path.every((each) => nodes[each]));
  return picture({ nodes, layers: layers.filter((each) => each.length), arrows, label: `${name}: ${arrows.map(({ path }) => path.join(" to ")).join(", ")}` });
}

function box({ kind, name, component, numbers, topics, place }) {
  const done = kind === "source" ? numbers.EventAcceptedCount ?? numbers.EventReceivedCount : numbers.EventDrainSuccessCount ?? numbers.EventDrainAttemptCount;
  const full = numbers.ChannelFillPercentage ?? 0;
  const where = topics.join(", ") || place;
  const failed = (numbers.EventWriteFail ?? 0) + (numbers.ChannelWriteFail ?? 0) + (numbers.ConnectionFailedCount ?? 0);
  const note = kind === "channel" ? `${component || "channel"} · ${full.toFixed(1)} % full` : `${component || kind} · ${count(done ?? 0)} events`;
  return {
    name, note, kind: kind === "channel" ? "flow" : kind === "source" ? "spout" : "sink",
    title: `${kind} ${name}${where ? `: ${where}` : ""}`, href: topics.length ? `#/topics/${encodeURIComponent(topics[0])}` : "",
    status: kind === "channel" ? (full > 85 ? "err" : full > 60 ? "warn" : "") : failed ? "warn" : "",
  };
}

function fill({ name, numbers }) {
  const full = numbers.ChannelFillPercentage ?? 0;
  return h("div", { class: "fill" }, h("strong", {}, name),
    h("meter", { min: "0", max: "100", low: "60", high: "85", optimum: "0", value: full, "aria-label": `Fill of channel ${name}` }),
    h("span", {}, `${full.toFixed(1)} % · ${short(numbers.ChannelSize ?? 0)} of ${short(numbers.ChannelCapacity ?? 0)}`));
}
