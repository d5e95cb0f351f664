// The picture of the flow: who writes, the topics, who reads, with what flows on the arrows.

import { svg } from "./dom.js";
import { rate, short } from "./format.js";

const WIDE = 900;
const ROW = 46;
const BOX = { width: 210, height: 32 };
const LEFT = { sources: 0, topics: 300, groups: 688 };

/** An SVG of `{topics, groups, arrows}`. */
export function picture({ topics, groups, arrows, more_topics: moreTopics, more_groups: moreGroups }) {
  const rows = Math.max(topics.length + (moreTopics ? 0.6 : 0), groups.length + (moreGroups ? 0.6 : 0), 1);
  const high = rows * ROW + 10;
  const place = (list) => {
    const top = (high - list.length * ROW) / 2;
    return new Map(list.map((each, index) => [each.name, top + index * ROW + ROW / 2]));
  };
  const topicAt = place(topics);
  const groupAt = place(groups);
  const most = Math.max(1, ...topics.map((each) => each.rate), ...arrows.map((each) => each.rate));
  const lines = [];
  const labels = [];
  const arrow = (fromX, fromY, toX, toY, flow) => {
    const bend = (toX - fromX) / 2;
    const path = `M${fromX} ${fromY}C${fromX + bend} ${fromY} ${toX - bend} ${toY} ${toX} ${toY}`;
    const width = (1 + 6 * Math.sqrt(flow / most)).toFixed(1);
    lines.push(svg("path", { d: path, class: flow ? "arrow" : "arrow still", "stroke-width": width }));
    if (flow) lines.push(svg("path", { d: path, class: "stream" }));
  };
  for (const each of topics) {
    const y = topicAt.get(each.name);
    arrow(BOX.width * 0.6, high / 2, LEFT.topics, y, each.rate);
    if (each.rate) labels.push(label(LEFT.topics - 12, y - 6, rate(each.rate), "end"));
  }
  for (const each of groups) {
    const incoming = arrows.filter((one) => one.group === each.name).sort((one, two) => topicAt.get(one.topic) - topicAt.get(two.topic));
    incoming.forEach((one, index) => {
      const y = groupAt.get(each.name);
      arrow(LEFT.topics + BOX.width, topicAt.get(one.topic), LEFT.groups, y, one.rate);
      const beside = incoming.length > 1 ? (index - (incoming.length - 1) / 2) * 14 + 4 : -6;
      if (one.rate && incoming.length <= 3) labels.push(label(LEFT.groups - 10, y + beside, rate(one.rate), "end"));
    });
  }
  return svg("svg", { viewBox: `0 0 ${WIDE} ${high}`, class: "picture", role: "group", "aria-label": describe(topics, groups) },
    lines,
    node(0, high / 2, BOX.width * 0.6, "producers", "", "source"),
    topics.map((each) => node(LEFT.topics, topicAt.get(each.name), BOX.width, each.name, `#/topics/${encodeURIComponent(each.name)}`, "topic")),
    groups.map((each) => node(LEFT.groups, groupAt.get(each.name), BOX.width, each.name, `#/groups/${encodeURIComponent(each.name)}`, `group ${each.status.toLowerCase()}`, each.lag ? `lag ${short(each.lag)}` : "")),
    labels,
    moreTopics ? label(LEFT.topics + BOX.width / 2, high - 4, `and ${moreTopics} quieter topics`, "middle") : null,
    moreGroups ? label(LEFT.groups + BOX.width / 2, high - 4, `and ${moreGroups} more groups`, "middle") : null);
}

const describe = (topics, groups) =>
  `${topics.map((each) => `${each.name} ${rate(each.rate)}`).join(", ")}; read by ${groups.map((each) => each.name).join(", ") || "nobody"}`;

const label = (x, y, text, anchor) => svg("text", { x, y, class: "flow", "text-anchor": anchor }, text);

function node(x, y, width, name, href, kind, note = "") {
  const room = note ? 15 : 24;
  const shown = name.length > room ? `${name.slice(0, room - 1)}…` : name;
  const inside = [
    svg("rect", { x, y: y - BOX.height / 2, width, height: BOX.height, rx: 8, class: `node ${kind}` }),
    svg("text", { x: x + 12, y: y + 4.5, class: "name" }, shown),
    note ? svg("text", { x: x + width - 10, y: y + 4.5, class: "note", "text-anchor": "end" }, note) : null,
    svg("title", {}, name),
  ];
  return href ? svg("a", { href }, inside) : svg("g", {}, inside);
}
