// Draws curves over time as SVG: lines with bands, marks where a change was detected, and the numbers under a pointer.

const SVG = "http://www.w3.org/2000/svg";
const LEFT = 46, RIGHT = 8, TOP = 8, BOTTOM = 22;
const COLOURS = 7;
export const LOOKS = 28; // distinguishable lines: each colour in four dashes

export function drawn(kind, attributes = {}, ...children) {
  const made = document.createElementNS(SVG, kind);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

// The style of an arm's line: a colour, and a dash once the colours are used up.
export const look = (number) => `s${number % COLOURS} d${Math.floor(number / COLOURS) % 4}`;

export function sample(number) {
  const line = drawn("line", { x1: 0, x2: 28, y1: 6, y2: 6, class: `curve ${look(number)}` });
  return drawn("svg", { class: "look", viewBox: "0 0 28 12", "aria-hidden": "true" }, line);
}

// The interval of an arm as a line, its estimate as a dot, all on one scale.
export function whisker({ low, estimate, high }, number) {
  const at = (value) => 2 + 96 * value;
  const box = drawn("svg", { class: "whisker", viewBox: "0 0 100 12", preserveAspectRatio: "none", "aria-hidden": "true" });
  box.append(drawn("line", { x1: 2, x2: 98, y1: 6, y2: 6, class: "grid" }));
  if (estimate === null) return box;
  box.append(drawn("line", { x1: at(low), x2: at(high), y1: 6, y2: 6, class: `curve s${number % COLOURS}` }));
  box.append(drawn("line", { x1: at(estimate), x2: at(estimate), y1: 1, y2: 11, class: `curve s${number % COLOURS}` }));
  return box;
}

// Three to six round numbers between two others.
export function ticks(low, high) {
  const rough = (high - low) / 5, size = 10 ** Math.floor(Math.log10(rough));
  const step = size * [1, 2, 5, 10].find((times) => times * size >= rough);
  const found = [];
  for (let n = Math.ceil(low / step - 1e-9); n * step <= high + 1e-9 * step; n++) found.push(n * step || 0);
  return found;
}

export function clock(at, span) {
  const date = new Date(1000 * at);
  const way = span > 172800 ? { day: "numeric", month: "short" }
    : { hour: "2-digit", minute: "2-digit", ...(span <= 900 && { second: "2-digit" }), hourCycle: "h23" };
  return date.toLocaleString("en-GB", way);
}

export class Plot {
  // `shown` formats a value, `range` returns the smallest and largest values to draw
  constructor(box, { shown, range }) {
    Object.assign(this, { box, shown, range, at: [], series: [], changes: [], place: -1 });
    this.readout = box.parentNode.querySelector(".readout");
    box.tabIndex = 0;
    const read = (event) => this.read(this.nearest(event.clientX));
    box.addEventListener("pointermove", read);
    box.addEventListener("pointerdown", read);
    box.addEventListener("pointerleave", (event) => event.pointerType === "mouse" && this.read(-1));
    box.addEventListener("blur", () => this.read(-1));
    box.addEventListener("keydown", (event) => this.key(event));
    new ResizeObserver(() => this.draw()).observe(box);
  }

  // Series are { name, number, values, low, high }; changes are indexes of the times.
  show(at, series, changes) {
    const time = this.at[this.place]; // the one being read, which moves
    Object.assign(this, { at, series, changes, place: at.indexOf(time) });
    this.draw();
    this.read(this.place);
  }

  x(at) {
    const from = this.at[0], span = Math.max(this.at[this.at.length - 1] - from, 1);
    return LEFT + ((at - from) / span) * (this.width - LEFT - RIGHT);
  }

  y(value) {
    return TOP + (1 - (value - this.low) / (this.high - this.low)) * (this.height - TOP - BOTTOM);
  }

  draw() {
    const { width, height } = this.box.getBoundingClientRect();
    if (!this.at.length || width < 80) return;
    [this.width, this.height] = [width, Math.max(height, 120)];
    [this.low, this.high] = this.range(this.series);
    const picture = this.box.querySelector("svg");
    picture.setAttribute("viewBox", `0 0 ${this.width} ${this.height}`);
    const inside = drawn("svg", { x: LEFT, y: TOP, width: Math.max(1, width - LEFT - RIGHT),
      height: this.height - TOP - BOTTOM, viewBox: `${LEFT} ${TOP} ${Math.max(1, width - LEFT - RIGHT)} ${this.height - TOP - BOTTOM}` });
    for (const place of this.changes) inside.append(this.upright(this.x(this.at[place]), "change"));
    inside.append(...this.series.flatMap((one) => this.band(one)), ...this.series.map((one) => this.curve(one)));
    if (this.place >= 0) inside.append(this.upright(this.x(this.at[this.place]), "rule"));
    picture.replaceChildren(...this.axes(), inside);
  }

  upright(x, name) {
    return drawn("line", { x1: x, x2: x, y1: TOP, y2: this.height - BOTTOM, class: name });
  }

  axes() {
    const parts = [], end = this.width - RIGHT, [first, last] = [this.at[0], this.at[this.at.length - 1]];
    for (const value of ticks(this.low, this.high)) {
      parts.push(drawn("line", { x1: LEFT, x2: end, y1: this.y(value), y2: this.y(value), class: "grid" }));
      parts.push(drawn("text", { x: LEFT - 6, y: this.y(value) + 4, "text-anchor": "end" }, this.shown(value)));
    }
    const times = [[first, "start", LEFT], [last, "end", end]];
    if (this.width > 420) times.push([(first + last) / 2, "middle", (LEFT + end) / 2]);
    for (const [at, anchor, x] of times) {
      parts.push(drawn("text", { x, y: this.height - 5, "text-anchor": anchor }, clock(at, last - first)));
    }
    return parts;
  }

  // The line has a gap where there is no value.
  curve({ number, values }) {
    let path = "", pen = "M";
    values.forEach((value, place) => {
      if (value === null) { pen = "M"; return; }
      path += `${pen}${this.x(this.at[place]).toFixed(1)} ${this.y(value).toFixed(1)}`;
      pen = "L";
    });
    return drawn("path", { d: path, class: `curve ${look(number)}` });
  }

  band({ number, values, low, high }) {
    if (!low) return [];
    const places = this.at.map((_, place) => place).filter((place) => values[place] !== null);
    const point = (place, ends) => `${this.x(this.at[place]).toFixed(1)},${this.y(ends[place]).toFixed(1)}`;
    const around = [...places.map((place) => point(place, high)), ...places.reverse().map((place) => point(place, low))];
    return [drawn("polygon", { points: around.join(" "), class: `band s${number % COLOURS}` })];
  }

  nearest(clientX) {
    const x = clientX - this.box.getBoundingClientRect().left;
    const away = this.at.map((at) => Math.abs(this.x(at) - x));
    return away.indexOf(Math.min(...away));
  }

  key(event) {
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (event.key === "Escape") this.read(-1);
    if (!step) return;
    event.preventDefault();
    const last = this.at.length - 1;
    this.read(Math.min(Math.max((this.place < 0 ? last + 1 : this.place) + step, 0), last));
  }

  read(place) {
    const moved = place !== this.place;
    this.place = place;
    const parts = place < 0 ? [] : [clock(this.at[place], 0), ...this.series
      .filter(({ values }) => values[place] !== null)
      .sort((one, other) => other.values[place] - one.values[place])
      .map(({ name, values, low, high }) => `${name} ${this.shown(values[place])}`
        + (low ? ` (${this.shown(low[place])} to ${this.shown(high[place])})` : ""))];
    if (parts.join() !== [...this.readout.children].map((part) => part.textContent).join()) // or it would be announced again
      this.readout.replaceChildren(...parts.map((text) => Object.assign(document.createElement("span"), { textContent: text })));
    if (moved) this.draw();
  }
}
