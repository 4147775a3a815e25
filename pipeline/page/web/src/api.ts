// What the server gives: the types of its answers, and the requests.

export interface Headline {
  deployment: string; loaded: number; troubles: string[];
  waiting: number | null; rate: number; novelty: number | null; streams: number; left_out: number; clusters: number;
  drifts: number; alerts: number; dead_letters: number; newest: number;
}
export interface StreamRow {
  stream: string; rate: number; clusters: number; novelty: number | null; drift: string | null; alerts: number; last: string;
  called?: string[];
}
// What happened, in a line.
export interface Happened { key: string; severity: string; is_open: boolean; is_learned?: boolean; since: string; text: string }
export interface Incident extends Happened {
  kind: string; certainty: string; streams: (string | null)[]; known: number; signs: number; entries: Entry[];
  features: { feature: string; value: number; usual: number | null; low?: number; high?: number; ratio?: number }[];
}
export interface Overview extends Headline {
  found: number; start: number; rows: StreamRow[]; rates: [number, number][]; incidents: Happened[]; incidents_left_out: number;
}
export interface Entry {
  number: number; kind: string; what: string; stream: string; cluster: string; other: string;
  severity: string; time: string; text: string;
}
export interface History { start: number; step: number; total: number[]; series: Record<string, number[]> }
export interface Feature { feature: string; centre: number; spread: number; rest: number | null }
export interface ClusterRow {
  id: string; name: string; salient: Feature[]; size: number; share: number | null; since: string; seen: string;
  level: number; parent: string | null;
}
export interface Line { id: string; born: number | null; ended: number | null; parent: string | null; heir: string | null; level: number }
export interface Drift { time: number | null; cluster: string; text: string }
export interface OpenAlert { rule: string; severity: string; text: string; since: string; cluster?: string; setting?: string }
export interface StreamPage extends StreamRow {
  version: number; incidents: Happened[]; open: OpenAlert[]; history: History; lines: Line[]; drifts: Drift[]; table: ClusterRow[];
  left_out: number; events: Entry[]; names: Names;
  // First and last moment that can be shown, and the one that is shown where it is not now.
  range: [number, number] | null; at?: number;
}
// What people call clusters, by id.
export type Names = Record<string, string>;
export interface Example { id: string | number | null; where: string; score: number }
export interface ClusterPage {
  id: string; stream: string; present: boolean; name: string; size?: number; share?: number | null; since?: string; seen?: string;
  how?: string; level?: number; profile: Feature[]; keywords?: string[]; omitted?: number; history: History; events: Entry[]; examples: Example[]; command?: string; names: Names;
  lineage: { parent: string | null; children: string[]; absorbed: { id: string; time: string; size: number }[]; heir: string | null };
}
export interface Events { entries: Entry[]; newest: number }
export interface Partition { partition: string; [figure: string]: number | string }
export interface Operations {
  deployment: string;
  dead_letters: DeadLetters[];
  group: {
    name: string; state?: string; problem?: string;
    members: { id: string; host: string; partitions: string[] }[];
    partitions: { partition: string; committed: number; lag: number }[];
  };
  workers: { address: string; ready?: boolean; state?: string; problems?: string[]; problem?: string; partitions?: Partition[] }[];
}
export interface DeadLetters { where: string; stage: string; class: string; count: number; time: number; example: string; message: string }

export class Refused extends Error {}

export async function get<T>(what: string, query: Record<string, string | number | undefined> = {}): Promise<T> {
  const address = new URL(`/api/${what}`, location.origin);
  for (const [name, value] of Object.entries(query)) if (value !== undefined && value !== "") address.searchParams.set(name, String(value));
  let answer: Response;
  try {
    answer = await fetch(address);
  } catch {
    throw new Refused("the server of this page does not answer; is `resonance page` running?");
  }
  const found = await answer.json();
  if (!answer.ok) throw new Refused(found.error ?? `HTTP status ${answer.status}`);
  return found as T;
}
