// Curves over time, by uPlot: the rate of records, and stacked shares.

import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import type { History } from "./api";
import { clock, colour, h, number, percent } from "./dom";

const REST = "#9aa5b1";
const DRAWN = 12;

function ink(name: string): string {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

// Times are in UTC, as everywhere on the page.
function timeAxis(): uPlot.Axis {
  const short = (ticks: number[]) => (ticks.at(-1) ?? 0) - (ticks[0] ?? 0) < 600;
  return { ...axis(), values: (_, ticks) => ticks.map((tick) => clock(tick * 1000).slice(11, short(ticks) ? 19 : 16)), space: 80, size: 30 };
}

function axis(): uPlot.Axis {
  return { stroke: ink("--faint"), grid: { stroke: ink("--rule"), width: 1 }, ticks: { show: false }, font: "12px system-ui" };
}

function plot(place: HTMLElement, options: Omit<uPlot.Options, "width" | "height">, data: uPlot.AlignedData, height: number): uPlot {
  // Room for half of the last label of the time.
  const chart = new uPlot({ ...options, padding: [null, 32, null, null], width: Math.max(place.clientWidth, 200), height, legend: { show: false } }, data, place);
  new ResizeObserver(() => chart.setSize({ width: Math.max(place.clientWidth, 200), height })).observe(place);
  return chart;
}

export class RateChart {
  readonly element = h("div", { class: "chart", role: "img", "aria-label": "records a second, the last minutes" });
  private chart: uPlot | undefined;

  show(rates: [number, number][]): void {
    const data: uPlot.AlignedData = [rates.map((each) => each[0]), rates.map((each) => each[1])];
    if (this.chart) {
      this.chart.setData(data);
      return;
    }
    if (!this.element.isConnected || rates.length < 2) return;
    const line = { stroke: colour("0"), width: 2, fill: `${colour("0")}22`, points: { show: false } };
    this.chart = plot(this.element, {
      series: [{}, line],
      axes: [timeAxis(), { ...axis(), size: 56, values: (_, ticks) => ticks.map((tick) => number(tick)) }],
      scales: { y: { range: (_, __, most) => [0, Math.max(most * 1.1, 1)] } },
      cursor: { show: false },
    }, data, 120);
  }
}

export class ShareChart {
  readonly element = h("div", { class: "chart", role: "img", "aria-label": "shares of the records by cluster over time; the table below has the present ones" });
  readonly note = h("p", { class: "quiet small" }, "\u00a0");
  private chart: uPlot | undefined;
  private names: string[] = [];

  show(history: History): void {
    // Clusters of a deeper level are within those of the first.
    const names = Object.keys(history.series).filter((name) => !name.slice(name.lastIndexOf("/")).includes(".")).slice(0, DRAWN)
      // An order that stays, whichever is the largest now.
      .sort((one, other) => one.localeCompare(other, "en", { numeric: true }));
    const times = history.total.map((_, at) => (history.start + at * history.step) / 1000);
    const below = history.total.map(() => 0);
    const stacked = names.map((name) => history.total.map((total, at) => {
      below[at] = (below[at] ?? 0) + (total ? (history.series[name]?.[at] ?? 0) / total : 0);
      return total ? Math.min(below[at] ?? 0, 1) : null;
    }));
    // The highest first: each covers what is below it.
    const rest = history.total.map((total) => (total ? 1 : null));
    const data: uPlot.AlignedData = [times, rest, ...stacked.reverse()];
    if (this.chart && names.join() === this.names.join()) {
      this.chart.setData(data);
      return;
    }
    this.chart?.destroy();
    this.names = names;
    if (!this.element.isConnected || times.length < 2) return;
    const fills = [REST, ...names.map(colour).reverse()];
    this.chart = plot(this.element, {
      series: [{}, ...fills.map((fill) => ({ stroke: ink("--ground"), width: 1, fill, points: { show: false } }))],
      axes: [timeAxis(), { ...axis(), size: 48, values: (_, ticks) => ticks.map(percent) }],
      scales: { y: { range: [0, 1] } },
      cursor: { drag: { x: false, y: false }, points: { show: false } },
      hooks: { setCursor: [(chart) => this.describe(chart.cursor.idx, history)] },
    }, data, 220);
  }

  private describe(at: number | null | undefined, history: History): void {
    const total = at === null || at === undefined ? 0 : history.total[at] ?? 0;
    if (!total || at === null || at === undefined) {
      this.note.textContent = "\u00a0";
      return;
    }
    const shares = this.names.map((name) => [name, (history.series[name]?.[at] ?? 0) / total] as const).filter(([, share]) => share >= 0.005);
    this.note.textContent = `${clock(history.start + at * history.step)}: ${shares.map(([name, share]) => `${name} ${percent(share)}`).join(", ")}`;
  }
}
