// One subject: its versions, one of them in full, the difference of two, a schema to try out.

import { ask, query } from "../api.js";
import { dialog, field, h, options, put, toast } from "../dom.js";
import { plural } from "../format.js";
import { schemaForm } from "./schema_form.js";
import { address, changeLevel } from "./schemas.js";

const TABS = [["versions", "Versions"], ["diff", "Difference"], ["try", "Try out"]];

export function render(root, [name, wanted, shown], context) {
  const tab = TABS.some(([each]) => each === wanted) ? wanted : "versions";
  const problem = h("p", { class: "problem", role: "alert", hidden: true });
  const facts = h("p", { class: "facts" });
  const body = h("div", {});
  const buttons = h("div", { class: "buttons" });
  root.append(
    h("nav", { class: "crumbs", "aria-label": "Where you are" }, h("a", { href: "#/schemas" }, "Schemas"), " / "),
    h("div", { class: "head" }, h("h1", { class: "name" }, name), buttons), problem, facts,
    h("nav", { class: "tabs", "aria-label": "Parts of the subject" }, TABS.map(([each, title]) => h("a", { href: address(name, each), "aria-current": each === tab ? "page" : null }, title))),
    body);
  let left = false;
  const fail = (error) => {
    problem.hidden = false;
    put(problem, error.message);
  };
  const load = async () => {
    try {
      const found = await ask(`schemas/subject?${query({ subject: name })}`);
      if (left) return;
      problem.hidden = true;
      const more = found.count > found.versions.length ? `, the newest ${found.versions.length} are shown` : "";
      put(facts, `${plural(found.count, "version")}${more} · ${found.versions[0]?.type ?? ""} · ${found.own_level ?? `${found.level}, as all subjects`}`);
      buttons.replaceChildren(...[
        context.may("editor") ? h("button", { type: "button", onclick: () => changeLevel(name, found.own_level, found.levels, load) }, "Level") : null,
        context.may("admin") ? h("button", { type: "button", class: "danger", onclick: () => confirmDelete(name, null, () => context.go("/schemas")) }, "Delete") : null,
      ].filter(Boolean));
      body.replaceChildren();
      ({ versions, diff, try: tryOut })[tab](body, name, found, { context, shown, load, fail });
    } catch (error) {
      if (!left) fail(error);
    }
  };
  load();
  return () => {
    left = true;
  };
}

function versions(root, name, found, { context, shown, load, fail }) {
  const open = h("section", { class: "card", "aria-label": "Version" });
  const chosen = found.versions.find((each) => String(each.version) === shown) ?? found.versions[0];
  const list = h("ul", { class: "versions", "aria-label": "Versions" }, found.versions.map((each) => h("li", {},
    h("a", { href: address(name, "versions", each.version), "aria-current": each === chosen ? "true" : null }, h("strong", {}, `Version ${each.version}`), h("small", {}, `id ${each.id ?? "–"}`)))));
  root.append(h("div", { class: "split" }, list, open));
  if (!chosen) return;
  ask(`schemas/version?${query({ subject: name, version: chosen.version })}`).then((each) => {
    const copy = h("button", { type: "button", class: "small", onclick: async () => {
      await navigator.clipboard.writeText(each.text);
      toast("Copied.");
    } }, "Copy");
    const remove = context.may("admin") ? h("button", { type: "button", class: "small danger", onclick: () => confirmDelete(name, each.version, load) }, `Delete version ${each.version}`) : null;
    open.append(
      h("div", { class: "head" }, h("h2", {}, `Version ${each.version}`), h("div", { class: "buttons" }, copy, remove)),
      h("dl", { class: "headers" }, h("dt", {}, "id"), h("dd", {}, String(each.id)), h("dt", {}, "GUID"), h("dd", {}, each.guid ?? "–"), h("dt", {}, "type"), h("dd", {}, each.type),
        each.references.length ? [h("dt", {}, "references"), h("dd", {}, each.references.map((other) => h("div", {}, `${other.name} = `, h("a", { href: address(other.subject, "versions", other.version) }, `${other.subject}, version ${other.version}`))))] : null),
      h("pre", { tabindex: "0", "aria-label": "Schema" }, each.text));
  }).catch(fail);
}

