// How the deployment does: its group, its workers, and its dead letters.

import { get, type DeadLetters, type Operations, type Partition } from "./api";
import { ago, clock, counted, h, length, number } from "./dom";
import type { Page } from "./page";

export class OperationsPage implements Page {
  readonly title = "Operations";
  readonly every = 5;
  readonly element = h("div", {}, h("h1", {}, "Operations"), h("p", { class: "quiet" }, "Waiting for the broker and the workers …"));

  async refresh(): Promise<void> {
    const found = await get<Operations>("operations");
    this.element.replaceChildren(h("h1", {}, "Operations"),
      h("section", {}, h("h2", {}, "Workers"), ...found.workers.map(worker)),
      h("section", {}, h("h2", {}, `Group ${found.group.name}${found.group.state ? `: ${found.group.state}` : ""}`), ...group(found.group)),
      h("section", {}, h("h2", {}, "Dead letters"), letters(found.dead_letters)));
  }
}

function worker(found: Operations["workers"][number]): HTMLElement {
  if (found.ready === undefined) return h("p", { class: "notice warning" }, found.problem ?? "");
  const state = found.ready ? h("strong", { class: "good" }, "ready") : h("strong", { class: "critical" }, "not ready");
  return h("div", {}, h("p", {}, `${found.address}: `, state, `, ${found.state ?? ""}`),
    ...(found.problems ?? []).map((text) => h("p", { class: "notice critical" }, text)),
    found.problem ? h("p", { class: "notice warning" }, found.problem) : "",
    found.partitions?.length ? table(["partition", "records", "lag", "state", "streams", "clusters", "snapshot", "snapshot size", "to learn again", "last record"],
      found.partitions.map(cells), [0, 3]) : "");
}

function cells(partition: Partition): (string | Node)[] {
  const of = (name: string) => { const value = partition[name]; return typeof value === "number" ? value : null; };
  const state = of("paused") ? h("strong", { class: "critical" }, "paused") : "flows";
  const old = (name: string) => { const value = of(name); return value === null ? "–" : `${length(value)} ago`; };
  const bytes = of("snapshot_bytes");
  return [partition.partition, number(of("records")), number(of("lag")), state, number(of("streams")), number(of("clusters")),
    old("snapshot_age"), bytes === null ? "–" : `${number(bytes / 1e6)} MB`, number(of("replay_lag")), old("record_age")];
}

function group(found: Operations["group"]): (Node | string)[] {
  const parts: (Node | string)[] = found.problem ? [h("p", { class: "notice warning" }, found.problem)] : [];
  if (found.members.length) {
    parts.push(table(["member", "host", "partitions"], found.members.map((member) => [member.id, member.host,
      member.partitions.length > 12 ? `${member.partitions.length} partitions` : member.partitions.join(", ") || "none"]), [0, 1, 2]));
  } else if (!found.problem) parts.push(h("p", { class: "notice warning" }, "No worker is a member of the group: start one with `resonance worker`."));
  if (found.partitions.length) {
    const lag = found.partitions.reduce((sum, each) => sum + each.lag, 0);
    parts.push(h("p", {}, `Waiting: ${counted(lag, "record")} in ${counted(found.partitions.length, "partition")}.`),
      table(["partition", "committed", "lag"], [...found.partitions].sort((a, b) => b.lag - a.lag).slice(0, 100).map((each) => [each.partition, number(each.committed), number(each.lag)]), [0]));
  }
  return parts;
}

function letters(found: DeadLetters[]): HTMLElement {
  if (!found.length) return h("p", { class: "quiet" }, "None among the last that this page has read.");
  const list = table(["partition", "stage", "reason", "about", "last", "the last one"], found.map((each) => [each.where, each.stage, each.class, number(each.count),
    ago(new Date(each.time).toISOString()), h("span", { class: "sentence", title: clock(each.time) }, `${each.example}: ${each.message}`)]), [0, 1, 2, 5], "reasons");
  return h("div", {}, list, h("p", { class: "quiet small" }, "resonance dlq list shows them, resonance dlq replay sends them again, resonance dlq resume resumes a paused partition."));
}

// Its parts have their roles also where the style makes them no table.
function table(heads: string[], rows: (string | Node)[][], left: number[], kind = ""): HTMLElement {
  const side = (at: number) => (left.includes(at) ? "" : "right");
  return h("div", { class: "wideable" }, h("table", { class: kind, role: "table" },
    h("thead", { role: "rowgroup" }, h("tr", { role: "row" }, ...heads.map((name, at) => h("th", { scope: "col", role: "columnheader", class: side(at) }, name)))),
    h("tbody", { role: "rowgroup" }, ...rows.map((row) => h("tr", { role: "row" }, ...row.map((value, at) => h("td", { role: "cell", class: side(at) }, value)))))));
}
