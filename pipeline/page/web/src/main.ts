// Shows the page that the address names, and keeps it up to date.

import "../style.css";
import { type Entry, type Headline, Refused } from "./api";
import { ClusterPage } from "./cluster";
import { h } from "./dom";
import { EventsPage } from "./events";
import { IncidentPage } from "./incident";
import { LastLook } from "./timeline";
import { OperationsPage } from "./operations";
import { OverviewPage } from "./overview";
import { asked, type Page } from "./page";
import { StreamPage } from "./stream";

const main = document.getElementById("main") as HTMLElement;
const live = document.getElementById("live") as HTMLElement;
const troubles = document.getElementById("troubles") as HTMLElement;
const unseen = document.getElementById("unseen") as HTMLElement;
let deployment = "";
let page: Page | undefined;
let failed = false;
let fresh = 0;
let whole = false;
let source: EventSource | undefined;
let last = 0;

function opened(): Page {
  switch (location.pathname) {
    case "/stream": return new StreamPage(asked("name"));
    case "/cluster": return new ClusterPage(asked("id"));
    case "/incident": return new IncidentPage(asked("key"));
    case "/events": return new EventsPage(deployment);
    case "/operations": return new OperationsPage();
    default: return new OverviewPage();
  }
}

async function refresh(shown: Page): Promise<void> {
  try {
    await shown.refresh();
    if (shown === page && failed) {
      failed = false;
      main.replaceChildren(shown.element);
      await shown.refresh();
    }
  } catch (error) {
    if (!(error instanceof Refused)) throw error;
    if (shown !== page) return;
    failed = true;
    main.replaceChildren(h("h1", {}, shown.title), h("p", { class: "notice warning" }, error.message));
  }
}

async function show(): Promise<void> {
  page?.close?.();
  page = opened();
  failed = false;
  document.title = `${page.title} · ${deployment || "Resonance"}`;
  for (const link of document.querySelectorAll<HTMLAnchorElement>("nav a")) {
    if (link.pathname === location.pathname) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  if (page instanceof EventsPage) {
    fresh = 0;
    unseen.hidden = true;
  }
  main.replaceChildren(page.element);
  await refresh(page);
}

function every(): void {
  let seconds = 0;
  setInterval(() => {
    seconds += 1;
    if (page && !document.hidden && ((page.every && seconds % page.every === 0) || failed)) void refresh(page);
  }, 1000);
}

// Only a page that is seen holds a connection: a browser opens six to a server, for all of its tabs together.
function disconnect(): void {
  source?.close();
  source = undefined;
}

function connect(): void {
  disconnect();
  if (document.hidden) return;
  const stream = source = new EventSource(last ? `/api/live?after=${last}` : "/api/live");
  stream.addEventListener("tick", (message) => {
    const found = JSON.parse(message.data) as Headline;
    if (!deployment) {
      deployment = found.deployment;
      (document.getElementById("deployment") as HTMLElement).textContent = deployment;
      document.title = `${page?.title ?? ""} · ${deployment}`;
      if (page instanceof EventsPage) void show();
    }
    // A page that was opened before the server had read everything, or before it came back.
    if (found.loaded === 1 && !whole && page) void refresh(page);
    whole = found.loaded === 1;
    const state = found.loaded < 1 ? `reading, ${Math.round(100 * found.loaded)} %` : found.troubles.length ? "not all is live" : "live";
    live.textContent = state;
    live.className = state === "live" ? "good" : "waits";
    troubles.hidden = !found.troubles.length;
    troubles.replaceChildren(...found.troubles.map((text) => h("p", {}, text)));
  });
  stream.addEventListener("entry", (message) => {
    const entry = JSON.parse(message.data) as Entry;
    last = entry.number;
    page?.entry?.(entry);
    if (!(page instanceof EventsPage) && entry.time > new LastLook(deployment).time) {
      fresh += 1;
      unseen.textContent = fresh > 99 ? "99+" : String(fresh);
      unseen.setAttribute("aria-label", `${fresh} new`);
      unseen.hidden = false;
    }
  });
  stream.addEventListener("error", () => {
    whole = false;
    live.textContent = "no connection; trying again";
    live.className = "waits";
    // After an answer that is no stream the browser does not try again by itself.
    if (stream.readyState === EventSource.CLOSED) setTimeout(() => { if (source === stream) connect(); }, 3000);
  });
}

document.addEventListener("click", (event) => {
  const link = (event.target as Element).closest("a");
  if (!link || event.defaultPrevented || event.button || event.ctrlKey || event.metaKey || event.shiftKey) return;
  const address = new URL(link instanceof SVGAElement ? link.href.baseVal : link.href, location.href);
  if (address.origin !== location.origin || address.hash) return;
  event.preventDefault();
  if (address.href !== location.href) history.pushState(null, "", address);
  scrollTo(0, 0);
  void show().then(() => main.focus({ preventScroll: true }));
});
addEventListener("popstate", () => void show());
addEventListener("pagehide", disconnect);
addEventListener("pageshow", (event) => { if (event.persisted) connect(); });
document.addEventListener("visibilitychange", () => {
  connect();
  if (page && !document.hidden) void refresh(page);
});
void show();
every();
connect();
