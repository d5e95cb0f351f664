// Lines over time, with uPlot, in the page's own colours.

import uPlot from "./vendor/uPlot.esm.js";
import { h } from "./dom.js";
import { short } from "./format.js";

const LINES = ["--line-1", "--line-2", "--line-3", "--line-4", "--line-5", "--line-6"];

const clock = (seconds) => new Date(seconds * 1000).toTimeString().slice(0, 8);

const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

/** lines: their names. `update(times, values)` takes one list of values per line. */
export class Chart {
  constructor(label, lines, { height = 190, fill = true, unit = short } = {}) {
    this.label = label;
    this.unit = unit;
    this.height = height;
    this.filled = fill;
    this.place = h("div", { class: height < 150 ? "plot low" : "plot", role: "img", "aria-label": label });
    this.legend = h("div", { class: "legend" });
    this.element = h("div", { class: "chart" }, this.legend, this.place);
    this.data = [[], ...lines.map(() => [])];
    this.setLines(lines);
    this.watcher = new ResizeObserver(() => this.#resize());
    this.watcher.observe(this.place);
    this.redraw = () => this.#make();
    addEventListener("headrace-theme", this.redraw);
  }

  /** unit: a function from a value to its text. */
  setUnit(unit) {
    this.unit = unit;
    this.plot?.destroy();
    this.plot = null;
  }

  setLines(lines) {
    if (this.lines && this.lines.join("\n") === lines.join("\n")) return;
    this.lines = lines;
    this.legend.replaceChildren(
      ...lines.map((name, index) => h("span", {}, h("i", { class: `swatch swatch-${(index % LINES.length) + 1}` }), name)),
    );
    this.plot?.destroy();
    this.plot = null;
  }

  update(times, values) {
    this.data = [times, ...values];
    const last = values.map((each, index) => `${this.lines[index]} ${this.unit(each.at(-1) ?? 0)}`);
    this.place.setAttribute("aria-label", `${this.label}: ${last.join(", ")}`);
    if (this.plot) this.plot.setData(this.data);
    else this.#make();
  }

  close() {
    this.watcher.disconnect();
    removeEventListener("headrace-theme", this.redraw);
    this.plot?.destroy();
  }

  #resize() {
    const width = this.place.clientWidth;
    if (this.plot && width) this.plot.setSize({ width, height: this.height });
    else if (width) this.#make();
  }

  #make() {
    this.plot?.destroy();
    this.plot = null;
    const width = this.place.clientWidth;
    if (!width) return;
    const ink = colour("--muted");
    const grid = { stroke: colour("--hairline"), width: 1 };
    const axis = { stroke: ink, grid, ticks: { show: false }, font: "11px system-ui, sans-serif" };
    const series = this.lines.map((name, index) => {
      const stroke = colour(LINES[index % LINES.length]);
      return { label: name, stroke, width: 2, points: { show: false }, fill: this.filled ? `${stroke}1f` : undefined };
    });
    this.plot = new uPlot({
      width,
      height: this.height,
      legend: { show: false },
      cursor: { y: false, points: { size: 6 } },
      scales: { x: { time: true }, y: { range: (_, low, high) => [0, Math.max(high * 1.1, 1)] } },
      axes: [{ ...axis, space: 80, size: 26, values: (_, marks) => marks.map(clock) }, { ...axis, size: 62, values: (_, marks) => marks.map((each) => this.unit(each)) }],
      series: [{}, ...series],
    }, this.data, this.place);
  }
}
