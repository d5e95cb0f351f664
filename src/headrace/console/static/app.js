// The page's frame: who is logged in, the navigation, which page is shown, keys, light and dark.

import { ask } from "./api.js";
import { dialog, h, icon, toast } from "./dom.js";
import * as agents from "./page/agents.js";
import * as audit from "./page/audit.js";
import * as flows from "./page/flows.js";
import * as group from "./page/group.js";
import * as groups from "./page/groups.js";
import * as login from "./page/login.js";
import * as mirrors from "./page/mirrors.js";
import * as overview from "./page/overview.js";
import * as schema from "./page/schema.js";
import * as schemas from "./page/schemas.js";
import * as streams from "./page/streams.js";
import * as tables from "./page/tables.js";
import * as topic from "./page/topic.js";
import * as topics from "./page/topics.js";

const PAGES = [
  ["overview", "Overview", "o"],
  ["topics", "Topics", "t"],
  ["groups", "Groups", "g"],
  ["flows", "Flows", "f"],
  ["agents", "Agents", "a"],
  ["audit", "Audit", "u"],
  ["streams", "Streams", "s"],
  ["mirrors", "Mirrors", "m"],
  ["tables", "Tables", "b"],
  ["schemas", "Schemas", "c"],
];
// The page of one of them.
const PARTS = { topics: topic, groups: group, schemas: schema };
const VIEWS = {
  overview, topics, groups, flows, agents, audit, streams, mirrors, tables, schemas,
};

const app = document.querySelector("#app");
let session = null;
let leave = null;

/** What every page gets: the session, and what its user may do. */
const context = {
  get session() {
    return session;
  },
  may(role) {
    const ranks = ["viewer", "editor", "admin"];
    return !session.read_only && ranks.indexOf(session.role) >= ranks.indexOf(role);
  },
  go(path) {
    location.hash = path;
  },
};

async function start() {
  session = await ask("session").catch((error) => {
    app.replaceChildren(h("main", { class: "alone" }, h("h1", {}, "Headrace"), h("p", { class: "problem" }, error.message)));
    return null;
  });
  if (!session) return;
  if (session.user === null) showLogin();
  else showFrame();
}

function showLogin() {
  leave?.();
  leave = null;
  login.render(app, async () => {
    session = await ask("session");
    showFrame();
  });
}

function showFrame() {
  const links = PAGES.map(([name, title]) => h("a", { href: `#/${name}`, "data-page": name }, icon(name), h("span", {}, title)));
  app.replaceChildren(
    h("div", { class: "frame" },
      h("header", { class: "side" },
        h("a", { class: "brand", href: "#/overview", "aria-label": "Headrace, overview" },
          h("img", { src: "/static/icon.svg", alt: "", width: "28", height: "28" }), h("span", {}, "Headrace")),
        h("nav", { "aria-label": "Pages" }, links),
        h("div", { class: "foot" },
          h("p", { class: "cluster", title: session.bootstrap }, session.bootstrap),
          session.read_only ? h("span", { class: "badge" }, "read-only") : null,
          h("div", { class: "buttons" },
            h("button", { type: "button", class: "quiet", id: "theme", onclick: turnTheme }, icon("moon")),
            h("button", { type: "button", class: "quiet", "aria-label": "Keys", title: "Keys (?)", onclick: showKeys }, icon("help")),
            session.login ? h("button", { type: "button", class: "quiet", "aria-label": `Log out ${session.user}`, title: `Log out ${session.user}`, onclick: logOut }, icon("exit")) : null))),
      h("main", { id: "main", tabindex: "-1" })),
    h("div", { id: "toasts", "aria-live": "polite" }),
  );
  nameTheme();
  show();
}

function show() {
  const main = document.querySelector("#main");
  if (!main) return;
  leave?.();
  const [name = "overview", ...rest] = location.hash.replace(/^#\/?/, "").split("/").map(decode).filter(Boolean);
  const found = (rest.length ? PARTS[name] : undefined) ?? VIEWS[name] ?? overview;
  for (const link of document.querySelectorAll("nav a[data-page]")) {
    if (link.dataset.page === (VIEWS[name] ? name : "overview")) {
      link.setAttribute("aria-current", "page");
      link.scrollIntoView({ block: "nearest", inline: "center" });
    } else link.removeAttribute("aria-current");
  }
  main.replaceChildren();
  document.title = [rest[0], PAGES.find(([each]) => each === name)?.[1], "Headrace"].filter(Boolean).join(" · ");
  leave = found.render(main, rest, context) ?? null;
}

function decode(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

function turnTheme() {
  const root = document.documentElement;
  root.dataset.theme = root.dataset.theme === "dark" ? "light" : "dark";
  localStorage.setItem("headrace-theme", root.dataset.theme);
  nameTheme();
  dispatchEvent(new Event("headrace-theme"));
}

function nameTheme() {
  const button = document.querySelector("#theme");
  const dark = document.documentElement.dataset.theme === "dark";
  button.replaceChildren(icon(dark ? "sun" : "moon"));
  button.setAttribute("aria-label", dark ? "Light colours" : "Dark colours");
  button.title = `${dark ? "Light" : "Dark"} colours (d)`;
}

async function logOut() {
  await ask("session", { method: "DELETE" }).catch((error) => toast(error.message, "bad"));
  await start();
}

function showKeys() {
  const keys = [["/", "search on this page"], ["g then a letter", PAGES.map(([, title, key]) => `${key} ${title}`).join(", ")], ["d", "light or dark"], ["?", "these keys"], ["Esc", "close"]];
  dialog("Keys", () => h("dl", { class: "keys" }, keys.map(([key, text]) => [h("dt", {}, h("kbd", {}, key)), h("dd", {}, text)])));
}

let waiting = false;
addEventListener("keydown", (event) => {
  const typing = event.target.closest("input, textarea, select, dialog");
  if (typing || event.ctrlKey || event.metaKey || event.altKey || !document.querySelector("#main")) return;
  if (waiting) {
    waiting = false;
    const page = PAGES.find(([, , key]) => key === event.key);
    if (page) context.go(`/${page[0]}`);
  } else if (event.key === "g") waiting = true;
  else if (event.key === "d") turnTheme();
  else if (event.key === "?") showKeys();
  else if (event.key === "/") {
    const input = document.querySelector("#main input[type=search]");
    if (input) {
      event.preventDefault();
      input.focus();
    }
  }
});
document.querySelector(".skip").addEventListener("click", (event) => {
  event.preventDefault();
  document.querySelector("#main")?.focus();
});
addEventListener("hashchange", show);
addEventListener("headrace-login", showLogin);
start();
