// A schema to try out and to register.

import { ask } from "../api.js";
import { field, h, options, put, toast } from "../dom.js";

const TYPES = [["AVRO", "Avro"], ["JSON", "JSON Schema"], ["PROTOBUF", "Protobuf"]];

/**
 * Return a form; `subject()` names the subject, `done(found)` is called after registration.
 * `set(type, text, references)` fills it.
 */
export function schemaForm({ subject, context, done }) {
  const type = h("select", {}, options(TYPES, "AVRO"));
  const text = h("textarea", { rows: "12", spellcheck: "false", required: true });
  const references = h("textarea", { rows: "2", spellcheck: "false", placeholder: '[{"name": "shop.User", "subject": "users", "version": 1}]' });
  const verdict = h("div", { class: "verdict", role: "status" });

  const body = () => {
    let listed = [];
    if (references.value.trim()) {
      try {
        listed = JSON.parse(references.value);
      } catch {
        throw new Error("References are a JSON list of objects with name, subject and version.");
      }
    }
    return { subject: subject(), type: type.value, schema: text.value, references: listed };
  };
  const check = async () => {
    put(verdict, "Checking …");
    try {
      const found = await ask("schemas/check", { method: "POST", body: body() });
      put(verdict, h("div", {},
        h("span", { class: `badge ${found.compatible ? "good" : "bad"}` }, found.compatible ? "compatible" : "not compatible"),
        found.messages.length ? h("ul", {}, found.messages.map((each) => h("li", {}, each))) : null));
    } catch (error) {
      put(verdict, h("p", { class: "problem" }, error.message));
    }
  };
  const send = async (event) => {
    event.preventDefault();
    try {
      done(await ask("schemas", { method: "POST", body: body() }));
    } catch (error) {
      put(verdict, h("p", { class: "problem" }, error.message));
    }
  };
  const element = h("form", { class: "stack", onsubmit: send },
    field("Type", type), field("Schema", text), field("References", references, "Only if the schema uses others."), verdict,
    h("footer", { class: "buttons" }, h("button", { type: "button", onclick: check }, "Try out"),
      context.may("editor") ? h("button", { class: "primary" }, "Register") : null));
  return {
    element,
    set(kind, content, listed) {
      type.value = kind;
      text.value = content;
      references.value = listed.length ? JSON.stringify(listed) : "";
      put(verdict, "");
    },
  };
}
