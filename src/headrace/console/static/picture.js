// Draws boxes and arrows in layers: the map of the cluster, and the graph of a flow.
//
// The server decides the layer and the order of every box (console/layered_layout.py). This file
// decides its height: as near to the mean of the adjacent boxes as the order allows.

import { h, svg } from "./dom.js";

const WIDTH = 178;
const HEIGHT = 42;
const GAP = 108;
const BETWEEN = 14;
const PORT = 13;
const ROUNDS = 12;
const CLOSER = 0.9;
const SIDE = 9;
const DETOUR = 44;
const ABOVE = 12;
const BELOW = 12;

/**
 * Return an SVG. nodes: by id {name, note, kind, status, href, title}; layers: lists of ids, of nodes and of
 * points that arrows pass; arrows: {path: ids, weight: 0 to 1, label, still, kind}; gap: the room between two
 * layers; paired: arrows may go both ways between two boxes, side by side, with labels in their middle.
 */
export function picture({ nodes, layers, arrows, label, gap = GAP, paired = false }) {
  if (!layers.length) return h("p", { class: "empty" }, "There is nothing to draw yet.");
  const places = new Map();
  const ends = portCounts(arrows);
  layers.forEach((layer, x) => layer.forEach((id) => {
    const ports = Math.max(ends.in.get(id) ?? 0, ends.out.get(id) ?? 0);
    places.set(id, { x: 4 + x * (WIDTH + gap), y: 0, height: nodes[id] ? Math.max(HEIGHT, ports * PORT + 6) : 8, node: Boolean(nodes[id]) });
  }));
  settle(layers, arrows, places);
  const top = Math.min(...[...places.values()].map((each) => each.y - each.height / 2));
  for (const each of places.values()) each.y += 4 - top + (paired ? ABOVE : 0);
  const lowest = Math.max(...[...places.values()].map((each) => each.y + each.height / 2)) + 4;
  const wide = layers.length * (WIDTH + gap) - gap + 8;
  const ports = attach(arrows, places);
  if (paired) separate(arrows, places, ports);
  const far = paired && arrows.some((each) => isFar(each, places, gap));
  const goesBack = paired && arrows.some((each) => isBack(each, places));
  const high = lowest + (far ? DETOUR : goesBack ? BELOW : 0);
  const lines = [];
  const labels = [];
  arrows.forEach((each, index) => {
    const back = paired && isBack(each, places);
    const detour = back && isFar(each, places, gap) ? lowest + DETOUR - 12 : null;
    const path = back ? backRoute(each, places, ports[index], detour) : route(each, places, ports[index]);
    lines.push(svg("path", { d: path, class: ["arrow", each.still ? "still" : "", each.kind ?? ""].filter(Boolean).join(" "), "stroke-width": (1.2 + 6 * (each.weight ?? 0.3)).toFixed(1) }));
    if (!each.still) lines.push(svg("path", { d: path, class: "stream" }));
    if (each.label) labels.push(paired ? middleLabel(each, places, ports[index], back, detour) : flowLabel(each, places, ports[index], ends));
  });
  const drawn = svg("svg", { viewBox: `0 0 ${wide} ${high}`, class: "picture", role: "group", "aria-label": label },
    lines, labels, layers.flat().filter((id) => nodes[id]).map((id) => box(nodes[id], places.get(id))));
  // A wide picture scrolls before it becomes too small to read; a small one is not enlarged.
  drawn.style.minWidth = `${Math.round(wide * 0.86)}px`;
  drawn.style.maxWidth = `${Math.round(wide * 1.15)}px`;
  return drawn;
}

function portCounts(arrows) {
  const counts = { in: new Map(), out: new Map() };
  for (const { path } of arrows) {
    counts.out.set(path[0], (counts.out.get(path[0]) ?? 0) + 1);
    counts.in.set(path.at(-1), (counts.in.get(path.at(-1)) ?? 0) + 1);
  }
  return counts;
}

/** Place every box: near the adjacent ones, in its order, without overlaps. */
function settle(layers, arrows, places) {
  const near = new Map([...places.keys()].map((id) => [id, []]));
  for (const { path } of arrows) {
    path.slice(1).forEach((id, index) => {
      near.get(id).push(path[index]);
      near.get(path[index]).push(id);
    });
  }
  for (const layer of layers) stack(layer, places, () => 0);
  for (let round = 0; round < ROUNDS; round += 1) {
    const order = round % 2 ? [...layers].reverse() : layers;
    for (const layer of order) {
      stack(layer, places, (id) => {
        const others = near.get(id);
        const middle = others.length ? others.reduce((sum, each) => sum + places.get(each).y, 0) / others.length : places.get(id).y;
        // Without this factor, parts that no arrow connects drift apart.
        return middle * CLOSER;
      });
    }
  }
}

/** Place one layer. Boxes that would overlap form a block, placed at the mean of their targets. */
function stack(layer, places, target) {
  const blocks = [];
  for (const id of layer) {
    const own = places.get(id).height + BETWEEN;
    let block = { ids: [id], height: own, sum: target(id) - own / 2, count: 1 };
    while (blocks.length) {
      const above = blocks.at(-1);
      if (above.sum / above.count + above.height <= block.sum / block.count + 1e-6) break;
      blocks.pop();
      block = { ids: [...above.ids, ...block.ids], height: above.height + block.height, sum: above.sum + block.sum - above.height * block.count, count: above.count + block.count };
    }
    blocks.push(block);
  }
  for (const block of blocks) {
    let y = block.sum / block.count;
    for (const id of block.ids) {
      const own = places.get(id).height + BETWEEN;
      places.get(id).y = y + own / 2;
      y += own;
    }
  }
}

