// An incident: what changed, of which streams, and the alerts and drifts behind it.

import { get, type Incident } from "./api";
import { clock, counted, h, link, number, streamPage } from "./dom";
import { fact } from "./stream";
import { line } from "./timeline";
import type { Page } from "./page";

const STREAMS = 50;

export class IncidentPage implements Page {
  readonly title = "Incident";
  readonly every = 2;
  readonly element = h("div");
  private shown = "";

  constructor(private readonly key: string) {}

  async refresh(): Promise<void> {
    const found = await get<Incident>("incident", { key: this.key });
    // What is read and followed stays where it is until something changes.
    if (JSON.stringify(found) === this.shown) return;
    this.shown = JSON.stringify(found);
    const streams = found.streams.filter((stream) => stream !== null);
    const named = streams.slice(0, STREAMS).flatMap((stream) => [link(streamPage(stream), stream), " "]);
    const left = streams.length > STREAMS ? `and ${number(streams.length - STREAMS)} more` : "";
    const missing = found.signs - found.entries.length;
    this.element.replaceChildren(h("h1", {}, found.text),
      h("div", { class: "facts" }, fact("state", found.is_open ? "open" : found.is_learned ? "learned" : "over"), fact("severity", h("span", { class: found.severity }, found.severity)),
        fact("certainty", found.certainty), fact("since", `${clock(found.since)} UTC`)),
      h("section", {}, h("h2", {}, `${number(streams.length)} of ${counted(found.known, "stream")}`), h("p", {}, ...named, left)),
      found.features.length ? h("section", {}, h("h2", {}, "What changed"), features(found)) : "",
      h("section", {}, h("h2", {}, "Alerts and drifts"), h("ul", { class: "timeline" }, ...found.entries.map(line)),
        missing > 0 ? h("p", { class: "quiet small" }, `${number(missing)} more are not shown.`) : ""));
  }
}

function features(found: Incident): HTMLElement {
  const head = ["feature", "now", "usually", "varies"].map((name, at) => h("th", { scope: "col", class: at ? "right" : null }, name));
  const rows = found.features.map((each) => h("tr", {}, h("th", { scope: "row" }, each.feature), h("td", { class: "right" }, number(each.value)),
    h("td", { class: "right" }, each.low === undefined ? number(each.usual) : `${number(each.low)} to ${number(each.high)}`), h("td", { class: "right" }, each.ratio === undefined ? "" : `× ${number(each.ratio)}`)));
  return h("div", { class: "wideable" }, h("table", {}, h("thead", {}, h("tr", {}, ...head)), h("tbody", {}, ...rows)));
}
