// One consumer group.

import { ask, poll } from "../api.js";
import { Chart } from "../chart.js";
import { dialog, field, h, options, put, toast } from "../dom.js";
import { count, plural } from "../format.js";
import { badge, RANK } from "../status.js";
import { plainTable, Table } from "../table.js";

export function render(root, [name], context) {
  const path = `group?name=${encodeURIComponent(name)}`;
  let last = null;
  const problem = h("p", { class: "problem", role: "alert", hidden: true });
  const facts = h("p", { class: "facts" });
  const chart = new Chart("Lag of each partition", [], { fill: false });
  const partitions = new Table([
    { title: "Topic", cell: (each) => h("a", { href: `#/topics/${encodeURIComponent(each.topic)}` }, each.topic), sign: (each) => each.topic, sort: (each) => each.topic },
    { title: "Partition", cell: (each) => each.partition, sort: (each) => each.partition, num: true },
    { title: "Committed", cell: (each) => count(each.committed), sort: (each) => each.committed, num: true },
    { title: "End", cell: (each) => (each.end < 0 ? "–" : count(each.end)), sort: (each) => each.end, num: true },
    { title: "Lag", cell: (each) => count(each.lag), sort: (each) => each.lag, num: true },
    { title: "Status", cell: (each) => badge(each.status), sign: (each) => each.status, sort: (each) => RANK[each.status] },
    { title: "Member", cell: (each) => each.member ?? "–", sort: (each) => each.member ?? "" },
  ], { key: (each) => `${each.topic} ${each.partition}`, label: "Partitions", empty: "The group has committed nothing yet." });
  const members = new Table([
    { title: "Client", cell: (each) => each.client || "–", sort: (each) => each.client },
    { title: "Host", cell: (each) => each.host, sort: (each) => each.host },
    { title: "Member", cell: (each) => h("code", {}, each.id), sign: (each) => each.id },
    { title: "Partitions", cell: (each) => each.partitions.join(", ") || "–" },
  ], { key: (each) => each.id, label: "Members", empty: "The group has no members at the moment." });

  const reset = context.may("editor") ? h("button", { type: "button", onclick: () => last && resetOffsets(name, last) }, "Reset offsets") : null;
  const remove = context.may("admin") ? h("button", { type: "button", class: "danger", onclick: () => confirmDelete(name, context, () => stop()) }, "Delete") : null;
  root.append(
    h("nav", { class: "crumbs", "aria-label": "Where you are" }, h("a", { href: "#/groups" }, "Groups"), " / "),
    h("div", { class: "head" }, h("h1", { class: "name" }, name), h("div", { class: "buttons" }, reset, remove)),
    problem, facts,
    h("section", { class: "card" }, h("h2", {}, "Lag over time"), chart.element),
    h("section", { class: "card" }, h("h2", {}, "Partitions"), partitions.element),
    h("section", { class: "card" }, h("h2", {}, "Members"), members.element));

  const stop = poll(path, (found) => {
    last = found;
    problem.hidden = true;
    const owners = new Map(found.members.flatMap((each) => each.partitions.map((one) => [one, each.client || each.id])));
    const rows = (found.partitions ?? []).map((each) => ({ ...each, member: owners.get(`${each.topic}-${each.partition}`) }));
    put(facts, h("span", {}, badge(found.status ?? "OK"), ` ${found.flow === null ? "" : `the progress of flow ${found.flow} · `}${found.state} · lag ${count(found.lag ?? 0)} · ${plural(found.members.length, "member")}${found.assignor ? ` · ${found.assignor}` : ""}`));
    partitions.update(rows);
    members.update(found.members);
    chart.setLines(found.history.lines.map((each) => each.partition));
    chart.update(found.history.times, found.history.lines.map((each) => each.lag));
  }, (error) => {
    problem.hidden = false;
    problem.textContent = error.message;
  });
  return () => {
    stop();
    chart.close();
  };
}

