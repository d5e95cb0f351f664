// The records of a topic: search, live tail, one record in full.

import { ask, query } from "../api.js";
import { field, h, options, put, toast } from "../dom.js";
import { bytes, count, moment, plural } from "../format.js";

const MOST_LINES = 500;
const ENDED = {
  scanned: "There may be more: a search reads a million records at most.",
  bytes: "There may be more: a search reads 256 MiB at most.",
  time: "There may be more: a search takes 8 seconds at most.",
};

export function messages(root, name) {
  const base = `topics/${encodeURIComponent(name)}`;
  let next = null;
  let stream = null;
  let searching = null;

  const from = h("select", { onchange: () => choose() }, options([["newest", "the newest"], ["start", "the beginning"], ["offset", "an offset"], ["time", "a time"]], "newest"));
  const offset = h("input", { type: "number", min: "0", value: "0" });
  const time = h("input", { type: "datetime-local", step: "1" });
  const place = h("div", { class: "place" });
  const partition = h("select", {}, options([["", "all"]], ""));
  const limit = h("select", {}, options([["20", "20"], ["50", "50"], ["200", "200"], ["500", "500"]], "50"));
  const text = h("input", { type: "search", placeholder: "Text in key, value or headers", "aria-label": "Text to look for" });
  const where = h("select", { "aria-label": "Where to look for the text" }, options([["key,value,headers", "everywhere"], ["key", "in keys"], ["value", "in values"], ["headers", "in headers"]], "key,value,headers"));
  const path = h("input", { placeholder: "user.name", autocomplete: "off", spellcheck: "false" });
  const equals = h("input", { placeholder: "anything", autocomplete: "off" });
  const live = h("button", { type: "button", "aria-pressed": "false", onclick: () => (stream ? stop() : watch()) }, "Live tail");
  const summary = h("p", { class: "summary", role: "status" });
  const list = h("ol", { class: "messages", "aria-label": "Messages" });
  const more = h("button", { type: "button", class: "more", hidden: true, onclick: () => search(next) }, "Read on");

  const choose = () => put(place, from.value === "offset" ? field("Offset", offset) : from.value === "time" ? field("Time", time) : "");
  const asked = () => ({
    from: from.value,
    offset: from.value === "offset" ? offset.value : "",
    time: from.value === "time" ? String(new Date(time.value || Date.now()).getTime()) : "",
    partition: partition.value,
    limit: limit.value,
    text: text.value,
    in: text.value ? where.value : "",
    path: path.value,
    equals: path.value ? equals.value : "",
  });

  const search = async (at = null) => {
    stop();
    searching?.abort();
    searching = new AbortController();
    const signal = searching.signal;
    summary.textContent = "Looking …";
    const values = at ? { ...asked(), from: "next", at } : asked();
    try {
      const found = await ask(`${base}/messages?${query(values)}`, { signal });
      if (!at) list.replaceChildren();
      list.append(...found.messages.map((each) => line(base, each)));
      const forwards = from.value !== "newest" && found.ended !== "end";
      next = Object.entries(found.next).map((pair) => pair.join(":")).join(",");
      more.hidden = !forwards;
      summary.textContent = `${plural(found.messages.length, "message")}, ${plural(found.scanned, "record")} (${bytes(found.scanned_bytes)}) looked at. ${ENDED[found.ended] ?? ""}`;
      if (!list.children.length) summary.textContent = `Nothing found in ${plural(found.scanned, "record")}. ${ENDED[found.ended] ?? ""}`;
    } catch (error) {
      if (error.name !== "AbortError") summary.textContent = error.message;
    }
  };

  const watch = () => {
    searching?.abort();
    list.replaceChildren();
    more.hidden = true;
    let seen = 0;
    let skipped = 0;
    const { partition: index, text: needle, in: places, path: steps, equals: wanted } = asked();
    stream = new EventSource(`/api/${base}/tail?${query({ partition: index, text: needle, in: places, path: steps, equals: wanted })}`);
    live.setAttribute("aria-pressed", "true");
    live.textContent = "Stop";
    summary.textContent = "Waiting for new records …";
    stream.onmessage = (event) => {
      const found = JSON.parse(event.data);
      seen += found.messages.length;
      skipped += found.skipped;
      for (const each of found.messages) list.prepend(line(base, each));
      while (list.children.length > MOST_LINES) list.lastChild.remove();
      summary.textContent = `Live: ${plural(seen, "record")}${skipped ? `, ${count(skipped)} more came too fast to show` : ""}.`;
    };
    stream.addEventListener("failed", (event) => {
      toast(JSON.parse(event.data).error, "bad");
      stop();
    });
    stream.onerror = () => {
      if (stream) summary.textContent = "The live tail was interrupted; trying again.";
    };
  };
  const stop = () => {
    stream?.close();
    stream = null;
    live.setAttribute("aria-pressed", "false");
    live.textContent = "Live tail";
  };
  const exported = () => {
    const link = h("a", { href: `/api/${base}/export?${query({ ...asked(), limit: "10000" })}`, download: `${name}.jsonl` });
    link.click();
  };

  choose();
  root.append(
    h("form", { class: "card search", onsubmit: (event) => { event.preventDefault(); search(); } },
      h("div", { class: "fields" }, field("From", from), place, field("Partition", partition), field("At most", limit)),
      h("div", { class: "fields wide" }, h("div", { class: "joined" }, text, where), h("details", {}, h("summary", {}, "JSON path"), h("div", { class: "fields" }, field("Path", path), field("Equals", equals)))),
      h("div", { class: "buttons" }, h("button", { class: "primary" }, "Search"), live, h("button", { type: "button", onclick: exported }, "Export"))),
    summary, list, more);
  search();

  return {
    update(found) {
      if (partition.children.length === found.partitions.length + 1) return;
      const chosen = partition.value;
      partition.replaceChildren(...options([["", "all"], ...found.partitions.map((each) => [String(each.partition), String(each.partition)])], chosen));
    },
    close() {
      stop();
      searching?.abort();
    },
  };
}

