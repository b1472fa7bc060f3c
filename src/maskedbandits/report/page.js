// What a reader can do with a page: sort tables, hide and show curves, read their numbers. Without it all is still there.
"use strict";

const facts = JSON.parse(document.getElementById("numbers").textContent);

// Tables: a click on a heading sorts by it, another one the other way round; what says nothing stays at the end.
function sorted(rows, column, way) {
  const key = (row) => {
    const { number, text } = row.cells[column].dataset;
    return number === undefined ? text : number === "" ? null : Number(number);
  };
  return [...rows].sort((one, other) => {
    const [a, b] = [key(one), key(other)];
    if (a === null || b === null) return (a === null) - (b === null);
    return way * (typeof a === "string" ? a.localeCompare(b) : a === b ? 0 : a < b ? -1 : 1);
  });
}

for (const table of document.querySelectorAll("table.sortable")) {
  const body = table.tBodies[0];
  const rows = [...body.rows]; // ties stay in this order
  const heads = [...table.tHead.rows[0].cells];
  heads.forEach((head, column) => {
    head.querySelector("button").addEventListener("click", () => {
      const rising = head.getAttribute("aria-sort") !== "ascending";
      for (const each of heads) each.setAttribute("aria-sort", "none");
      head.setAttribute("aria-sort", rising ? "ascending" : "descending");
      body.replaceChildren(...sorted(rows, column, rising ? 1 : -1));
      table.classList.add("sorted");
    });
  });
}

// Legends: an entry hides its policy in the figure, or shows it again.
for (const button of document.querySelectorAll(".legend button")) {
  button.addEventListener("click", () => {
    const shown = button.getAttribute("aria-pressed") !== "true";
    button.setAttribute("aria-pressed", String(shown));
    const parts = button.closest("figure").querySelectorAll(`[data-series="${button.dataset.toggles}"]`);
    for (const part of parts) part.classList.toggle("hidden", !shown);
    rescale(button.closest("figure"));
  });
}

// Linear panels fit the curves that are shown; those that share a scale go on sharing it.
function rescale(figure) {
  const isShown = ({ number }) => {
    const entry = figure.querySelector(`[data-toggles="${number}"]`);
    return !entry || entry.getAttribute("aria-pressed") === "true";
  };
  const boxes = [...figure.querySelectorAll(".plot[data-panel]")].filter(({ dataset }) => facts.panels[dataset.panel].limits);
  const tops = boxes.map(({ dataset }) => {
    const { series, limits } = facts.panels[dataset.panel];
    const shown = series.filter(isShown);
    const ends = shown.flatMap(({ values, halves }) => values.map((value, at) => value + ((halves && halves[at]) || 0)));
    return shown.length === series.length || !shown.length ? limits[1] : 1.05 * Math.max(...ends) || limits[1];
  });
  boxes.forEach((box, index) => {
    const panel = facts.panels[box.dataset.panel];
    const wanted = panel.shared ? Math.max(...tops) : tops[index];
    scalePanel(box.querySelector("svg"), panel, Math.min(wanted, panel.limits[1]));
  });
}

function scalePanel(svg, panel, top) {
  const [low, high] = panel.limits;
  const [, , , height] = svg.getAttribute("viewBox").split(" ").map(Number);
  const [above, below] = [panel.top * height, panel.bottom * height];
  const factor = (high - low) / (top - low);
  const around = (y, scale) => (scale === 1 ? "" : `translate(0 ${y * (1 - scale)}) scale(1 ${scale})`);
  for (const part of svg.querySelectorAll("[data-series]")) {
    part.setAttribute("transform", around(below, factor));
    for (const path of part.querySelectorAll("path")) path.setAttribute("vector-effect", "non-scaling-stroke");
    if (part.id.endsWith("-band")) continue;
    for (const marker of part.querySelectorAll("use")) {
      marker.setAttribute("transform", around(Number(marker.getAttribute("y")), 1 / factor)); // keeps its shape
    }
  }
  const ticks = [...svg.querySelectorAll('[id*="-ytick_"]')].filter((tick) => tick.querySelector("use"));
  const values = factor === 1 ? null : chooseTicks(low, top, ticks.length);
  ticks.forEach((tick, index) => {
    const text = tick.querySelector("text");
    tick.dataset.before ??= text.textContent;
    const value = values && values[index];
    tick.classList.toggle("hidden", values !== null && value === undefined);
    const moved = value === null || value === undefined ? 0 : below - ((value - low) / (top - low)) * (below - above);
    const from = Number(tick.querySelector("use").getAttribute("y"));
    tick.setAttribute("transform", values && value !== undefined ? `translate(0 ${moved - from})` : "");
    text.textContent = values && value !== undefined ? shorten(value) : tick.dataset.before;
  });
}

