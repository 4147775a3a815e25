// Entries of the timeline: a line each, and what came since a person last looked.

import type { Entry, Happened } from "./api";
import { ago, clusterPage, h, incidentPage, link, streamPage } from "./dom";

const SIGNS: Record<string, string> = {
  emerged: "●", split: "◐", absorbed: "◑", vanished: "○", described: "≡", version_started: "◆", stream_ended: "◇", drift: "▲",
  settled: "△", recovered: "△", rescaled: "↔", regrouped: "↔",
};

export function line(entry: Entry): HTMLElement {
  const sign = entry.kind === "alerts" ? "!" : SIGNS[entry.what] ?? "·";
  // Of an alert it has the name of a rule, as the settings do.
  const what = h("span", { class: `badge ${entry.kind} ${entry.severity}` }, `${sign} ${entry.kind === "alerts" ? entry.what : entry.what.replaceAll("_", " ")}`);
  return h("li", { class: "entry", "data-number": entry.number, "data-time": entry.time }, ago(entry.time), what, h("span", { class: "text" }, ...linked(entry)),
    entry.stream ? h("span", { class: "stream wide" }, link(streamPage(entry.stream), entry.stream)) : null);
}

// An incident, in a line.
export function happened(incident: Happened): HTMLElement {
  const state = incident.is_open ? incident.severity : incident.is_learned ? "learned" : "over";
  return h("li", { class: "entry" }, ago(incident.since), h("span", { class: `badge ${state}` }, incident.is_open ? `! ${state}` : state),
    h("span", { class: "text" }, link(incidentPage(incident.key), incident.text)));
}

// The sentence, with its clusters as links.
function linked(entry: Entry): (Node | string)[] {
  const names = [entry.cluster, entry.other].filter((name) => name);
  let parts: (Node | string)[] = [entry.text];
  for (const name of new Set(names)) {
    parts = parts.flatMap((part): (Node | string)[] => {
      if (typeof part !== "string") return [part];
      const at = part.search(new RegExp(`${escaped(name)}(?![\\w./-])`));
      if (at < 0) return [part];
      return [part.slice(0, at), link(clusterPage(name), name), part.slice(at + name.length)];
    });
  }
  return parts;
}

function escaped(text: string): string {
  return text.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");
}

export class LastLook {
  private readonly key: string;
  readonly time: string;

  constructor(deployment: string) {
    this.key = `resonance.looked.${deployment}`;
    let found = "";
    try {
      found = localStorage.getItem(this.key) ?? "";
    } catch {
      // A browser may refuse to keep anything.
    }
    this.time = found;
  }

  keep(time: string): void {
    try {
      if (time > (localStorage.getItem(this.key) ?? "")) localStorage.setItem(this.key, time);
    } catch {
      // Then everything is new the next time.
    }
  }
}
