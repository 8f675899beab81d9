// Keys, copying, and the choice between light and dark. Every page is complete without this.
"use strict";

const root = document.documentElement;
root.classList.add("scripts");
if (navigator.clipboard) root.classList.add("copies"); // browsers have it at trusted addresses only
const PAGES = { f: "/", i: "/inbox", r: "/records", l: "/fleet", s: "/systems" };
let began = ""; // the first key of two

document.addEventListener("keydown", (event) => {
  const typing = event.target.closest("input, textarea, select");
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const menu = document.querySelector("details.more[open]");
  if (event.key === "Escape" && menu) {
    menu.open = false;
    menu.querySelector("summary").focus();
  }
  if (typing) return;
  // On the page of a card these keys lead to other cards.
  const rows = document.querySelector(".walk") ? [] : [...document.querySelectorAll(".rows li a:first-child, .cells tbody tr > :first-child > a:first-child")];
  const at = rows.indexOf(document.activeElement);
  if (began === "g" && PAGES[event.key]) {
    location.assign(PAGES[event.key]);
  } else if (event.key === "/") {
    event.preventDefault();
    [...document.querySelectorAll("input[type=search]")].find((box) => box.checkVisibility())?.focus();
  } else if (event.key === "?") {
    document.querySelector("#keys").showModal();
  } else if (event.key === "j") {
    rows[Math.min(at + 1, rows.length - 1)]?.focus();
  } else if (event.key === "k") {
    rows[Math.max(at - 1, 0)]?.focus();
  }
  began = event.key;
});

document.addEventListener("click", (event) => {
  const menu = document.querySelector("details.more[open]");
  if (menu && !menu.contains(event.target)) menu.open = false;
  const button = event.target.closest("button");
  if (button?.dataset.copy !== undefined) {
    navigator.clipboard.writeText(button.dataset.copy);
    button.classList.add("done");
    setTimeout(() => button.classList.remove("done"), 1000);
  } else if (button?.dataset.themeButton !== undefined) {
    const dark = getComputedStyle(root).colorScheme === "dark"
      || (!root.dataset.theme && matchMedia("(prefers-color-scheme: dark)").matches);
    root.dataset.theme = dark ? "light" : "dark";
    document.cookie = `interlock_theme=${root.dataset.theme}; path=/; max-age=31536000; samesite=lax`;
  } else if (button?.dataset.keysButton !== undefined) {
    document.querySelector("#keys").showModal();
  }
});

// A page that follows the log of a record, the output of its agent or its diff is renewed when there
// is more of it. A hidden page follows nothing.
const streams = new Map(); // by their addresses
const refusals = new Map(); // how often each was refused since it was open last
const PAUSE_MS = 1000, PAUSE_MS_MAX = 60000;
// The browser opens a broken stream again, but not one that the server refused.
function retry(address, stream) {
  const before = refusals.get(address) ?? 0;
  refusals.set(address, before + 1);
  // Pages that were refused together must not come again together.
  const pauseMs = Math.min(PAUSE_MS * 2 ** before, PAUSE_MS_MAX) * (1 + Math.random()) / 2;
  setTimeout(() => {
    if (streams.get(address) !== stream) return; // it was opened again or is not wanted any more
    streams.delete(address);
    follow();
  }, pauseMs);
}
function follow() {
  const places = document.hidden ? [] : [...document.querySelectorAll("[data-follow]")];
  const wanted = new Set(places.map((place) => place.dataset.follow));
  for (const [address, stream] of streams) {
    if (wanted.has(address)) continue;
    stream.close();
    streams.delete(address);
  }
  for (const place of places) {
    const address = place.dataset.follow;
    if (streams.has(address)) continue;
    const wanted = new URL(address, location);
    wanted.searchParams.set("after", place.elements.seen.value);
    const stream = new EventSource(wanted);
    streams.set(address, stream);
    stream.addEventListener("open", () => refusals.delete(address));
    stream.addEventListener("error", () => {
      if (stream.readyState === EventSource.CLOSED) retry(address, stream);
    });
    stream.addEventListener("changed", (event) => {
      const now = document.querySelector(`[data-follow="${CSS.escape(address)}"]`);
      if (!now) return;
      now.elements.seen.value = event.data;
      htmx.trigger(now.dataset.renews, "changed");
    });
  }
}
document.addEventListener("visibilitychange", follow);
document.addEventListener("htmx:afterSwap", follow);
window.addEventListener("load", follow);

// What is renewed keeps what was open and where the focus was; rows that moved are marked a while.
let before = { rows: new Map(), open: [], focus: "" };
const focused = (one) => {
  const name = ["href", "data-copy"].find((each) => one?.hasAttribute(each));
  return name ? `main [${name}="${CSS.escape(one.getAttribute(name))}"]` : "";
};
const stamps = () => [...document.querySelectorAll("[data-row]")].map((row) => [row.dataset.row, row.dataset.at]);
document.addEventListener("htmx:beforeSwap", () => {
  const open = [...document.querySelectorAll("details[open][id]")].map((one) => one.id);
  before = { rows: new Map(stamps()), open, focus: focused(document.activeElement) };
});
document.addEventListener("htmx:afterSwap", () => {
  for (const id of before.open) document.getElementById(id)?.setAttribute("open", "");
  if (before.focus && document.activeElement === document.body) {
    document.querySelector(before.focus)?.focus();
  }
  for (const row of document.querySelectorAll("[data-row]")) {
    if (before.rows.has(row.dataset.row) && before.rows.get(row.dataset.row) === row.dataset.at) continue;
    row.classList.add("moved");
    setTimeout(() => row.classList.remove("moved"), 1000);
  }
});
