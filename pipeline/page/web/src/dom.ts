// Elements, numbers and times.

type Child = Node | string | number | null | undefined | false;
type Attributes = Record<string, string | number | boolean | EventListener | null | undefined>;

function filled<E extends Element>(element: E, attributes: Attributes, children: Child[]): E {
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") element.addEventListener(name.slice(2), value);
    else if (value === true) element.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined) element.setAttribute(name, String(value));
  }
  for (const child of children) {
    if (child !== null && child !== undefined && child !== false) element.append(child instanceof Node ? child : String(child));
  }
  return element;
}

export function h<K extends keyof HTMLElementTagNameMap>(tag: K, attributes: Attributes = {}, ...children: Child[]): HTMLElementTagNameMap[K] {
  return filled(document.createElement(tag), attributes, children);
}

export function s<K extends keyof SVGElementTagNameMap>(tag: K, attributes: Attributes = {}, ...children: Child[]): SVGElementTagNameMap[K] {
  return filled(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);
}

export function link(href: string, text: string, title = ""): HTMLAnchorElement {
  return h("a", { href, title: title || null }, text);
}

export const streamPage = (name: string) => `/stream?name=${encodeURIComponent(name)}`;
export const incidentPage = (key: string) => `/incident?key=${encodeURIComponent(key)}`;
export const clusterPage = (id: string) => `/cluster?id=${encodeURIComponent(id)}`;

export function number(value: number | null | undefined): string {
  if (value === null || value === undefined) return "–";
  if (value === 0) return "0";
  const size = Math.abs(value);
  if (size >= 999.5) return Math.round(value).toLocaleString("en");
  if (size < 0.001) return value.toExponential(1);
  return String(Number(value.toPrecision(3)));
}

export function counted(count: number, noun: string): string {
  return `${number(count)} ${noun}${count === 1 ? "" : "s"}`;
}

export function percent(value: number | null | undefined): string {
  if (value === null || value === undefined) return "–";
  const text = 100 * value;
  return `${text > 0 && text < 1 ? text.toFixed(1) : Math.round(text)} %`;
}

export function clock(moment: number | string): string {
  const date = new Date(moment);
  return Number.isNaN(date.getTime()) ? "" : date.toISOString().slice(0, 19).replace("T", " ");
}

const UNITS: [number, string][] = [[86_400, "d"], [3_600, "h"], [60, "min"], [1, "s"]];

export function length(seconds: number): string {
  for (const [unit, name] of UNITS) if (seconds >= 2 * unit || unit === 1) return `${Math.max(Math.round(seconds / unit), 0)} ${name}`;
  return "";
}

// A time as how long ago it is, exact in its title.
export function ago(text: string): HTMLElement {
  const date = Date.parse(text);
  if (Number.isNaN(date)) return h("span", {}, "–");
  const seconds = (Date.now() - date) / 1000;
  // Of records from long ago, or of a clock that is ahead, the time itself says more.
  const shown = seconds > 2 * 86_400 || seconds < -60 ? clock(date).slice(5) : `${length(seconds)} ago`;
  return h("time", { datetime: text, title: `${clock(date)} UTC` }, shown);
}

const PALETTE = ["#4c78a8", "#f58518", "#54a24b", "#b279a2", "#e45756", "#3aa6a0", "#c9a227", "#9d755d", "#7b7fd6", "#d6679a"];

// A cluster has one colour on all pages: its number in the stream decides.
export function colour(cluster: string): string {
  const digits = cluster.slice(cluster.lastIndexOf("/") + 1).split(".").pop() ?? "0";
  return PALETTE[Number.parseInt(digits, 10) % PALETTE.length] ?? "#777777";
}

export function chip(cluster: string, called = ""): HTMLElement {
  const svg = s("svg", { class: "chip", viewBox: "0 0 10 10", "aria-hidden": "true" }, s("circle", { cx: 5, cy: 5, r: 5, fill: colour(cluster) }));
  const name = h("span", { class: "cluster" });
  name.append(svg, link(clusterPage(cluster), cluster));
  if (called) name.append(" ", h("span", { class: "called" }, called));
  return name;
}

// A sparkline of counts beside the totals.
export function spark(counts: number[], totals: number[], label: string): SVGElement {
  const shares = totals.map((total, at) => (total ? (counts[at] ?? 0) / total : 0));
  const top = Math.max(...shares, 1e-9);
  const x = (at: number) => (100 * at) / Math.max(shares.length - 1, 1);
  const path = shares.map((share, at) => `${at ? "L" : "M"}${x(at).toFixed(1)} ${(23 - 21 * (share / top)).toFixed(1)}`).join("");
  return s("svg", { class: "spark", viewBox: "0 0 100 24", preserveAspectRatio: "none", role: "img", "aria-label": label },
    s("path", { d: path, fill: "none" }));
}