function resetOffsets(name, group) {
  dialog(`Reset offsets of ${name}`, (close) => {
    const topics = [...new Set((group.partitions ?? []).map((each) => each.topic))];
    const boxes = topics.map((topic) => h("input", { type: "checkbox", checked: true, value: topic }));
    const to = h("select", { onchange: () => choose() }, options([["start", "the beginning"], ["end", "the end"], ["time", "a time"], ["offset", "an offset"], ["shift", "forwards or back by"]], "start"));
    const number = h("input", { type: "number", value: "0", step: "1" });
    const time = h("input", { type: "datetime-local", step: "1" });
    const value = h("div", {});
    const result = h("div", { "aria-live": "polite" });
    const apply = h("button", { type: "button", class: "danger", disabled: true, onclick: () => send(false) }, "Reset");
    const choose = () => {
      apply.disabled = true;
      result.replaceChildren();
      put(value, to.value === "time" ? field("Time", time) : ["offset", "shift"].includes(to.value) ? field(to.value === "shift" ? "Records (negative goes back)" : "Offset", number) : "");
    };
    const send = async (preview) => {
      const moment = to.value === "time" ? new Date(time.value).getTime() : Number(number.value);
      if (Number.isNaN(moment)) return toast("Choose a time first.", "bad");
      const body = { to: to.value, value: Math.trunc(moment), topics: boxes.filter((each) => each.checked).map((each) => each.value), preview };
      try {
        const found = await ask(`group/offsets?name=${encodeURIComponent(name)}`, { method: "POST", body });
        const changed = found.partitions.filter((each) => each.before !== each.after).length;
        if (preview) {
          put(result, h("div", {}, h("p", {}, `${plural(changed, "partition")} of ${found.partitions.length} would move.`),
            plainTable("Preview", ["Topic", "Partition", "Now", "Then", "Moves by"], found.partitions.map((each) => [each.topic, each.partition, count(each.before), count(each.after), each.before === null ? "–" : signed(each.after - each.before)]), [1, 2, 3, 4])));
          apply.disabled = !changed;
          return undefined;
        }
        const failed = found.partitions.filter((each) => each.error);
        close();
        toast(failed.length ? failed[0].error : `The offsets of ${name} are set.`, failed.length ? "bad" : "good");
      } catch (error) {
        toast(error.message, "bad");
      }
      return undefined;
    };
    choose();
    const busy = group.members.length ? h("p", { class: "problem" }, "The group has members: stop them first, or the cluster will refuse.") : null;
    return h("form", { onsubmit: (event) => { event.preventDefault(); send(true); } }, busy,
      h("fieldset", {}, h("legend", {}, "Topics"), topics.map((topic, index) => h("label", { class: "check" }, boxes[index], topic))),
      field("Go to", to), value, result,
      h("footer", {}, h("button", { type: "button", onclick: close }, "Cancel"), h("button", { class: "primary" }, "Preview"), apply));
  }, { wide: true });
}

const signed = (number) => (number > 0 ? `+${count(number)}` : count(number));

function confirmDelete(name, context, leave) {
  dialog(`Delete group ${name}`, (close) => {
    const typed = h("input", { autocomplete: "off", oninput: () => { go.disabled = typed.value !== name; } });
    const go = h("button", { class: "danger", disabled: true }, "Delete for ever");
    const remove = async (event) => {
      event.preventDefault();
      leave(); // Stop polling a group that is about to be deleted.
      try {
        await ask(`group?name=${encodeURIComponent(name)}`, { method: "DELETE", body: { confirm: typed.value } });
        close();
        toast(`Group ${name} is gone.`);
        context.go("/groups");
      } catch (error) {
        close();
        toast(error.message, "bad");
        dispatchEvent(new Event("hashchange"));
      }
    };
    return h("form", { onsubmit: remove }, h("p", {}, "Its committed offsets go with it."), field("Type the group's name to confirm", typed),
      h("footer", {}, h("button", { type: "button", onclick: close }, "Cancel"), go));
  });
}
