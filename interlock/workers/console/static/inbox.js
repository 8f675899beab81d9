// Keys of the inbox and of cards: a key does what a click on its button does, on the same terms.
"use strict";

let isSent = false; // a key that is pressed twice answers once
// What is said where a key has nothing to do.
const NOTHING = {
  a: "Nothing here only has to be agreed to: e says something else, r refuses.",
  e: "Here is no field to say something else.",
  r: "Nothing here can be refused.",
  j: "This is the last card.",
  k: "This is the first card.",
};

function say(text) {
  document.querySelector(".hint-of-key")?.remove();
  if (!text) return;
  const said = Object.assign(document.createElement("p"), { className: "hint-of-key", textContent: text });
  said.setAttribute("role", "status");
  document.body.append(said);
  setTimeout(() => said.remove(), 4000);
}

// The style sheet lets a page be looked at for a moment before it takes an answer.
const isReady = (button) => getComputedStyle(button).pointerEvents !== "none";

function open(key) {
  const chosen = [...document.querySelectorAll(`[data-key="${CSS.escape(key)}"]`)].find((one) => one.checkVisibility());
  if (!chosen) {
    const hasEnded = ["a", "e", "r"].includes(key) && document.querySelector("[data-ends]:not([hidden])");
    say(hasEnded ? "This question is not open any more." : NOTHING[key]);
    return;
  }
  const folded = chosen.closest("summary")?.parentElement;
  if (!folded && key !== "e") {
    press(chosen);
    return;
  }
  if (folded) folded.open = true;
  const form = folded ? folded.querySelector("form") : chosen.closest("form");
  const fields = [...form.querySelectorAll("textarea, input:not([type=hidden]), select")];
  (fields.find((one) => one.checkVisibility()) ?? form.querySelector("button")).focus();
}

function press(chosen) {
  if (isSent || !isReady(chosen)) return;
  isSent = chosen.form !== undefined && chosen.form.checkValidity();
  chosen.click();
}

// A question that is not open any more takes no answer. What was written stays, to be read or copied.
function close() {
  const news = document.querySelector("#news");
  if (!news) return;
  const isOpen = (proposal) => JSON.parse(news.dataset.open).includes(proposal);
  for (const form of document.querySelectorAll("main form:has(> input[name=proposal])")) {
    if (isOpen(form.elements.proposal.value)) continue;
    const isWritten = [...form.elements].some((one) => "defaultValue" in one && one.value !== one.defaultValue);
    if (isWritten) form.querySelectorAll("button, kbd").forEach((one) => one.remove());
    else (form.closest("details.answer") ?? form).remove();
  }
  for (const said of document.querySelectorAll("[data-ends]")) said.hidden = isOpen(said.dataset.ends);
  for (const said of document.querySelectorAll("[data-while]")) said.hidden = !said.dataset.while.split(" ").some(isOpen);
}
document.addEventListener("htmx:afterSwap", close);

// In the list, a key is about the row that was reached.
function openIn(row, key) {
  const button = row.querySelector(`.quick [data-key="${key}"]`);
  if (button) press(button);
  else if (key === "a") say(NOTHING.a);
  else location.assign(`${row.querySelector("a.asks").href}#${key}`);
}

document.addEventListener("submit", (event) => {
  const button = event.submitter ?? event.target.querySelector("button");
  if (button ? !isReady(button) : event.target.elements.proposal) event.preventDefault();
});

document.addEventListener("keydown", (event) => {
  const written = event.target.closest("form");
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey) && written?.method === "post") {
    event.preventDefault();
    written.requestSubmit();
    return;
  }
  const typing = event.target.closest("input:not([type=checkbox]), textarea, select");
  if (typing || event.repeat || event.ctrlKey || event.metaKey || event.altKey) return;
  if (document.querySelector("dialog[open]")) return;
  const row = document.activeElement.closest(".cards li");
  const key = event.key;
  if (row && key === "x") row.querySelector("input[type=checkbox]")?.click();
  else if (row && key === "o") row.querySelector("a.asks").click();
  else if (row && ["a", "e", "r", "c"].includes(key)) openIn(row, key);
  else if (document.querySelector(".walk") && ["a", "e", "r", "c", "u", "j", "k"].includes(key)) open(key);
  else return;
  event.preventDefault();
});

// Beside a date or time that is being changed stands its weekday, as the server says it.
document.addEventListener("input", (event) => {
  const said = event.target.parentElement?.querySelector(".weekday");
  if (!said) return;
  const [day, time] = event.target.value.split("T");
  const at = new Date(day); // a day without a time is one of UTC
  const words = (options) => at.toLocaleDateString("en-GB", { ...options, timeZone: "UTC" });
  const date = () => `${words({ weekday: "long" })} ${words({ day: "numeric", month: "long", year: "numeric" })}`;
  said.value = isNaN(at) ? "" : [date(), time?.slice(0, 5)].filter(Boolean).join(", ");
});

// Rows that a person has ticked or reached by keys stay as they are.
document.addEventListener("htmx:oobBeforeSwap", (event) => {
  const cards = document.querySelector("#cards");
  if (!cards || event.detail.target !== cards) return;
  const reached = document.activeElement;
  const isReached = cards.contains(reached) && reached.dataset.copy === undefined;
  if (isReached || cards.querySelector("input:checked")) event.preventDefault();
});
window.addEventListener("pageshow", () => { isSent = false; });

if (/^#[erc]$/.test(location.hash)) {
  const key = location.hash.slice(1);
  history.replaceState(null, "", location.pathname + location.search);
  open(key);
}
