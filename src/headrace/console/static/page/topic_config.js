// A topic's configuration, with what each key means.

import { ask } from "../api.js";
import { dialog, field, h, options, toast } from "../dom.js";

export function config(root, name, context) {
  const path = `topics/${encodeURIComponent(name)}/config`;
  const list = h("div", { class: "config" });
  const filter = h("input", { type: "search", placeholder: "Filter keys", "aria-label": "Filter configuration keys", oninput: () => show() });
  let all = [];
  root.append(h("section", { class: "card" }, h("h2", {}, "Configuration"), h("div", { class: "bar" }, filter), list));

  const show = () => {
    const wanted = filter.value.trim().toLowerCase();
    const rows = all.filter((each) => each.name.includes(wanted) || each.doc.toLowerCase().includes(wanted));
    list.replaceChildren(...rows.map((each) => h("div", { class: each.source === "dynamic_topic_config" ? "entry set" : "entry" },
      h("div", {}, h("code", {}, each.name), each.source === "dynamic_topic_config" ? h("span", { class: "badge" }, "set here") : null, each.doc ? h("p", {}, each.doc) : null),
      h("div", { class: "value" }, h("code", {}, each.sensitive ? "•••" : each.value || "–"),
        context.may("editor") && !each.read_only ? h("button", { type: "button", class: "small", "aria-label": `Change ${each.name}`, onclick: () => change(each) }, "Change") : null))));
  };
  const load = async () => {
    try {
      all = (await ask(path)).config.sort((one, two) => one.name.localeCompare(two.name));
      show();
    } catch (error) {
      toast(error.message, "bad");
    }
  };
  const change = (entry) => {
    dialog(entry.name, (close) => {
      const single = entry.choices.length && entry.type === "string";
      const value = single ? h("select", {}, options(entry.choices.map((each) => [each, each]), entry.value)) : h("input", { value: entry.value ?? "", autocomplete: "off" });
      const send = async (body) => {
        try {
          await ask(path, { method: "PATCH", body });
          close();
          toast(`${entry.name} is changed.`);
          await load();
        } catch (error) {
          toast(error.message, "bad");
        }
      };
      const submit = (event) => {
        event.preventDefault();
        send({ set: { [entry.name]: value.value } });
      };
      return h("form", { onsubmit: submit }, entry.doc ? h("p", {}, entry.doc) : null, field("Value", value, entry.choices.length ? `One of ${entry.choices.join(", ")}.` : ""),
        h("footer", {}, h("button", { type: "button", onclick: () => send({ reset: [entry.name] }) }, "Back to the default"), h("button", { class: "primary" }, "Save")));
    });
  };
  load();
  return {};
}
