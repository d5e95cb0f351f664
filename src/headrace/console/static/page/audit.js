// What was sent, and what arrived in each tier.

import { poll } from "../api.js";
import { h, options, put } from "../dom.js";
import { count, moment, plural } from "../format.js";
import { Table } from "../table.js";

export function render(root) {
  let stop = () => {};
  let all = [];
  const problem = h("p", { class: "problem", role: "alert", hidden: true });
  const verdict = h("p", { class: "facts", role: "status" });
  const filter = h("input", { type: "search", placeholder: "Filter by topic", "aria-label": "Filter by topic", oninput: () => show() });
  const short = h("input", { type: "checkbox", onchange: () => show() });
  const back = h("select", { "aria-label": "How far back", onchange: () => begin() }, options([["600000", "the last 10 minutes"], ["3600000", "the last hour"], ["86400000", "the last day"]], "3600000"));
  const table = new Table([
    { title: "Topic", cell: (each) => h("a", { href: `#/topics/${encodeURIComponent(each.topic)}` }, each.topic), sign: (each) => each.topic, sort: (each) => each.topic },
    { title: "Bucket", cell: (each) => moment(each.bucket_ms).slice(0, -4), sort: (each) => each.bucket_ms },
    { title: "Sent", cell: (each) => count(each.sent), sort: (each) => each.sent, num: true },
    { title: "Tiers", cell: tiers, sign: (each) => JSON.stringify(each.tiers) + each.settled },
    { title: "Status", cell: status, sign: (each) => `${each.lost} ${each.settled}`, sort: (each) => each.lost },
  ], { key: (each) => `${each.topic} ${each.bucket_ms} ${each.length_ms}`, label: "Counts per topic and bucket", sort: 1, descending: true });

  root.append(h("h1", {}, "Audit"), problem, verdict,
    h("div", { class: "bar" }, filter, h("div", {}, back), h("label", { class: "check" }, short, "only what is below 100 %")), table.element,
    h("p", { class: "hint" }, "Producers and every tier after them count their records by the records' own time into the audit topic. A bucket is judged a minute after its end."));
  const show = () => {
    const wanted = filter.value.trim().toLowerCase();
    table.update(all.filter((each) => each.topic.toLowerCase().includes(wanted) && (!short.checked || each.lost)),
      all.length ? "No bucket matches." : "There are no counts yet. `headrace audit --help` shows how to begin.");
  };
  const begin = () => {
    stop();
    stop = poll(`audit?back_ms=${back.value}`, (found) => {
      problem.hidden = !found.problem;
      problem.textContent = found.problem ?? "";
      all = found.rows;
      put(verdict, found.rows.length ? h("span", {}, h("span", { class: found.lost ? "badge bad" : "badge good" }, found.lost ? `${count(found.lost)} lost` : "nothing lost"), ` in ${plural(found.rows.length, "bucket")} of ${length(found.rows[0].length_ms)}`) : "");
      show();
    }, (error) => {
      problem.hidden = false;
      problem.textContent = error.message;
    }, 3000);
  };
  begin();
  return () => stop();
}

const length = (ms) => (ms % 60000 ? `${ms / 1000} s` : `${ms / 60000} min`);

function tiers(row) {
  if (!row.tiers.length) return "–";
  return h("div", {}, row.tiers.map((each) => h("div", { class: "fill" },
    h("span", {}, each.tier),
    h("meter", { min: "0", max: "100", low: "99.99", high: "99.999", optimum: "100", value: Math.min(each.percent, 100), "aria-label": `${each.tier} of ${row.topic}` }),
    h("span", { class: row.settled && each.count < row.sent ? "below" : "" }, `${each.percent} % · ${count(each.count)} · ${(each.delay_ms / 1000).toFixed(1)} s later`))));
}

function status(row) {
  if (row.lost) return h("span", { class: "badge bad" }, `${count(row.lost)} lost`);
  if (!row.settled) return h("span", { class: "badge" }, "filling");
  if (row.tiers.some((each) => each.count > row.sent)) return h("span", { class: "badge warn" }, "more than sent");
  return h("span", { class: "badge good" }, "complete");
}
