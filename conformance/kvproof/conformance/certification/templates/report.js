"use strict";
document.documentElement.classList.add("script");

function element(name, text, className) {
  const made = document.createElement(name);
  if (text !== undefined) made.textContent = text;
  if (className) made.className = className;
  return made;
}

// The table of clauses: search and status together decide what is shown.
const search = document.getElementById("search");
const wanted = document.getElementById("status");
const rows = [...document.querySelectorAll("#clause-table tbody tr")];
function filter() {
  const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
  let shown = 0;
  for (const row of rows) {
    const text = row.textContent.toLowerCase();
    row.hidden = !words.every((word) => text.includes(word)) || (wanted.value !== "" && row.dataset.status !== wanted.value);
    shown += row.hidden ? 0 : 1;
  }
  document.getElementById("count").textContent = `${shown} of ${rows.length} clauses`;
}
search.addEventListener("input", filter);
wanted.addEventListener("change", filter);
filter();

// The timelines: everything comes from the JSON in the page, as text.
const CELLS = {{ headings.items() | list | tojson }};

function blocks(moment) {
  const changed = new Set(moment.changed.map(([block, cell]) => `${block} ${cell}`));
  const table = element("table", undefined, "state");
  const head = table.createTHead().insertRow();
  for (const heading of ["block", ...CELLS.map(([, heading]) => heading)]) head.append(element("th", heading));
  const body = table.createTBody();
  for (const row of moment.blocks) {
    const line = body.insertRow();
    line.append(element("th", row.block));
    for (const [cell] of CELLS) {
      line.append(element("td", row[cell], changed.has(`${row.block} ${cell}`) ? "changed" : ""));
    }
  }
  const wide = element("div", undefined, "wide");
  wide.append(table);
  return wide;
}

function queue(moment) {
  const line = element("p", undefined, "queue");
  line.append(element("span", "free queue, next victim first:"));
  for (const block of moment.queue) line.append(element("b", block));
  if (moment.queue.length === 0) line.append(element("em", "empty"));
  return line;
}

function list(title, items) {
  const part = element("div");
  part.append(element("h4", title));
  const lines = element("ul");
  for (const item of items) lines.append(element("li", item));
  part.append(items.length ? lines : element("p", "none", "note"));
  return part;
}

function draw(place, moment) {
  const columns = element("div", undefined, "columns");
  columns.append(
    list("index: key and its blocks, first registered first", moment.index.map((row) => `${row.key}: ${row.blocks.join(", ")}`)),
    list("events of this operation", moment.events),
  );
  place.replaceChildren(queue(moment), blocks(moment), columns);
}

for (const timeline of document.querySelectorAll(".timeline")) {
  const moments = JSON.parse(timeline.querySelector('script[type="application/json"]').textContent);
  const slider = timeline.querySelector('input[type="range"]');
  const lines = [...timeline.querySelectorAll(".trace li")];
  function show() {
    const now = Number(slider.value);
    const answer = moments[now].answer ? ` → ${moments[now].answer}` : "";
    timeline.querySelector("output").textContent = `${now} of ${moments.length - 1}: ${moments[now].operation}${answer}`;
    lines.forEach((line, index) => line.classList.toggle("now", index === now - 1));
    draw(timeline.querySelector(".moment"), moments[now]);
  }
  function go(to) {
    slider.value = to;
    show();
  }
  slider.addEventListener("input", show);
  for (const button of timeline.querySelectorAll("button")) {
    button.addEventListener("click", () => go(Number(slider.value) + Number(button.dataset.go)));
  }
  lines.forEach((line, index) => line.addEventListener("click", () => go(index + 1)));
  timeline.querySelector(".player").hidden = false;
  show();
}
