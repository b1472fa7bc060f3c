// Small parts of the page. Names are written as text, never as markup.
import { whisker } from "./plots.js";

export const whole = (value) => value.toLocaleString("en-US");
export const decimal = (value) => (value === null ? "–" : value.toFixed(3));
export const percent = (value) => (value === null ? "–" : `${Math.round(100 * value)} %`);

export function element(kind, attributes = {}, ...children) {
  const made = document.createElement(kind);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (value !== false) made.setAttribute(name, value === true ? "" : value);
  }
  made.append(...children);
  return made;
}

export const say = (where, text) => { if (where.textContent !== text) where.textContent = text; };

// A table that keeps its cells when it is updated, so that they can be read: rows are found by key, and the text of a cell
// changes in place. `fill` gets the cells of a row; the first is its header.
export class Table {
  constructor(label) {
    this.rows = new Map();
    this.heads = element("tr");
    this.body = element("tbody");
    this.box = element("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": label },
      element("table", {}, element("thead", {}, this.heads), this.body));
  }

  show(heads, keys, fill) {
    if (heads.join("\n") !== this.shape) {
      this.shape = heads.join("\n");
      this.heads.replaceChildren(...heads.map((text, place) => element("th", { scope: "col", ...(place === 0 && { class: "name" }) }, text)));
      this.rows.clear();
      this.body.replaceChildren();
    }
    for (const [key, row] of this.rows) if (!keys.includes(key)) { row.remove(); this.rows.delete(key); }
    keys.forEach((key, place) => {
      if (!this.rows.has(key)) {
        this.rows.set(key, element("tr", {}, element("th", { scope: "row", class: "name" }), ...heads.slice(1).map(() => element("td"))));
      }
      const row = this.rows.get(key);
      if (this.body.children[place] !== row) this.body.insertBefore(row, this.body.children[place] ?? null);
      fill([...row.cells], place);
    });
  }
}

// Put parts into a cell once; later updates change their text.
export function once(cell, make) {
  if (!cell.firstChild) cell.append(...make());
  return [...cell.children];
}

// An estimate with its interval, as text and as a line.
export function reward(cell, arm) {
  const [value, range, line] = once(cell, () => [element("strong"), element("span", { class: "low-high" }), whisker(arm, arm.place)]);
  say(value, decimal(arm.estimate));
  say(range, arm.low === null ? "" : ` (${decimal(arm.low)} to ${decimal(arm.high)})`);
  line.replaceWith(whisker(arm, arm.place)); // screen readers skip it
}

export function head(title, ...more) {
  const made = element("h1", { tabindex: "-1" }, title, " ", ...more);
  document.title = `${title} – Masked Bandits`;
  return made;
}
