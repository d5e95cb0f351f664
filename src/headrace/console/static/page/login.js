// The login.

import { ask } from "../api.js";
import { field, h } from "../dom.js";

export function render(root, done) {
  const problem = h("p", { class: "problem", role: "alert", hidden: true });
  const name = h("input", { name: "name", autocomplete: "username", required: true });
  const password = h("input", { name: "password", type: "password", autocomplete: "current-password", required: true });
  const button = h("button", { class: "primary" }, "Log in");
  const enter = async (event) => {
    event.preventDefault();
    button.disabled = true;
    try {
      await ask("session", { method: "POST", body: { name: name.value, password: password.value } });
      await done();
    } catch (error) {
      problem.textContent = error.message;
      problem.hidden = false;
      password.value = "";
      password.focus();
    } finally {
      button.disabled = false;
    }
  };
  root.replaceChildren(
    h("main", { class: "alone", id: "main" },
      h("form", { class: "card", onsubmit: enter },
        h("img", { src: "/static/icon.svg", alt: "", width: "44", height: "44" }),
        h("h1", {}, "Headrace"), problem, field("Name", name), field("Password", password), button)));
  name.focus();
}