function line(base, message) {
  const open = h("div", { class: "open" });
  const box = h("details", { ontoggle: () => { if (box.open && !open.children.length) full(base, message, open); } },
    h("summary", {},
      h("time", {}, moment(message.timestamp_ms)),
      h("span", { class: "where" }, `${message.partition}:${message.offset}`),
      h("span", { class: "key" }, message.key.kind === "null" ? "∅" : message.key.text.slice(0, 80)),
      h("span", { class: "preview" }, preview(message.value))),
    open);
  return h("li", {}, box);
}

const preview = (value) => {
  if (value.kind === "null") return "∅ tombstone";
  if (value.kind === "hex") return `${bytes(value.size)} of bytes`;
  return value.text.slice(0, 400).replace(/\s+/g, " ");
};

/** Say which schema a key or value was decoded with, or why it was not. */
function schemaOf(part, payload) {
  const found = payload.schema;
  if (!found) return payload.note ? h("span", { class: "part" }, `${part}: schema id ${payload.schema_id ?? "in a header"} was not used, because ${payload.note}`) : null;
  const place = found.subject === null ? null : h("a", { href: `#/schemas/${encodeURIComponent(found.subject)}/versions/${found.version}` }, `${found.subject}, version ${found.version}`);
  return h("span", { class: "part" }, `${part}: `, h("span", { class: "badge" }, found.type), ` schema id ${found.id < 0 ? found.guid : found.id}`, place ? [", ", place] : null);
}

async function full(base, message, open) {
  const body = h("pre", { tabindex: "0", "aria-label": "Value" });
  const facts = h("p", { class: "facts" });
  const notes = h("p", { class: "problem", hidden: true });
  const schema = h("p", { class: "facts", hidden: true });
  const path = `${base}/messages/${message.partition}/${message.offset}`;
  const load = async (view) => {
    try {
      const found = await ask(`${path}?view=${view}`);
      notes.hidden = !found.value.cut;
      notes.textContent = "Too long to show: this is its beginning. Download has all of it.";
      body.textContent = found.value.kind === "null" ? "(null)" : found.value.text;
      facts.textContent = `${found.value.kind}, ${bytes(found.value.size)}${found.value.schema || found.value.schema_id === undefined ? "" : `, schema id ${found.value.schema_id}`} · key ${found.key.kind}, ${bytes(found.key.size)}`;
      const named = [["value", found.value], ["key", found.key]].map(([part, each]) => schemaOf(part, each)).filter(Boolean);
      schema.hidden = !named.length;
      schema.replaceChildren(...named);
      for (const button of buttons) button.setAttribute("aria-pressed", String(button.dataset.view === (view === "auto" ? found.value.kind : view)));
    } catch (error) {
      toast(error.message, "bad");
    }
  };
  const buttons = ["json", "text", "avro", "protobuf", "hex"].map((view) => h("button", { type: "button", class: "small", "data-view": view, "aria-pressed": "false", onclick: () => load(view) }, view.toUpperCase()));
  const copy = h("button", { type: "button", class: "small", onclick: async () => {
    await navigator.clipboard.writeText(body.textContent);
    toast("Copied.");
  } }, "Copy");
  open.append(...[
    h("div", { class: "bar" }, h("div", { class: "buttons", role: "group", "aria-label": "View" }, buttons), copy, h("a", { class: "button small", href: `/api/${path}/raw`, download: "" }, "Download")),
    facts, schema, notes,
    message.headers.length ? h("dl", { class: "headers" }, message.headers.map((each) => [h("dt", {}, each.name), h("dd", {}, each.kind === "null" ? "∅" : each.text)])) : null,
    message.key.kind === "null" ? null : h("dl", { class: "headers" }, h("dt", {}, "key"), h("dd", {}, message.key.text)),
    body,
  ].filter(Boolean));
  await load("auto");
}
