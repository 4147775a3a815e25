// The lives of a stream's clusters: a line each, as thick as its share, with splits, absorptions and drift.

import type { Drift, History, Line, Names } from "./api";
import { clock, clusterPage, colour, h, s } from "./dom";

const ROW = 26;
const TOP = 6;
const AXIS = 22;

export function lifeLines(lines: Line[], drifts: Drift[], history: History, called: Names, span: number, width: number): Element {
  if (!lines.length) return h("p", { class: "quiet" }, "No cluster yet.");
  const seen = [...lines.map((line) => line.ended ?? line.born ?? 0), ...drifts.map((drift) => drift.time ?? 0),
    history.start + history.total.length * history.step];
  const end = Math.max(...seen);
  const births = lines.map((line) => line.born).filter((born): born is number => born !== null);
  const first = Math.min(...births, history.total.length ? history.start : end, end - 1000);
  const start = span ? Math.max(end - span, first) : first;
  const names = width < 560 ? 92 : 150;
  const x = (time: number) => names + 8 + ((width - names - 24) * (Math.min(Math.max(time, start), end) - start)) / Math.max(end - start, 1);
  const shown = lines.filter((line) => (line.ended ?? end) >= start);
  const row = new Map(shown.map((line, at) => [line.id, TOP + ROW * at + ROW / 2]));
  const height = TOP + ROW * shown.length + AXIS;
  const picture = s("svg", { class: "lives", width, height, viewBox: `0 0 ${width} ${height}`, role: "img",
    "aria-label": `life-lines of ${shown.length} clusters from ${clock(start)} to ${clock(end)}; the table and the events below say the same` });
  for (let tick = 0; tick <= 4; tick++) {
    const time = start + ((end - start) * tick) / 4;
    if (width < 560 && tick % 2) continue;
    const anchor = tick === 0 ? "start" : tick === 4 ? "end" : "middle";
    picture.append(s("line", { x1: x(time), x2: x(time), y1: TOP, y2: height - AXIS, class: "rule" }),
      s("text", { x: x(time), y: height - 6, class: "faint", "text-anchor": anchor }, label(time, end - start)));
  }
  for (const line of shown) {
    const y = row.get(line.id) ?? 0;
    const born = line.born ?? start;
    const died = line.ended ?? end;
    const paint = colour(line.id);
    const short = shortened(called[line.id], line.id, width < 560 ? 12 : 20);
    const name = s("a", { href: clusterPage(line.id) }, s("text", { x: names, y: y + 4, "text-anchor": "end", class: line.ended ? "faint" : "name" },
      short), s("title", {}, called[line.id] ? `${line.id} (${called[line.id]})` : line.id));
    picture.append(name, s("line", { x1: x(born), x2: x(died), y1: y, y2: y, stroke: paint, "stroke-width": 2, opacity: line.ended ? 0.5 : 0.8 }));
    picture.append(band(history, line, born, died, y, x, paint));
    for (const [other, at] of [[line.parent, line.born], [line.heir, line.ended]] as const) {
      const to = other === null ? undefined : row.get(other);
      if (to !== undefined && at !== null && at >= start) {
        const bend = x(at) - 14;
        picture.append(s("path", { d: `M${x(at)} ${to}C${bend} ${to} ${bend} ${y} ${x(at)} ${y}`, fill: "none", stroke: paint, "stroke-width": 2 }));
      }
    }
    if (born > start) picture.append(s("circle", { cx: x(born), cy: y, r: 4, class: "ring", stroke: paint }, s("title", {}, `${line.id} began ${clock(born)}`)));
    if (line.ended) picture.append(s("circle", { cx: x(died), cy: y, r: 4, fill: paint }, s("title", {}, `${line.id} ended ${clock(died)}`)));
  }
  for (const drift of drifts) {
    if (drift.time === null || drift.time < start) continue;
    const [at, y] = [x(drift.time), row.get(drift.cluster) ?? height - AXIS];
    picture.append(s("path", { d: `M${at - 6} ${y + 5}L${at + 6} ${y + 5}L${at} ${y - 6}Z`, class: "drift" }, s("title", {}, `${clock(drift.time)}: ${drift.text}`)));
  }
  return picture;
}

// The name of a cluster from its beginning, else its id from its end.
function shortened(called: string | undefined, id: string, most: number): string {
  const text = called ?? id;
  if (text.length <= most) return text;
  return called ? `${text.slice(0, most - 1)}…` : `…${text.slice(1 - most)}`;
}

// A band around the line, as thick as the share of the records.
function band(history: History, line: Line, born: number, died: number, y: number, x: (time: number) => number, paint: string): Element {
  const upper: string[] = [];
  const lower: string[] = [];
  (history.series[line.id] ?? []).forEach((count, at) => {
    const total = history.total[at] ?? 0;
    const time = history.start + (at + 0.5) * history.step;
    if (!total || time < born - history.step || time > died + history.step) return;
    const half = Math.min(1 + 10 * Math.sqrt(count / total), 11);
    upper.push(`${x(time).toFixed(1)} ${(y - half).toFixed(1)}`);
    lower.unshift(`${x(time).toFixed(1)} ${(y + half).toFixed(1)}`);
  });
  return s("path", { d: upper.length > 1 ? `M${[...upper, ...lower].join("L")}Z` : "", fill: paint, opacity: 0.75 });
}

function label(time: number, span: number): string {
  const text = clock(time);
  return span > 2 * 86_400_000 ? text.slice(5, 16) : text.slice(11, span > 600_000 ? 16 : 19);
}
