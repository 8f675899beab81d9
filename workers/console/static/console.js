// Keys: / goes to the search, j and k to the next row and the one before.
"use strict";

document.addEventListener("keydown", (event) => {
  const typing = event.target.closest("input, textarea, select");
  if (typing || event.ctrlKey || event.metaKey || event.altKey) return;
  const rows = [...document.querySelectorAll(".rows li a:first-child")];
  const at = rows.indexOf(document.activeElement);
  if (event.key === "/") {
    event.preventDefault();
    document.querySelector(".search input")?.focus();
  } else if (event.key === "j") {
    rows[Math.min(at + 1, rows.length - 1)]?.focus();
  } else if (event.key === "k") {
    rows[Math.max(at - 1, 0)]?.focus();
  }
});
