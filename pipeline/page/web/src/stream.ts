// A stream: the lives of its clusters, their shares, and a table of them.

import { get, type ClusterRow, type Feature, type StreamPage as Found } from "./api";
import { ShareChart } from "./charts";
import { ago, chip, clock, counted, h, number, percent, spark } from "./dom";
import { happened, line } from "./timeline";
import { lifeLines } from "./lifelines";
import { asked, keep, type Page } from "./page";

const SPANS: [string, number][] = [["all", 0], ["24 h", 86_400_000], ["1 h", 3_600_000], ["10 min", 600_000]];

const INCIDENTS = 5;

export class StreamPage implements Page {
  readonly title: string;
  readonly every = 2;
  readonly element = h("div");
  private readonly head = h("div", { class: "facts" });
  private readonly alerts = h("details", { hidden: true });
  private readonly lives = h("div", { class: "picture" });
  private readonly chart = new ShareChart();
  private readonly table = h("div", { class: "wideable" });
  private readonly events = h("ul", { class: "timeline" });
  private found: Found | undefined;
  private span = asked("span");
  private at = asked("at");
  private range: [number, number] | null = null;
  private readonly slider = h("input", { type: "range", "aria-label": "Time at which the stream is shown", oninput: () => this.describe(this.slider.value),
    onchange: () => this.go(Number(this.slider.value) >= Number(this.slider.max) ? "" : this.slider.value) });
  private readonly moment = h("output", { class: "small" });
  private readonly back = h("button", { type: "button", onclick: () => this.go("") }, "Now");
  private readonly time = h("div", { class: "bar time" }, h("span", { class: "quiet" }, "as of"), this.slider, this.moment, this.back);

  constructor(private readonly name: string) {
    this.title = name;
    const choice = h("select", { "aria-label": "Time shown", onchange: () => {
      this.span = choice.value === "all" ? "" : choice.value;
      keep({ span: this.span });
      this.draw();
    } }, ...SPANS.map(([text]) => h("option", { value: text, selected: text === this.span }, text)));
    this.element.append(h("h1", {}, name), this.time, this.head, this.alerts,
      h("section", {}, h("div", { class: "bar" }, h("h2", {}, "Lives of the clusters"), choice), this.lives,
        h("p", { class: "quiet small" }, "Thickness: share of the records. Ring: it emerged. Dot: it ended. Curves: splits and absorptions. Triangles: drift. Times are the records' own, UTC.")),
      h("section", {}, h("h2", {}, "Share of the records"), this.chart.element, this.chart.note),
      h("section", {}, h("h2", {}, "Clusters"), this.table),
      h("section", {}, h("h2", {}, "Events"), this.events));
    new ResizeObserver(() => this.draw()).observe(this.lives);
  }

  async refresh(): Promise<void> {
    // The past does not change.
    if (this.at && this.found?.at === Number(this.at)) return;
    const at = this.at;
    const live = at && this.range ? null : await get<Found>("stream", { name: this.name }).catch((error) => { if (at) return null; throw error; });
    this.range = live?.range ?? this.range;
    const found = at ? await get<Found>("stream", { name: this.name, at }) : live;
    // Of two answers the one to the later request counts.
    if (!found || at !== this.at) return;
    this.found = found;
    this.slide(found);
    this.head.replaceChildren(fact("records/s", number(found.rate)), fact("clusters", number(found.clusters)), fact("novel", percent(found.novelty)),
      fact("version", String(found.version)), fact("last record", ago(found.last)));
    if (found.incidents.length) this.head.append(h("h2", { class: "across" }, "What happened"), h("ul", { class: "timeline across" }, ...found.incidents.slice(0, INCIDENTS).map(happened)));
    if (found.drift) this.head.append(h("p", { class: "notice warning" }, `▲ The data are changing: ${found.drift}`));
    this.alerts.hidden = !found.open.length;
    this.alerts.replaceChildren(h("summary", {}, counted(found.open.length, "open alert")),
      ...found.open.map((alert) => h("p", { class: `notice ${alert.severity}` }, `! ${alert.text}${alert.setting ? ` (look at ${alert.setting})` : ""}`)));
    this.draw();
    this.chart.show(found.history);
    const omitted = found.left_out ? ` ${number(found.left_out)} smaller clusters are left out.` : "";
    const more = found.table.length ? [h("p", { class: "quiet small" }, `Share: of the last records.${omitted}`)] : [];
    this.table.replaceChildren(clusterTable(found), ...more);
    this.events.replaceChildren(...found.events.map(line));
    if (!found.events.length) this.events.append(h("li", { class: "quiet" }, "No event among the last that this page has read."));
  }

  private go(at: string): void {
    this.at = at;
    keep({ at });
    void this.refresh().catch((error: Error) => { this.moment.textContent = error.message; });
  }

  private slide(found: Found): void {
    const range = this.range ?? found.range;
    this.time.hidden = !range;
    if (!range || document.activeElement === this.slider && this.slider.matches(":active")) return;
    [this.slider.min, this.slider.max] = [String(range[0]), String(Math.max(range[1], range[0] + 1))];
    this.slider.value = this.at || this.slider.max;
    this.describe(this.at);
  }

  private describe(at: string): void {
    this.moment.textContent = at ? `${clock(Number(at))} UTC` : "now";
    this.back.hidden = !this.at;
  }

  private draw(): void {
    if (!this.found) return;
    const span = SPANS.find(([text]) => text === this.span)?.[1] ?? 0;
    const { lines, drifts, history, names } = this.found;
    this.lives.replaceChildren(lifeLines(lines, drifts, history, names, span, Math.max(this.lives.clientWidth, 280)));
  }
}

export function fact(name: string, value: string | Node): HTMLElement {
  return h("p", { class: "fact" }, h("span", { class: "quiet" }, name), " ", h("strong", {}, value));
}

export function against(feature: Feature): string {
  const rest = feature.rest === null ? "" : ` (others ${number(feature.rest)})`;
  return `${feature.feature} ${number(feature.centre)}${rest}`;
}

function clusterTable(found: Found): HTMLElement {
  const heads: [string, string][] = [["cluster", ""], ["what sets it apart", ""], ["records at last event", "right"], ["share", "right"], ["over time", "wide"], ["since", "wide"], ["last event", "wide"]];
  const rows = found.table.map((row) => h("tr", {},
    h("th", { scope: "row" }, chip(row.id, found.names[row.id])),
    h("td", {}, ...salient(row)),
    h("td", { class: "right" }, number(row.size)),
    h("td", { class: "right" }, percent(row.share)),
    h("td", { class: "wide" }, spark(found.history.series[row.id] ?? [], found.history.total, `share of ${row.id} over time`)),
    h("td", { class: "wide" }, ago(row.since)),
    h("td", { class: "wide" }, ago(row.seen))));
  if (!rows.length) return h("p", { class: "quiet" }, "No cluster yet: the model warms up, or no group is dense enough.");
  return h("table", {}, h("thead", {}, h("tr", {}, ...heads.map(([name, kind]) => h("th", { class: kind, scope: "col" }, name)))), h("tbody", {}, ...rows));
}

function salient(row: ClusterRow): (HTMLElement | string)[] {
  if (!row.salient.length) return [row.name];
  return row.salient.map((feature) => h("span", { class: "salient" }, against(feature)));
}