/** Return where each arrow leaves and arrives: side by side, in the order of their other ends. */
function attach(arrows, places) {
  const found = arrows.map(() => ({ from: 0, to: 0 }));
  const spread = (end, other, name) => {
    const sharing = new Map();
    arrows.forEach(({ path }, index) => {
      const id = path.at(end);
      if (!sharing.has(id)) sharing.set(id, []);
      sharing.get(id).push(index);
    });
    for (const [id, list] of sharing) {
      const { y, height } = places.get(id);
      list.sort((one, two) => places.get(arrows[one].path.at(other)).y - places.get(arrows[two].path.at(other)).y);
      list.forEach((index, number) => {
        found[index][name] = y - height / 2 + (height * (number + 1)) / (list.length + 1);
      });
    }
  };
  spread(0, 1, "from");
  spread(-1, -2, "to");
  return found;
}

function route({ path }, places, port) {
  const points = path.map((id, index) => {
    const { x, y, node } = places.get(id);
    if (index === 0) return [x + WIDTH, port.from];
    if (index === path.length - 1) return [x, port.to];
    return node ? [x, y] : [x + WIDTH / 2, y];
  });
  let line = `M${points[0].map(round).join(" ")}`;
  points.slice(1).forEach(([x, y], index) => {
    const [fromX, fromY] = points[index];
    const bend = Math.max(Math.abs(x - fromX) / 2, 30);
    line += `C${round(fromX + bend)} ${round(fromY)} ${round(x - bend)} ${round(y)} ${round(x)} ${round(y)}`;
  });
  return line;
}

const isBack = ({ path }, places) => places.get(path.at(-1)).x < places.get(path[0]).x;
const isFar = (arrow, places, gap) => isBack(arrow, places) && places.get(arrow.path[0]).x - places.get(arrow.path.at(-1)).x > WIDTH + gap + 1;

/** Draw two boxes' arrows to each other side by side. */
function separate(arrows, places, ports) {
  const ways = new Set(arrows.map(({ path }) => JSON.stringify([path[0], path.at(-1)])));
  arrows.forEach(({ path }, index) => {
    if (!ways.has(JSON.stringify([path.at(-1), path[0]]))) return;
    const aside = isBack({ path }, places) ? SIDE : -SIDE;
    for (const end of ["from", "to"]) ports[index][end] += aside;
  });
}

/** Go back from the left side of a box to the right side of one before it, below all boxes if others lie between. */
function backRoute({ path }, places, port, detour) {
  const [from, to] = [places.get(path[0]).x, places.get(path.at(-1)).x + WIDTH];
  if (detour === null) return `M${round(from)} ${round(port.from)}C${round((from + to) / 2)} ${round(port.from)} ${round((from + to) / 2)} ${round(port.to)} ${round(to)} ${round(port.to)}`;
  return `M${round(from)} ${round(port.from)}C${round(from - 60)} ${round(detour)} ${round(to + 60)} ${round(detour)} ${round(to)} ${round(port.to)}`;
}

/** Draw a label in the middle of an arrow's first part, above one that goes to the right and below one that goes back. */
function middleLabel({ path, label, kind }, places, port, back, detour) {
  const [one, two] = back ? [places.get(path.at(-1)), places.get(path[0])] : [places.get(path[0]), places.get(path[1])];
  const height = path.length === 2 ? (port.from + port.to) / 2 : (port.from + two.y) / 2;
  const y = detour !== null ? detour - 26 : back ? height + 15 : height - 7;
  return svg("text", { x: round((one.x + WIDTH + two.x) / 2), y: round(y), class: kind ? `flow ${kind}` : "flow", "text-anchor": "middle" }, back ? `← ${label}` : `${label} →`);
}

const round = (number) => Math.round(number * 10) / 10;

/** Draw a rate at the end of the arrow that fewer arrows share. */
function flowLabel({ path, label }, places, port, ends) {
  const last = path.at(-1);
  const atTarget = (ends.in.get(last) ?? 0) <= (ends.out.get(path[0]) ?? 0);
  const [x, y, anchor] = atTarget ? [places.get(last).x - 9, port.to, "end"] : [places.get(path[0]).x + WIDTH + 7, port.from, "start"];
  return svg("text", { x, y: round(y - 4), class: "flow", "text-anchor": anchor }, label);
}

function box(node, { x, y, height }) {
  const inside = [
    svg("title", {}, node.title ?? node.name),
    svg("rect", { x, y: round(y - height / 2), width: WIDTH, height: round(height), rx: 8, class: `node ${node.kind} ${(node.status || "").toLowerCase()}` }),
    svg("text", { x: x + 12, y: round(y - 3), class: "name" }, short(node.name, 19)),
    svg("text", { x: x + 12, y: round(y + 13), class: "note" }, short(node.note ?? "", 25, node.kind === "sink")),
  ];
  return node.href ? svg("a", { href: node.href }, inside) : svg("g", {}, inside);
}

const short = (text, room, keepEnd = false) => {
  if (text.length <= room) return text;
  return keepEnd ? `…${text.slice(1 - room)}` : `${text.slice(0, room - 1)}…`;
};
