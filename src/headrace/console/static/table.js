// A table whose rows are updated every few seconds: rows keep their elements and cells change in
// place, so that focus, selection and scroll position stay.

import { h, put } from "./dom.js";

const FIRST_ROWS = 100;
const names = new Intl.Collator("en", { numeric: true });

/**
 * columns: {title, cell(row) -> text or Node, sort(row)?, num?, sign(row)?}; a Node cell is
 * built again when its `sign` changes.
 */
export class Table {
  constructor(columns, { key, label, empty = "Nothing here yet.", sort = 0, descending = false }) {
    this.columns = columns;
    this.key = key;
    this.sorted = sort;
    this.descending = descending;
    this.rows = [];
    this.known = new Map();
    this.shown = FIRST_ROWS;
    this.empty = empty;
    this.heads = columns.map((column, index) => this.#head(column, index));
    this.body = h("tbody");
    this.more = h("button", { type: "button", class: "more", hidden: true, onclick: () => this.#showAll() });
    this.note = h("p", { class: "empty", hidden: true });
    this.element = h("div", { class: "table", tabindex: "0", role: "region", "aria-label": label },
      h("table", {}, h("thead", {}, h("tr", {}, this.heads)), this.body), this.note, this.more);
  }

  #head(column, index) {
    const cell = h("th", { scope: "col", class: column.num ? "num" : "" });
    if (column.sort) {
      cell.append(h("button", { type: "button", onclick: () => this.#sortBy(index) }, column.title));
    } else if (column.title) {
      cell.append(column.title);
    } else {
      cell.append(h("span", { class: "hidden" }, "Actions"));
    }
    return cell;
  }

  #sortBy(index) {
    this.descending = this.sorted === index ? !this.descending : Boolean(this.columns[index].num);
    this.sorted = index;
    this.update(this.rows);
  }

  #showAll() {
    this.shown = Infinity;
    this.update(this.rows);
  }

  update(rows, empty = this.empty) {
    this.rows = rows;
    const by = this.columns[this.sorted]?.sort;
    const ordered = by ? [...rows].sort((one, two) => compare(by(one), by(two), this.descending)) : rows;
    const visible = ordered.slice(0, this.shown);
    const present = new Set(visible.map(this.key));
    for (const [key, line] of this.known) {
      if (!present.has(key)) {
        line.remove();
        this.known.delete(key);
      }
    }
    let before = null;
    for (const row of visible) {
      const line = this.#line(row);
      const next = before ? before.nextSibling : this.body.firstChild;
      if (line !== next) this.body.insertBefore(line, next);
      before = line;
    }
    this.more.hidden = ordered.length <= visible.length;
    this.more.textContent = `Show all ${ordered.length}`;
    this.note.hidden = rows.length > 0;
    this.note.textContent = empty;
    this.heads.forEach((head, index) => {
      if (!this.columns[index].sort) return;
      const direction = this.descending ? "descending" : "ascending";
      head.setAttribute("aria-sort", index === this.sorted ? direction : "none");
    });
  }

  #line(row) {
    const key = this.key(row);
    let line = this.known.get(key);
    if (!line) {
      line = h("tr", {}, this.columns.map((column) => h("td", { class: column.num ? "num" : "" })));
      this.known.set(key, line);
    }
    this.columns.forEach((column, index) => {
      const cell = line.children[index];
      if (column.sign) {
        const sign = String(column.sign(row));
        if (cell.dataset.sign === sign) return;
        cell.dataset.sign = sign;
      }
      put(cell, column.cell(row));
    });
    return line;
  }
}

function compare(one, two, descending) {
  const order = typeof one === "string" ? names.compare(one, two) : (one ?? -1) - (two ?? -1);
  return descending ? -order : order;
}

/** Return a small table that does not change. */
export function plainTable(label, titles, rows, numeric = []) {
  const kind = (index) => (numeric.includes(index) ? "num" : "");
  return h("div", { class: "table", tabindex: "0", role: "region", "aria-label": label },
    h("table", {},
      h("thead", {}, h("tr", {}, titles.map((title, index) => h("th", { scope: "col", class: kind(index) }, title)))),
      h("tbody", {}, rows.map((row) => h("tr", {}, row.map((cell, index) => h("td", { class: kind(index) }, cell)))))));
}