function diff(root, name, found, { fail }) {
  const pairs = found.versions.map((each) => [String(each.version), `Version ${each.version}`]);
  const from = h("select", { onchange: () => load() }, options(pairs, pairs[1]?.[0] ?? pairs[0]?.[0]));
  const to = h("select", { onchange: () => load() }, options(pairs, pairs[0]?.[0]));
  const both = h("input", { type: "checkbox", checked: true, onchange: () => draw() });
  const place = h("div", {});
  const summary = h("p", { class: "summary", role: "status" });
  let lines = [];
  root.append(h("section", { class: "card" }, h("div", { class: "fields" }, field("From", from), field("To", to), h("label", { class: "check" }, both, "side by side")), summary, place));
  const draw = () => put(place, (both.checked ? sideBySide : unified)(lines));
  const load = async () => {
    try {
      const answer = await ask(`schemas/diff?${query({ subject: name, from: from.value, to: to.value })}`);
      lines = answer.lines;
      const of = (kind) => lines.filter(([each]) => each === kind).length;
      put(summary, of("removed") + of("added") ? `${plural(of("removed"), "line")} removed, ${of("added")} added.${answer.cut ? " Only the first 5,000 lines are compared." : ""}` : "Both are the same.");
      draw();
    } catch (error) {
      fail(error);
    }
  };
  load();
}

const MARKS = { same: " ", removed: "−", added: "+" };
const cell = (kind, number, text) => [h("td", { class: `number ${kind}` }, number === null ? "" : String(number)), h("td", { class: `line ${kind}` }, kind === "none" ? "" : h("span", { class: "mark" }, MARKS[kind]), text)];

function unified(lines) {
  return grid("Difference", lines.map(([kind, before, after, text]) => h("tr", {}, h("td", { class: `number ${kind}` }, before === null ? "" : String(before)), cell(kind, after, text))));
}

function sideBySide(lines) {
  const rows = [];
  for (let at = 0; at < lines.length;) {
    if (lines[at][0] === "same") {
      const [, before, after, text] = lines[at];
      rows.push(h("tr", {}, cell("same", before, text), cell("same", after, text)));
      at += 1;
      continue;
    }
    const removed = [];
    const added = [];
    for (; at < lines.length && lines[at][0] !== "same"; at += 1) (lines[at][0] === "removed" ? removed : added).push(lines[at]);
    for (let each = 0; each < Math.max(removed.length, added.length); each += 1) {
      const [left, right] = [removed[each], added[each]];
      rows.push(h("tr", {}, left ? cell("removed", left[1], left[3]) : cell("none", null, ""), right ? cell("added", right[2], right[3]) : cell("none", null, "")));
    }
  }
  return grid("Difference, side by side", rows);
}

const grid = (label, rows) => h("div", { class: "table diff", tabindex: "0", role: "region", "aria-label": label }, h("table", {}, h("tbody", {}, rows)));

function tryOut(root, name, found, { context, fail }) {
  const form = schemaForm({ subject: () => name, context, done: (made) => {
    toast(`Version ${made.version ?? "?"} has id ${made.id}.`);
    context.go(address(name).slice(1));
  } });
  root.append(h("section", { class: "card" }, h("h2", {}, "Would this be the next version?"), form.element));
  const latest = found.versions[0];
  if (!latest) return;
  ask(`schemas/version?${query({ subject: name, version: latest.version })}`).then((each) => form.set(each.type, each.text, each.references)).catch(fail);
}

function confirmDelete(name, version, done) {
  const what = version === null ? `subject ${name}` : `version ${version} of ${name}`;
  dialog(`Delete ${what}`, (close) => {
    const typed = h("input", { autocomplete: "off", oninput: () => { go.disabled = typed.value !== name; } });
    const go = h("button", { class: "danger", disabled: true }, "Delete");
    const remove = async (event) => {
      event.preventDefault();
      try {
        await ask("schemas", { method: "DELETE", body: { subject: name, version, confirm: typed.value } });
        close();
        toast(`The ${what} is deleted.`);
        done();
      } catch (error) {
        toast(error.message, "bad");
      }
    };
    return h("form", { onsubmit: remove }, h("p", {}, "Records that were written with it can still be read by its id. No reader finds it by its name any more."), field("Type the subject's name to confirm", typed),
      h("footer", {}, h("button", { type: "button", onclick: close }, "Cancel"), go));
  });
}
