// The timeline of events, with filters in the address, and a mark where one last looked.

import { get, type Entry, type Events } from "./api";
import { clock, h } from "./dom";
import { LastLook, line } from "./timeline";
import { asked, keep, type Page } from "./page";

const KINDS: [string, string][] = [["", "all kinds"], ["events", "clusters"], ["emerged", "  emerged"], ["split", "  split"], ["absorbed", "  absorbed"],
  ["vanished", "  vanished"], ["described", "  described"], ["stream_ended", "  stream ended"], ["drift", "drift"], ["alerts", "alerts"]];
const SEVERITIES: [string, string][] = [["", "any severity"], ["warning,critical", "warning or critical"], ["critical", "critical"]];
const SHOWN = 1000;

export class EventsPage implements Page {
  readonly title = "Events";
  readonly every = 0;
  readonly element = h("div");
  private readonly list = h("ul", { class: "timeline" });
  private readonly more = h("button", { type: "button", onclick: () => void this.older() }, "Older ones");
  private readonly mark = h("p", { class: "quiet small", role: "status" });
  private query = { kind: asked("kind"), severity: asked("severity"), stream: asked("stream"), search: asked("search") };
  private oldest: { before?: number; before_time?: string } = {};
  private last = 0;
  private latest = 0;
  private newest = "";
  private readonly look: LastLook;

  constructor(deployment: string) {
    this.look = new LastLook(deployment);
    this.element.append(h("h1", {}, "Events"),
      h("div", { class: "bar", role: "search" }, this.choice("kind", "Kind", KINDS), this.choice("severity", "Severity", SEVERITIES),
        this.field("stream", "Stream"), this.field("search", "Search the text")),
      this.mark, this.list, this.more);
    const kept = () => this.look.keep(this.newest);
    addEventListener("pagehide", kept);
  }

  close(): void {
    this.look.keep(this.newest);
  }

  async refresh(): Promise<void> {
    const latest = ++this.latest;
    const found = await get<Events>("events", { ...this.query, most: 100 });
    // Of two answers the one to the later request counts.
    if (latest !== this.latest) return;
    this.list.replaceChildren();
    this.oldest = {};
    this.last = found.newest;
    this.append(found.entries);
    const since = this.look.time;
    const fresh = since ? found.entries.filter((entry) => entry.time > since).length : 0;
    this.mark.textContent = since ? `${fresh === 100 ? "100 or more" : fresh} since you last looked, ${clock(since)} UTC` : "";
  }

  entry(entry: Entry): void {
    if (entry.number <= this.last) return;
    this.last = entry.number;
    const { kind, severity, stream, search } = this.query;
    if (kind && kind !== entry.kind && kind !== entry.what) return;
    if (severity && !severity.split(",").includes(entry.severity)) return;
    if (stream && stream !== entry.stream) return;
    if (search && !entry.text.toLowerCase().includes(search.toLowerCase())) return;
    this.list.querySelector(".quiet")?.remove();
    const earlier = [...this.list.children].find((each) => ((each as HTMLElement).dataset["time"] ?? "") <= entry.time);
    this.list.insertBefore(this.item(entry), earlier ?? null);
    while (this.list.childElementCount > SHOWN) this.list.lastElementChild?.remove();
  }

  private async older(): Promise<void> {
    const latest = this.latest;
    const found = await get<Events>("events", { ...this.query, most: 100, ...this.oldest });
    if (latest === this.latest) this.append(found.entries);
  }

  private append(entries: Entry[]): void {
    this.list.append(...entries.map((entry) => this.item(entry)));
    const last = entries.at(-1);
    if (last) this.oldest = { before: last.number, before_time: last.time };
    this.more.hidden = entries.length < 100;
    if (!this.list.childElementCount) this.list.append(h("li", { class: "quiet" }, "Nothing fits among what this page has read; it begins with the last events of each partition."));
  }

  private item(entry: Entry): HTMLElement {
    if (entry.time > this.newest) this.newest = entry.time;
    const element = line(entry);
    if (this.look.time && entry.time > this.look.time) element.classList.add("fresh");
    return element;
  }

  private set(name: "kind" | "severity" | "stream" | "search", value: string): void {
    this.query[name] = value;
    keep({ [name]: value });
    void this.refresh();
  }

  private choice(name: "kind" | "severity", text: string, options: [string, string][]): HTMLElement {
    const element = h("select", { "aria-label": text, onchange: () => this.set(name, element.value) },
      ...options.map(([value, shown]) => h("option", { value, selected: value === this.query[name] }, shown)));
    return element;
  }

  private field(name: "stream" | "search", text: string): HTMLElement {
    const element = h("input", { type: "search", placeholder: text, "aria-label": text, value: this.query[name], onchange: () => this.set(name, element.value.trim()) });
    return element;
  }
}
