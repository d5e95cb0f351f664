// Builds elements from data. Data only becomes text: nothing here parses HTML.

const SVG = "http://www.w3.org/2000/svg";

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "value") element.value = value;
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat(Infinity).filter((each) => each !== null && each !== undefined && each !== false));
  return element;
}

/** Return an element: `h("a", {href: "#/topics", class: "link"}, "Topics")`. */
export function h(tag, attributes, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

export function svg(tag, attributes, ...children) {
  return fill(document.createElementNS(SVG, tag), attributes, children);
}

/** Replace the content of an element, unless it already has the same text. */
export function put(element, content) {
  if (content instanceof Node) element.replaceChildren(content);
  else if (element.childElementCount || element.textContent !== String(content ?? "")) {
    element.textContent = content ?? "";
  }
}

const ICONS = {
  overview: "M3 12 12 4l9 8M6 10v10h12V10",
  topics: "M4 6h16M4 12h16M4 18h16",
  groups: "M8 11a3 3 0 1 0 0-6 3 3 0 0 0 0 6Zm8 0a3 3 0 1 0 0-6 3 3 0 0 0 0 6ZM3 20c0-3 2-5 5-5s5 2 5 5m1-5c4-.6 7 1.5 7 5",
  flows: "M5 6h4v4H5zM15 4h4v4h-4zM15 16h4v4h-4zM9 8h6M9 9l6 9",
  agents: "M12 3v4m0 10v4M5 12H3m18 0h-2M7 7h10v10H7z",
  audit: "M5 12.5 10 17l9-10",
  streams: "M4 6c4 0 4 4 8 4s4-4 8-4M4 12c4 0 4 4 8 4s4-4 8-4M4 18h16",
  mirrors: "M5 4h5v7H5zM14 13h5v7h-5zM13 7h5v3m-2-1 2 2 2-2M11 17H6v-3m-2 1 2-2 2 2",
  tables: "M4 5h16v14H4zM4 10h16M4 14.500h16M10 10v9",
  schemas: "M7 4c-2 0-2 2-2 4s0 4-2 4c2 0 2 2 2 4s0 4 2 4M17 4c2 0 2 2 2 4s0 4 2 4c-2 0-2 2-2 4s0 4-2 4M10 9h4m-4 3h4m-4 3h4",
  sun: "M12 8a4 4 0 1 0 0 8 4 4 0 0 0 0-8Zm0-5v2m0 14v2M3 12h2m14 0h2M5.6 5.6 7 7m10 10 1.4 1.400M18.4 5.6 17 7M7 17l-1.4 1.4",
  moon: "M20 14.500A8 8 0 1 1 9.5 4a6.5 6.5 0 0 0 10.5 10.500Z",
  help: "M9 9a3 3 0 1 1 4.2 2.700c-.8.4-1.2 1-1.2 2.300m0 3v.1",
  exit: "M10 4H5v16h5m4-12 4 4-4 4m-5-4h9",
};

export function icon(name) {
  return svg("svg", { viewBox: "0 0 24 24", class: "icon", "aria-hidden": "true" }, svg("path", { d: ICONS[name] }));
}

/** Show a short notice that disappears after seconds; errors stay longer. */
export function toast(text, kind = "good") {
  const place = document.querySelector("#toasts");
  const note = h("div", { class: `toast ${kind}`, role: kind === "bad" ? "alert" : "status" }, text);
  place?.append(note);
  setTimeout(() => note.remove(), kind === "bad" ? 9000 : 4000);
}

/** Show a modal dialog and return it. Esc and the cross close it. */
export function dialog(title, build, { wide = false } = {}) {
  const box = h("dialog", { class: wide ? "wide" : "", "aria-label": title });
  const close = () => box.close();
  box.append(
    h("header", {}, h("h2", {}, title), h("button", { class: "quiet", type: "button", "aria-label": "Close", onclick: close }, "✕")),
    build(close),
  );
  box.addEventListener("close", () => box.remove());
  document.body.append(box);
  box.showModal();
  return box;
}

/** Return a label with its input below. */
export function field(label, input, hint) {
  return h("label", { class: "field" }, h("span", {}, label), input, hint ? h("small", {}, hint) : null);
}

export function options(pairs, chosen) {
  return pairs.map(([value, text]) => h("option", { value, selected: value === chosen }, text));
}
