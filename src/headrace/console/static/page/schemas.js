// The subjects of the schema registry.

import { ask, query } from "../api.js";
import { dialog, field, h, options, put, toast } from "../dom.js";
import { count, plural } from "../format.js";
import { Table } from "../table.js";
import { schemaForm } from "./schema_form.js";

const PAUSE_MS = 250;

export const address = (subject, ...rest) => `#/schemas/${[subject, ...rest].map(encodeURIComponent).join("/")}`;

export function render(root, _, context) {
  let waiting = 0;
  let asked = null;
  let global = null;
  let levels = [];
  const problem = h("p", { class: "problem", role: "alert", hidden: true });
  const summary = h("p", { class: "summary", role: "status" });
  const filter = h("input", { type: "search", placeholder: "Filter by name", "aria-label": "Filter subjects by name", oninput: () => {
    clearTimeout(waiting);
    waiting = setTimeout(load, PAUSE_MS);
  } });
  const table = new Table([
    { title: "Subject", cell: (each) => h("a", { href: address(each.subject) }, each.subject), sign: (each) => each.subject, sort: (each) => each.subject },
    { title: "Type", cell: (each) => each.type ?? "–", sort: (each) => each.type ?? "" },
    { title: "Versions", cell: (each) => count(each.versions), sort: (each) => each.versions, num: true },
    { title: "Latest", cell: (each) => count(each.latest), sort: (each) => each.latest, num: true },
    { title: "Id", cell: (each) => (each.id === null ? "–" : String(each.id)), sort: (each) => each.id, num: true },
    { title: "Compatibility", cell: (each) => level(each), sign: (each) => `${each.level} ${global}`, sort: (each) => each.level ?? "" },
  ], { key: (each) => each.subject, label: "Subjects", empty: "There is no subject yet." });
  const level = (each) => (each.level ? each.level : h("span", { class: "muted" }, global ?? "–"));
  const create = context.may("editor") ? h("button", { type: "button", class: "primary", onclick: () => register(context) }, "New subject") : null;
  const all = h("button", { type: "button", hidden: true, onclick: () => changeLevel(null, global, levels, load) }, "Level of all");
  root.append(
    h("div", { class: "head" }, h("h1", {}, "Schemas"), h("div", { class: "buttons" }, all, create)),
    problem, h("div", { class: "bar" }, filter, summary), table.element);

  const load = async () => {
    asked?.abort();
    asked = new AbortController();
    try {
      const found = await ask(`schemas?${query({ text: filter.value })}`, { signal: asked.signal });
      problem.hidden = found.registry;
      put(problem, "This console has no schema registry: start it with --registry http://HOST:8081.");
      if (create) create.hidden = !found.registry;
      global = found.level;
      levels = found.levels ?? [];
      all.hidden = !found.registry || !context.may("admin");
      table.update(found.subjects, filter.value ? "No subject matches." : "There is no subject yet.");
      const more = found.count > found.subjects.length ? `, the first ${found.subjects.length} are shown: filter for others` : "";
      put(summary, found.registry ? `${plural(found.count, "subject")}${more} · ${global ?? "no level"} unless a subject has its own level` : "");
    } catch (error) {
      if (error.name === "AbortError") return;
      problem.hidden = false;
      put(problem, error.message);
    }
  };
  load();
  return () => {
    clearTimeout(waiting);
    asked?.abort();
  };
}

function register(context) {
  dialog("New subject", (close) => {
    const name = h("input", { required: true, autocomplete: "off", placeholder: "TOPIC-value", spellcheck: "false" });
    const form = schemaForm({ subject: () => name.value, context, done: (found) => {
      close();
      toast(`Version ${found.version ?? "?"} of ${name.value} has id ${found.id}.`);
      context.go(address(name.value).slice(1));
    } });
    return h("div", { class: "stack" }, field("Subject", name, "TOPIC-value for values, TOPIC-key for keys."), form.element);
  }, { wide: true });
}

/** Ask for another compatibility level, of one subject or, with null, of all. */
export function changeLevel(subject, own, levels, done) {
  dialog(subject === null ? "Level of all subjects" : `Level of ${subject}`, (close) => {
    const none = subject === null ? [] : [["", "as all subjects"]];
    const chosen = h("select", {}, options([...none, ...levels.map((each) => [each, each])], own ?? ""));
    const send = async (event) => {
      event.preventDefault();
      try {
        await ask("schemas/level", { method: "PUT", body: { subject, level: chosen.value || null } });
        close();
        toast("The level is set.");
        done();
      } catch (error) {
        toast(error.message, "bad");
      }
    };
    return h("form", { onsubmit: send }, field("Compatibility", chosen, "BACKWARD: new readers read old records. FORWARD: old readers read new records. TRANSITIVE: of all versions, not only the last."),
      h("footer", {}, h("button", { type: "button", onclick: close }, "Cancel"), h("button", { class: "primary" }, "Set")));
  });
}
