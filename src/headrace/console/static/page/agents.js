// Agents: their sources, channels and sinks, and how full the channels are.

import { poll } from "../api.js";
import { h, put } from "../dom.js";
import { count, short } from "../format.js";

const ORDER = ["source", "channel", "sink"];

export function render(root) {
  const problem = h("p", { class: "problem", role: "alert", hidden: true });
  const list = h("div", { class: "cards" });
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
  return h("section", { class: "card" },
    h("h2", {}, each.name), each.problem ? h("p", { class: "problem" }, each.problem) : null,
    ORDER.map((kind) => each.parts.filter((part) => part.kind === kind).map((part) => piece(part))));
}

function piece({ kind, name, numbers }) {
  if (kind === "channel") {
    const full = numbers.ChannelFillPercentage ?? 0;
    return h("div", { class: "fill" }, h("strong", {}, name),
      h("meter", { min: "0", max: "100", low: "60", high: "85", optimum: "0", value: full, "aria-label": `Fill of channel ${name}` }),
      h("span", {}, `${full.toFixed(1)} % · ${short(numbers.ChannelSize ?? 0)} of ${short(numbers.ChannelCapacity ?? 0)}`));
  }
  const done = kind === "source" ? numbers.EventAcceptedCount ?? numbers.EventReceivedCount : numbers.EventDrainSuccessCount ?? numbers.EventDrainAttemptCount;
  return h("div", { class: "fill" }, h("strong", {}, name), h("span", { class: "facts" }, kind), h("span", {}, `${count(done ?? 0)} events`));
}
