// Keys of the inbox and of cards. No key answers by itself: a dialog names the thing and asks once.
"use strict";

const close = () => document.querySelector("dialog[open]")?.close();

function open(key) {
  const chosen = document.querySelector(`[data-key="${key}"]`);
  if (!chosen) return;
  if (key === "c") {
    chosen.click(); // a claim is advice, and can be taken back
    return;
  }
  const around = chosen.closest("details");
  if (around) around.open = true;
  const form = around ? around.querySelector("form") : chosen;
  form.scrollIntoView({ block: "center" });
  const field = form.querySelector("textarea, input:not([type=hidden]), select");
  if (field && (around || "needs" in form.dataset || !form.checkValidity())) field.focus();
  else ask(form);
}

function ask(form) {
  const dialog = document.getElementById("sure");
  document.getElementById("sure-what").textContent = form.dataset.asks;
  dialog.querySelector("[data-yes]").onclick = () => form.requestSubmit();
  dialog.showModal();
}

document.addEventListener("click", (event) => {
  if (event.target.closest("[data-close]")) close();
});

document.addEventListener("keydown", (event) => {
  const isSending = event.key === "Enter" && (event.ctrlKey || event.metaKey);
  const written = event.target.closest("form[data-asks]");
  if (isSending && written) {
    event.preventDefault();
    written.requestSubmit();
    return;
  }
  const typing = event.target.closest("input:not([type=checkbox]), textarea, select");
  if (typing || event.ctrlKey || event.metaKey || event.altKey) return;
  if (document.querySelector("dialog[open]")) return;
  const row = document.activeElement.closest(".cards li");
  if (event.key === "x") {
    row?.querySelector("input[type=checkbox]")?.click();
  } else if (["a", "e", "r", "c"].includes(event.key)) {
    const link = row?.querySelector("a");
    if (link) location.href = `${link.href}#${event.key}`;
    else open(event.key);
    event.preventDefault();
  }
});

// What a person has ticked, chosen or reached by keys stays as it is.
document.addEventListener("htmx:beforeRequest", (event) => {
  const cards = event.target.closest("#cards");
  if (!cards) return;
  const reached = document.activeElement;
  const isReached = cards.contains(reached) && reached.dataset.copy === undefined;
  const isUsed = isReached || cards.querySelector("input:checked");
  if (isUsed) event.preventDefault();
});

if (/^#[aerc]$/.test(location.hash)) {
  const key = location.hash.slice(1);
  history.replaceState(null, "", location.pathname + location.search);
  open(key);
}
