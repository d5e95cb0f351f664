import { h } from "../dom.js";
export function render(root) {
  root.append(h("h1", {}, "audit"));
}
