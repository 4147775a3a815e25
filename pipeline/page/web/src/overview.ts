// The overview: figures of the deployment, and a table of its streams that holds any number.

import { get, type Headline, type Overview, type StreamRow } from "./api";
import { RateChart } from "./charts";
import { ago, h, link, number, percent, streamPage } from "./dom";
import { happened } from "./timeline";
import { asked, keep, type Page } from "./page";

const HEIGHT = 36;
const INCIDENTS = 5;
const COLUMNS: [string, string, string, boolean][] = [
  ["stream", "stream", "", false], ["rate", "records/s", "", true], ["clusters", "clusters", "", true], ["novelty", "novelty", "wide", true],
  ["drift", "drift", "", false], ["alerts", "alerts", "", true], ["last", "last record", "wide", false],
];

export class OverviewPage implements Page {
  readonly title = "Overview";
  readonly every = 1;
  readonly element = h("div");
  private readonly chart = new RateChart();
  private readonly incidents = h("ul", { class: "timeline" });
  private readonly more = h("button", { type: "button", hidden: true, onclick: () => { this.whole = true; void this.refresh(); } });
  private whole = false;
  private told = "";
  private readonly tiles = h("dl", { class: "tiles" });
  private readonly body = h("div", { class: "rows", role: "rowgroup" });
  private readonly scroller = h("div", { class: "scroller", tabindex: 0, role: "table", "aria-label": "streams" });
  private readonly count = h("p", { class: "quiet small", role: "status" });
  private readonly head = h("div", { class: "row head", role: "row" });
  private order = asked("order") || "rate";
  private ascending = asked("ascending") === "1";
  private search = asked("search");
  private latest = 0;

  constructor() {
    const field = h("input", { type: "search", placeholder: "Search streams and names", "aria-label": "Search streams and names of clusters", value: this.search,
      oninput: () => {
        this.search = field.value;
        keep({ search: this.search });
        this.scroller.scrollTop = 0;
        void this.refresh();
      } });
    this.scroller.addEventListener("scroll", () => void this.refresh());
    this.scroller.append(h("div", { role: "rowgroup" }, this.head), this.body);
    this.heads();
    this.element.append(h("h1", { class: "hidden" }, "Overview"),
      h("section", { class: "first" }, h("h2", {}, "What happened"), this.incidents, this.more), this.tiles, this.chart.element, h("div", { class: "bar" }, field, this.count), this.scroller);
  }

  async refresh(): Promise<void> {
    const asking = ++this.latest;
    const start = Math.max(Math.floor(this.scroller.scrollTop / HEIGHT) - 10, 0);
    const most = Math.ceil(this.scroller.clientHeight / HEIGHT) + 20;
    const found = await get<Overview>("overview", { search: this.search, order: this.order, ascending: this.ascending ? 1 : "", start, most });
    // Of two answers the one to the later request counts.
    if (asking !== this.latest) return;
    this.headline(found);
    this.tell(found);
    this.chart.show(found.rates);
    const left = found.left_out ? `, ${number(found.left_out)} more are not shown` : "";
    this.count.textContent = this.search ? `${number(found.found)} of ${number(found.streams)} streams` : `${number(found.found)} streams${left}`;
    this.scroller.setAttribute("aria-rowcount", String(found.found));
    this.body.style.height = `${Math.max(found.found, 1) * HEIGHT}px`;
    const focused = (document.activeElement as HTMLAnchorElement | null)?.closest<HTMLElement>(".row")?.dataset["stream"];
    this.body.replaceChildren(...found.rows.map((row, at) => this.row(row, found.start + at)));
    if (focused !== undefined) [...this.body.children].find((row) => (row as HTMLElement).dataset["stream"] === focused)?.querySelector("a")?.focus({ preventScroll: true });
    if (!found.rows.length) this.body.append(h("p", { class: "quiet" }, this.search ? "No stream, and no name of a cluster, has this in it." : "No stream yet: a worker answers records first."));
  }

  private headline(found: Headline): void {
    const tile = (name: string, value: string, href = "", warn = false) =>
      h("div", { class: warn ? "tile warn" : "tile" }, h("dt", {}, name), h("dd", {}, href ? link(href, value) : value));
    this.tiles.replaceChildren(
      tile("records/s", number(found.rate)), tile("waiting", number(found.waiting), "/operations"), tile("streams", number(found.streams)), tile("clusters", number(found.clusters)),
      tile("novel", percent(found.novelty)), tile("open drifts", number(found.drifts), "/events?kind=drift", found.drifts > 0),
      tile("open alerts", number(found.alerts), "/events?kind=alerts", found.alerts > 0),
      tile("dead letters", number(found.dead_letters), "/operations", found.dead_letters > 0),
    );
  }

  // Lines stay in place until something changes, so that one can be followed with the keyboard.
  private tell(found: Overview): void {
    const told = JSON.stringify([found.incidents, this.whole]);
    if (told === this.told) return;
    this.told = told;
    const shown = this.whole ? found.incidents : found.incidents.slice(0, INCIDENTS);
    this.incidents.replaceChildren(...shown.map(happened));
    if (!shown.length) this.incidents.append(h("li", { class: "quiet" }, "Nothing that needs a look."));
    const left = found.incidents.length - shown.length + found.incidents_left_out;
    this.more.hidden = this.whole || !left;
    this.more.textContent = `${number(left)} more`;
  }

  private heads(): void {
    this.head.replaceChildren(...COLUMNS.map(([order, name, kind, right]) => {
      const sorted = order !== this.order ? "none" : this.ascending ? "ascending" : "descending";
      const sign = sorted === "none" ? "" : this.ascending ? " ▲" : " ▼";
      return h("span", { class: `cell ${kind} ${right ? "right" : ""}`, role: "columnheader", "aria-sort": sorted },
        h("button", { type: "button", onclick: () => this.sort(order) }, `${name}${sign}`));
    }));
  }

  private sort(order: string): void {
    this.ascending = order === this.order ? !this.ascending : order === "stream";
    this.order = order;
    keep({ order, ascending: this.ascending ? "1" : "" });
    this.heads();
    void this.refresh();
  }

  private row(row: StreamRow, at: number): HTMLElement {
    const cells: (Node | string)[] = [h("span", {}, link(streamPage(row.stream), row.stream, row.stream), row.called?.length ? h("span", { class: "called" }, ` ${row.called.join(", ")}`) : ""), number(row.rate), number(row.clusters), percent(row.novelty),
      row.drift ? h("span", { class: "warning", title: row.drift }, "▲ ", h("span", { class: "word" }, "changing")) : "", row.alerts ? h("span", { class: "critical" }, String(row.alerts)) : "", ago(row.last)];
    const element = h("div", { class: "row", role: "row", "aria-rowindex": at + 1, "data-stream": row.stream },
      ...COLUMNS.map(([, , kind, right], place) => h("span", { class: `cell ${kind} ${right ? "right" : ""}`, role: "cell" }, cells[place] ?? "")));
    element.style.top = `${at * HEIGHT}px`;
    return element;
  }
}
