"use strict";
(() => {
const all = (query, root = document) => [...root.querySelectorAll(query)];
const make = (tag, attributes, ...inside) => {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...inside);
  return element;
};
const words = text => text.toLowerCase().split(/\s+/).filter(Boolean);
const collator = new Intl.Collator("en", { numeric: true });
const NUMBER = /^[~<>≤≥\s]*([-−+]?\d+(?:\.\d+)?)/;

// What a column is sorted by: ranks of the raw values where the page has them, else the numbers or texts shown.
const keysOf = (kind, rows, index) => {
  if (kind.length > 1) {
    const width = kind.length / rows.length;
    return rows.map((_, at) => parseInt(kind.substr(at * width, width), 36));
  }
  return rows.map(row => {
    const node = row.cells[index].firstChild, text = node?.nodeType === Node.TEXT_NODE ? node.data : "";
    return kind === "t" ? text : parseFloat(NUMBER.exec(text)?.[1].replace("−", "-"));
  });
};
const known = key => key === key && key !== "";

// Headings above a block, its own among them, but not that of the chapter.
const pathOf = block => {
  const texts = [];
  for (let at = block; at && !at.matches("main > section"); at = at.parentElement) {
    const title = at.matches(".table, .figure, section, details") && at.querySelector("h3, h4, h5, h6, summary");
    if (title) texts.push(title.textContent);
  }
  return texts.join(" ").toLowerCase();
};

// A table: its rows (not those that sum up), what says where it stands, and what is shown of it.
class Grid {
  constructor(table) {
    this.table = table;
    this.body = table.tBodies[0];
    this.rows = [...this.body.rows].filter(row => !row.classList.contains("sum"));
    this.last = [...this.body.rows].filter(row => row.classList.contains("sum"));
    this.block = table.closest(".table");
    this.heads = all("th[data-s]", table);
    this.keys = new Map();
    this.own = [];
    for (const head of this.heads) this.offerSort(head);
  }
  labels() {
    if (!this.texts) {
      const places = [...this.table.tHead.rows[0].cells]
        .flatMap((head, index) => (index === 0 || head.dataset.s === "t" ? [index] : []));
      const path = pathOf(this.block);
      this.texts = this.rows.map(row => [places.map(at => row.cells[at].textContent).join(" ").toLowerCase(), path]);
    }
    return this.texts;
  }
  offerSort(head) {
    const button = make("button", { type: "button", title: "Sort by this column" });
    while (head.firstChild && head.firstChild.nodeName !== "SUP") button.append(head.firstChild);
    head.prepend(button);
    button.addEventListener("click", () => this.sort(head));
  }
  // Numbers begin with the largest, texts with the first; the third press restores the order of the report.
  sort(head) {
    const kind = head.dataset.s, first = kind === "t" ? "ascending" : "descending";
    const other = first === "ascending" ? "descending" : "ascending";
    const now = head.getAttribute("aria-sort");
    const next = now === null ? first : now === first ? other : null;
    for (const one of this.heads) one.removeAttribute("aria-sort");
    if (!next) return this.place(this.rows);
    head.setAttribute("aria-sort", next);
    if (!this.keys.has(head)) this.keys.set(head, keysOf(kind, this.rows, head.cellIndex));
    const keys = this.keys.get(head), sign = next === "ascending" ? 1 : -1;
    const order = this.rows.map((_, at) => at).sort((a, b) => {
      const [x, y] = [keys[a], keys[b]];
      if (!known(x) || !known(y)) return known(y) - known(x) || a - b;
      return sign * (kind === "t" ? collator.compare(x, y) : x - y) || a - b;
    });
    this.place(order.map(at => this.rows[at]));
  }
  place(rows) {
    this.body.append(...rows, ...this.last);
  }
  filter(page) {
    let shown = 0;
    this.labels().forEach(([label, path], at) => {
      const fits = this.own.every(word => label.includes(word))
        && page.every(word => label.includes(word) || path.includes(word));
      this.rows[at].hidden = !fits;
      shown += fits;
    });
    this.block.classList.toggle("none", page.length > 0 && !shown);
    this.block.classList.toggle("part", shown < this.rows.length);
    if (this.count) {
      const all = this.rows.length, means = this.last.length ? ", means are of all" : "";
      this.count.textContent = shown < all ? `${shown} of ${all} rows${means}` : "";
    }
    return shown;
  }
  reset() {
    for (const head of this.heads) head.removeAttribute("aria-sort");
    this.place(this.rows);
    this.own = [];
    if (this.box) this.box.value = "";
  }
}

const grids = all("main table").filter(table => table.querySelector("th[data-s]")).map(table => new Grid(table));
const panels = all(".figure").flatMap(figure => {
  const above = `${pathOf(figure)} ${figure.querySelector(".legend")?.textContent.toLowerCase() ?? ""}`;
  return all(".panel", figure).map(panel => [panel, `${panel.querySelector("p").textContent.toLowerCase()} ${above}`]);
});

const box = (label, hint) => {
  const input = make("input", { type: "search", "aria-label": label, placeholder: hint, spellcheck: "false" });
  input.addEventListener("keydown", event => {
    if (event.key === "Escape" && input.value) {
      event.preventDefault();
      input.value = "";
      input.dispatchEvent(new Event("input"));
    }
  });
  return input;
};

const LONG = 12;
for (const grid of grids.filter(one => one.rows.length >= LONG)) {
  grid.box = box(`Filter the rows of ${grid.table.caption?.textContent ?? "this table"}`, "filter rows");
  grid.count = make("span", { "aria-live": "polite" });
  grid.box.addEventListener("input", () => {
    grid.own = words(grid.box.value);
    grid.filter(words(search.value));
  });
  grid.table.parentElement.before(make("div", { class: "tool" }, grid.box, grid.count));
}

const search = box("Filter the rows of all tables", "shape, provider");
const status = make("p", { role: "status" });
const reset = make("button", { type: "button" }, "Reset");
const apply = () => {
  const wanted = words(search.value);
  let rows = 0, tables = 0, of = 0;
  for (const grid of grids) {
    const shown = grid.filter(wanted);
    rows += shown;
    tables += shown > 0;
    of += grid.rows.length;
  }
  for (const [panel, text] of panels) panel.hidden = !wanted.every(word => text.includes(word));
  for (const group of all(".panels")) {
    group.classList.toggle("none", wanted.length > 0 && !group.querySelector(".panel:not([hidden])"));
  }
  document.body.classList.toggle("filtered", wanted.length > 0);
  status.textContent = !wanted.length ? "" : rows ? `${rows} of ${of} rows, in ${tables} tables (folded too). Means are of all.` : "No row matches.";
};
search.addEventListener("input", apply);
reset.addEventListener("click", () => {
  search.value = "";
  for (const grid of grids) grid.reset();
  apply();
});
if (grids.length) {
  const form = make("form", { class: "tools", role: "search" }, make("p", {}, "Filter rows"), search, reset, status);
  form.addEventListener("submit", event => event.preventDefault());
  document.querySelector("nav").prepend(form);
}

// A link into a folded part opens it.
const reveal = () => {
  const target = location.hash && document.getElementById(decodeURIComponent(location.hash.slice(1)));
  if (!target) return;
  for (let at = target; at; at = at.parentElement) if (at.localName === "details") at.open = true;
  target.scrollIntoView();
};
addEventListener("hashchange", reveal);
reveal();

// Boxes that do not scroll need no stop of the tab key.
const stops = () => {
  for (const scroller of all(".scroll")) {
    if (!scroller.clientWidth) continue;
    if (scroller.scrollWidth > scroller.clientWidth) scroller.tabIndex = 0;
    else scroller.removeAttribute("tabindex");
  }
};
addEventListener("resize", stops);
document.addEventListener("toggle", stops, true);
stops();
})();
