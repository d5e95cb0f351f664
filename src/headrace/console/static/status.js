// What a lag status means, and its colour.

import { h } from "./dom.js";

export const RANK = { OK: 0, WARN: 1, REWIND: 2, STALL: 3, STOP: 4, ERR: 5 };

const MEANING = {
  OK: "keeps up, or catches up",
  WARN: "reads, and falls behind",
  REWIND: "its offset went back",
  STALL: "commits, and does not move",
  STOP: "commits no more",
  ERR: "a partition has stopped, stalled or gone back",
};
const KIND = { OK: "good", WARN: "warn" };

export const badge = (status) => h("span", { class: `badge ${KIND[status] ?? "bad"}`, title: MEANING[status] ?? "" }, status);