// At most so many round numbers between two limits.
function chooseTicks(low, high, most) {
  const digit = 10 ** Math.floor(Math.log10((high - low) / most));
  const step = [1, 2, 2.5, 5, 10, 20].map((times) => times * digit).find((each) => high / each - low / each < most);
  const first = Math.ceil(low / step);
  return Array.from({ length: Math.floor(high / step) - first + 1 }, (_, index) => (first + index) * step);
}

function shorten(value) {
  const [size, letter] = [[1e9, "G"], [1e6, "M"], [1e3, "k"]].find(([size]) => Math.abs(value) >= size) ?? [1, ""];
  return `${Number((value / size).toPrecision(4))}${letter}`.replace("-", "\u2212");
}

// Numbers under the pointer, the finger, or the arrow keys.
function decimals(value) {
  if (typeof value !== "number") return value === null ? "" : "∞";
  const digits = Math.abs(value) >= 1000 ? 0 : 1;
  return value.toLocaleString("en-US", { minimumFractionDigits: digits, maximumFractionDigits: digits });
}

function element(kind, name, text = "") {
  const made = document.createElement(kind);
  made.className = name;
  made.textContent = text; // never markup: names are somebody's own
  return made;
}

class Plot {
  constructor(box) {
    this.box = box;
    this.panel = facts.panels[box.dataset.panel];
    this.place = -1;
    this.rule = element("div", "rule");
    this.readout = element("div", "readout");
    this.readout.setAttribute("aria-live", "polite");
    this.hide();
    box.append(this.rule, this.readout);
    const read = (event) => this.show(this.nearest(event.clientX));
    box.addEventListener("pointermove", read);
    box.addEventListener("pointerdown", read);
    box.addEventListener("pointerleave", (event) => event.pointerType === "mouse" && this.hide());
    box.addEventListener("blur", () => this.hide());
    box.addEventListener("keydown", (event) => this.key(event));
  }

  nearest(clientX) {
    const { left, width } = this.box.querySelector("svg").getBoundingClientRect();
    const at = (clientX - left) / width;
    const away = this.panel.places.map((place) => Math.abs(place - at));
    return away.indexOf(Math.min(...away));
  }

  key(event) {
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (event.key === "Escape") this.hide();
    if (!step) return;
    event.preventDefault();
    const last = this.panel.places.length - 1;
    this.show(Math.min(Math.max((this.place < 0 ? last : this.place) + step, 0), last));
  }

  visible(number) {
    const entry = this.box.closest("figure").querySelector(`[data-toggles="${number}"]`);
    return !entry || entry.getAttribute("aria-pressed") === "true";
  }

  lines(place) {
    return this.panel.series
      .filter(({ number, values }) => this.visible(number) && values[place] !== null)
      .sort((one, other) => other.values[place] - one.values[place])
      .map(({ number, what, values, halves }) => {
        const line = element("div", "line");
        const swatch = element("span", "swatch");
        swatch.style.background = `var(--series-${number % facts.colours})`;
        const half = halves && halves[place] !== null ? ` ± ${decimals(halves[place])}` : "";
        const name = element("span", "name", facts.names[number] + what);
        line.append(swatch, name, element("span", "value", decimals(values[place]) + half));
        return line;
      });
  }

  show(place) {
    this.place = place;
    const { left, width, height } = this.box.querySelector("svg").getBoundingClientRect();
    const x = this.panel.places[place] * width;
    this.rule.style.top = `${this.panel.top * height}px`;
    this.rule.style.height = `${(this.panel.bottom - this.panel.top) * height}px`;
    this.rule.style.left = `${x + left - this.box.getBoundingClientRect().left}px`;
    this.readout.replaceChildren(element("div", "when", this.panel.heads[place]), ...this.lines(place));
    this.readout.classList.toggle("to-the-left", x > width / 2);
    this.rule.hidden = this.readout.hidden = false;
  }

  hide() {
    this.place = -1;
    this.rule.hidden = this.readout.hidden = true;
  }
}

for (const box of document.querySelectorAll(".plot[data-panel]")) new Plot(box);

// On paper nothing is folded away.
matchMedia("print").addEventListener("change", ({ matches }) => {
  for (const folded of document.querySelectorAll("details")) {
    if (matches) folded.dataset.before = String(folded.open);
    folded.open = matches || folded.dataset.before === "true";
  }
});
