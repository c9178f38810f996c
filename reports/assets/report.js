"use strict";
// Sorting by a column. Without this script the tables stay as they are.
for (const table of document.querySelectorAll("table.sortable")) {
  const body = table.tBodies[0];
  table.querySelectorAll("thead th").forEach((head, column) => {
    const button = document.createElement("button");
    button.textContent = head.textContent;
    button.title = "sort";
    head.replaceChildren(button);
    button.addEventListener("click", () => {
      const ascending = head.getAttribute("aria-sort") !== "ascending";
      for (const other of table.querySelectorAll("thead th")) other.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", ascending ? "ascending" : "descending");
      const key = (row) => row.cells[column].dataset.value ?? row.cells[column].textContent;
      const compare = (a, b) => {
        const [x, y] = [key(a), key(b)];
        const numbers = x !== "" && y !== "" && !isNaN(x) && !isNaN(y);
        return numbers ? x - y : String(x).localeCompare(String(y));
      };
      const rows = [...body.rows].sort((a, b) => (ascending ? 1 : -1) * compare(a, b));
      body.append(...rows);
    });
  });
}
// A field over a table: its rows that have all of the words. Without this script all rows are there.
for (const table of document.querySelectorAll("table[data-filter]")) {
  const rows = [...table.tBodies[0].rows];
  const label = document.createElement("label");
  const field = document.createElement("input");
  const count = document.createElement("span");
  label.className = "filter";
  field.type = "search";
  field.placeholder = "words that a row has to have";
  count.setAttribute("role", "status");
  label.append(`Filter ${table.dataset.filter} `, field, count);
  table.parentElement.before(label);
  field.addEventListener("input", () => {
    const words = field.value.toLowerCase().split(/\s+/).filter(Boolean);
    let shown = 0;
    for (const row of rows) {
      const text = row.textContent.toLowerCase();
      row.hidden = !words.every((word) => text.includes(word));
      shown += row.hidden ? 0 : 1;
    }
    count.textContent = words.length === 0 ? "" : `${shown} of ${rows.length}`;
  });
}
// A link to something folded opens it.
const open_target = () => {
  const target = location.hash.length > 1 && document.getElementById(decodeURIComponent(location.hash.slice(1)));
  const folded = target && target.querySelector("details");
  if (folded) {
    folded.open = true;
    target.scrollIntoView();
  }
};
window.addEventListener("hashchange", open_target);
open_target();
// A click on a command copies it, where the browser lets it; otherwise it is selected.
for (const command of document.querySelectorAll(".command code > span")) {
  command.tabIndex = 0;
  command.setAttribute("role", "button");
  command.title = "copy";
  const copy = async () => {
    getSelection().selectAllChildren(command);
    try {
      await navigator.clipboard.writeText(command.textContent);
      command.classList.add("copied");
      setTimeout(() => command.classList.remove("copied"), 1200);
    } catch {
      // It is selected.
    }
  };
  command.addEventListener("click", copy);
  command.addEventListener("keydown", (event) => {
    if (event.key === "Enter") copy();
  });
}
