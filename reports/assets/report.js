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
