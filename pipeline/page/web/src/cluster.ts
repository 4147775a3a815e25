// A cluster: what it is, where it comes from, what became of it, and what happened to it.

import { get, type ClusterPage as Found, type Feature } from "./api";
import { ago, chip, clock, h, link, number, percent, s, spark, streamPage } from "./dom";
import { line } from "./timeline";
import type { Page } from "./page";
import { fact } from "./stream";

const HOW: Record<string, string> = {
  absorbed: "absorbed", vanished: "vanished", version_started: "ended with its version", stream_ended: "ended with its stream",
};

export class ClusterPage implements Page {
  readonly title: string;
  readonly every = 3;
  readonly element = h("div");

  constructor(private readonly id: string) {
    this.title = id;
  }

  async refresh(): Promise<void> {
    const found = await get<Found>("cluster", { id: this.id });
    const state = found.present ? "present" : HOW[found.how ?? ""] ?? "gone";
    const facts = [fact("state", state), fact("records at its last event", number(found.size)), fact("share", percent(found.share)),
      fact("since", ago(found.since ?? "")), fact(found.present ? "last event" : "until", ago(found.seen ?? ""))];
    const series = found.history.series[this.id] ?? [];
    this.element.replaceChildren(
      h("p", { class: "small" }, link(streamPage(found.stream), `stream ${found.stream}`)),
      h("h1", {}, chip(this.id, found.names[this.id])), found.name ? h("p", { class: "lead" }, found.name) : "", h("div", { class: "facts" }, ...facts),
      h("section", {}, h("h2", {}, "Share over time"), series.some((count) => count)
        ? h("div", { class: "tall" }, spark(series, found.history.total, `share from ${clock(found.history.start)} on`))
        : h("p", { class: "quiet" }, "None of the records that this page has seen.")),
      found.profile.length ? h("section", {}, h("h2", {}, "Profile, beside the other clusters"),
        found.keywords?.length ? h("p", {}, `Keywords of its texts: ${found.keywords.join(", ")}`) : "", profile(found.profile),
        found.omitted ? h("p", { class: "quiet small" }, `${number(found.omitted)} features are left out of the messages.`) : "") : "",
      found.present && found.level === 1 ? h("section", {}, h("h2", {}, "Typical records"), ...examples(found)) : "",
      h("section", {}, h("h2", {}, "Lineage"), lineage(found)),
      h("section", {}, h("h2", {}, "Events"), found.events.length ? h("ul", { class: "timeline" }, ...found.events.map(line))
        : h("p", { class: "quiet" }, "No event among the last that this page has read.")));
  }
}

function profile(features: Feature[]): HTMLElement {
  const rows = features.map((feature) => h("tr", {}, h("th", { scope: "row" }, feature.feature),
    h("td", { class: "right" }, number(feature.centre)), h("td", { class: "right wide" }, `± ${number(feature.spread)}`),
    h("td", { class: "right" }, number(feature.rest)), h("td", { class: "gauge" }, gauge(feature))));
  return h("div", { class: "wideable" }, h("table", {}, h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "feature"), h("th", { scope: "col", class: "right" }, "mean"),
    h("th", { scope: "col", class: "right wide" }, "spread"), h("th", { scope: "col", class: "right" }, "others"), h("th", { scope: "col" }, "difference in spreads"))), h("tbody", {}, ...rows)));
}

// How far the mean is from that of the others, up to ten spreads.
function gauge(feature: Feature): Element {
  if (feature.rest === null) return h("span", {}, "–");
  const gap = feature.centre - feature.rest;
  const spreads = feature.spread > 0 ? gap / feature.spread : gap === 0 ? 0 : Math.sign(gap) * 10;
  const size = (50 * Math.min(Math.abs(spreads), 10)) / 10;
  return s("svg", { class: "bar", viewBox: "0 0 100 12", preserveAspectRatio: "none", role: "img", "aria-label": `${number(spreads)} spreads` },
    s("line", { x1: 50, x2: 50, y1: 0, y2: 12, class: "rule" }),
    s("rect", { x: gap < 0 ? 50 - size : 50, y: 2, width: Math.max(size, 0.5), height: 8, class: gap < 0 ? "below" : "above" }, s("title", {}, `${number(spreads)} spreads`)));
}

// The most typical records as of its last event, and what reads those of now.
function examples(found: Found): HTMLElement[] {
  const command = h("code", {}, found.command ?? "");
  if (!found.examples.length) return [h("p", { class: "quiet" }, "None was known at its last event: new clusters, and both sides of a split, begin without. ", command, " prints those of now.")];
  const rows = found.examples.map((each) => h("tr", {}, h("th", { scope: "row" }, each.where), h("td", {}, each.id === null ? "–" : String(each.id)), h("td", { class: "right" }, number(each.score))));
  return [h("div", { class: "wideable" }, h("table", {}, h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "place"), h("th", { scope: "col" }, "id"), h("th", { scope: "col", class: "right" }, "score"))), h("tbody", {}, ...rows))),
    h("p", { class: "small" }, "As of its last event. ", command, " prints those of now as they stand on the input topic; it needs the settings of the deployment.")];
}

function lineage(found: Found): HTMLElement {
  const { parent, children, absorbed, heir } = found.lineage;
  const item = (text: string, id: string, more = "") => h("li", {}, `${text} `, chip(id, found.names[id]), more ? ` ${more}` : "");
  const items = [
    ...(parent ? [item("split from", parent)] : []),
    ...children.map((child) => item("gave rise to", child)),
    ...absorbed.map((each) => item("absorbed", each.id, `with ${number(each.size)} records, ${clock(each.time)}`)),
    ...(heir ? [item("goes on as", heir)] : []),
  ];
  return items.length ? h("ul", { class: "plain" }, ...items) : h("p", { class: "quiet" }, "It came from no other cluster, as far as this page has read.");
}
