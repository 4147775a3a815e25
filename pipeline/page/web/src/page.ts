// What a page is: an element that shows something, and gets what happens.

import type { Entry } from "./api";

export interface Page {
  readonly title: string;
  readonly element: HTMLElement;
  // Reads what it shows anew.
  refresh(): Promise<void>;
  // Seconds between two such reads while it is open.
  readonly every: number;
  entry?(entry: Entry): void;
  close?(): void;
}

// Changes the address without a new entry in the browser's history.
export function keep(names: Record<string, string>): void {
  const address = new URL(location.href);
  for (const [name, value] of Object.entries(names)) {
    if (value) address.searchParams.set(name, value);
    else address.searchParams.delete(name);
  }
  history.replaceState(null, "", address);
}

export function asked(name: string): string {
  return new URL(location.href).searchParams.get(name) ?? "";
}
