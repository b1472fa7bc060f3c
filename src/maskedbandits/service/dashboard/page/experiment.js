// One experiment: numbers first, then plots, and the actions of an administrator.
import { follow, send } from "./requests.js";
import { Table, decimal, element, head, once, percent, reward, say, whole } from "./elements.js";
import { Groups } from "./groups.js";
import { LOOKS, Plot, clock, sample } from "./plots.js";

const RANGES = [["5 minutes", 300], ["2 hours", 7200], ["A week", 604800]];
const PER_ARM = ["estimate", "low", "high", "share"];
const SUMS = [["reports", "Reports received"], ["decisions", "Decisions"], ["pending", "Pending"], ["missing", "Missing"],
  ["duplicate", "Duplicate"], ["late", "Late"], ["refused", "Rejected"], ["held_back", "Held back"],
  ["alarms", "Changes detected"]];
const SPANS = [5, 10, 30, 60, 120, 300, 600, 1800, 3600, 7200, 21600, 43200, 86400]; // seconds that a row of a table covers
const HEARD = ["history", "state", "trouble", "you"];
const ARMS = ["Arm", "Estimated reward", "Share", "Decisions", "Reports", "Pending", "Missing"];
const COUNTED = ["decisions", "reports", "missing", "duplicate", "late"];

export class Page {
  constructor(name) {
    this.name = name;
    this.path = `v1/experiments/${encodeURIComponent(name)}`;
    this.may = [];
    this.range = 0;
    this.build();
    follow(`${this.path}/live`, (event, told) => HEARD.includes(event) && this[event](told));
  }

  build() {
    const made = (kind, attributes, ...children) => element(kind, attributes, ...children);
    this.status = made("span", { class: "status" });
    this.told_of = made("p", { class: "said", role: "status" });
    this.concerns = made("ul", { class: "concerns", "aria-label": "To look into" });
    this.lead = made("p", { class: "lead" });
    this.toggle = made("button", { type: "button", onclick: () => this.change() });
    this.said = made("p", { class: "said", role: "status" });
    this.actions = made("div", { class: "actions", hidden: true }, this.toggle, this.adding(), this.leaving());
    this.sums = Object.fromEntries(SUMS.map(([sum]) => [sum, made("dd")]));
    this.tiles = made("dl", { class: "tiles" },
      ...SUMS.map(([sum, label]) => made("div", {}, made("dt", {}, label), this.sums[sum])));
    this.arms = new Table("Arms");
    this.groups = new Groups();
    this.more = made("p", { class: "pale" });
    this.privacy = made("p");
    this.ranges = made("div", { class: "actions", role: "group", "aria-label": "How far back" }, ...RANGES.map(([label, range]) =>
      made("button", { type: "button", class: "small", onclick: () => { this.range = range; this.draw(); } }, label)));
    const panels = made("div", { class: "panels" });
    document.getElementById("main").replaceChildren(head(this.name, this.status), this.told_of,
      made("div", { role: "status", "aria-atomic": "false" }, this.concerns), this.lead, this.tiles, this.arms.box, this.groups.box, this.more,
      made("h2", {}, "Privacy per report"), this.privacy, this.actions, this.said, made("h2", {}, "Over time"), this.ranges, panels);
    this.plots = [this.panel(panels, "Estimated reward, with its interval", decimal, zoomed),
      this.panel(panels, "Share of the latest decisions", percent, () => [0, 1]),
      this.panel(panels, "Decisions and reports in this time", whole, fromZero)];
  }

  adding() {
    const name = element("input", { required: true, maxlength: "200", "aria-label": "Name of the new arm", placeholder: "name" });
    const payload = element("textarea", { rows: "2", "aria-label": "Payload, JSON", placeholder: "payload: JSON, or nothing" });
    const form = element("form", { onsubmit: (event) => {
      event.preventDefault();
      this.act("Added.", async () => {
        const arm = { name: name.value, payload: payload.value.trim() ? JSON.parse(payload.value) : null };
        await send("POST", `${this.path}/arms`, arm);
        form.reset();
      });
    } }, name, payload, element("button", {}, "Add"));
    return element("details", {}, element("summary", {}, "Add an arm"), form);
  }

  // With groups, no row of a table is about one arm.
  leaving() {
    this.leavers = element("ul", { class: "leavers" });
    this.leave = element("details", { hidden: true }, element("summary", {}, "Retire an arm"), this.leavers);
    return this.leave;
  }

  panel(panels, title, shown, range) {
    const legend = element("ul", { class: "legend" }), box = element("div", { class: "plot", role: "group", "aria-label": `${title}: arrow keys read it` });
    const picture = document.createElementNS("http://www.w3.org/2000/svg", "svg");
    picture.setAttribute("aria-hidden", "true");
    box.append(picture);
    const table = new Table(`${title}, as a table`);
    const data = element("details", {}, element("summary", {}, "As a table", element("span", { class: "unseen" }, `: ${title}`)), table.box);
    const section = element("section", {}, element("h3", {}, title), legend, box, element("p", { class: "readout", "aria-live": "polite" }), data);
    panels.append(section);
    const plot = new Plot(box, { shown, range });
    data.addEventListener("toggle", () => this.draw());
    return { plot, section, legend, data, table, shown };
  }

  // Events of the stream

  you({ may }) {
    this.may = may;
    this.actions.hidden = !may.includes("admin");
    if (this.told) this.state(this.told);
  }

  trouble({ text }) { say(this.told_of, text); }

  history(told) { this.past = told; }

  state(told) {
    this.told = told;
    say(this.status, told.status);
    this.status.className = `status ${told.status}`;
    say(this.toggle, told.status === "running" ? "Pause" : "Start");
    this.toggle.hidden = told.status === "archived";
    say(this.lead, told.lead);
    const concerns = told.concerns.map(({ text }) => text);
    for (const item of [...this.concerns.children]) if (!concerns.includes(item.textContent)) item.remove();
    const known = [...this.concerns.children].map((item) => item.textContent); // announced once, when it appears
    this.concerns.append(...concerns.filter((text) => !known.includes(text)).map((text) => element("li", {}, text)));
    this.concerns.hidden = !concerns.length;
    for (const [sum] of SUMS) say(this.sums[sum], whole(told.sums[sum]));
    if (told.groups) this.byGroup(told);
    else this.rows(told);
    const others = told.open - told.arms.length;
    say(this.more, [told.more ? `${whole(told.more)} more groups.` : "", others ? `${whole(others)} more arms are open.` : "", told.retired ? `${whole(told.retired)} retired.` : "",
      told.note ?? `Shares are of the latest ${whole(told.latest)} decisions.`, `Policy ${told.policy}.`].filter(Boolean).join(" "));
    say(this.privacy, `ε = ${told.epsilon} per report. ${told.meaning}`);
    this.append(told.point);
    this.draw();
  }

  append(point) {
    const past = (this.past ??= { ...point, at: [], arms: [] });
    if (past.at.length && past.at[past.at.length - 1] >= point.at[0]) return;
    const many = past.at.length;
    for (const name of ["at", "alarms", ...COUNTED]) (many ? past[name] : (past[name] = [])).push(point[name][0]);
    for (const { place, name } of point.arms) {
      if (past.arms.some((arm) => arm.place === place)) continue;
      past.arms.push({ place, name, ...Object.fromEntries(PER_ARM.map((which) => [which, Array(many).fill(null)])) });
    }
    // Of many arms, each second may show others: keep the current ones, and the latest of the others while there is room.
    const isNow = new Set(point.arms.map(({ place }) => place)), before = past.arms.filter(({ place }) => !isNow.has(place));
    const gone = new Set(before.slice(0, Math.max(0, past.arms.length - LOOKS)));
    past.arms = past.arms.filter((arm) => !gone.has(arm));
    for (const arm of past.arms) {
      const now = point.arms.find(({ place }) => place === arm.place);
      for (const which of PER_ARM) arm[which].push(now ? now[which][0] : null);
    }
  }

  rows({ arms }) {
    const admin = this.may.includes("admin");
    this.arms.show([...ARMS, ...(admin ? [""] : [])], arms.map(({ name }) => name), (cells, row) => {
      const arm = arms[row], [name, value, share, ...counts] = cells;
      once(name, () => [element("span", {}, sample(arm.place), element("span", {}, arm.name))]);
      reward(value, arm);
      say(share, percent(arm.share));
      ["decisions", "reports", "pending", "missing"].forEach((which, place) => say(counts[place], whole(arm[which])));
      if (admin) once(cells[ARMS.length], () => [this.retiring(arm.name)]);
    });
  }

  byGroup({ arms, groups }) {
    this.groups.show(groups);
    this.arms.box.hidden = true;
    this.leave.hidden = false;
    for (const { section } of this.plots.slice(0, 2)) section.hidden = true; // the shown arm is unknown
    const shape = JSON.stringify(arms);
    if (shape === this.shape) return;
    this.shape = shape;
    this.leavers.replaceChildren(...arms.map(({ name }) => element("li", {}, element("span", {}, name), " ", this.retiring(name))));
  }

  // Draw nothing without numbers, and no more than the chosen range.
  draw() {
    if (!this.past?.at.length) return;
    const { at } = this.past, now = at[at.length - 1];
    const range = this.range || (RANGES.find(([, seconds]) => now - at[0] <= seconds) ?? RANGES[2])[1];
    [...this.ranges.children].forEach((button, place) => button.setAttribute("aria-pressed", String(RANGES[place][1] === range)));
    const from = at.findIndex((time) => time >= now - range), cut = (values) => values.slice(from), times = cut(at);
    const alarms = cut(this.past.alarms), changes = alarms.flatMap((count, place) => Array(place ? Math.max(0, count - alarms[place - 1]) : 0).fill(place));
    const arms = this.past.arms.filter((arm) => cut(arm.estimate).some((value) => value !== null));
    const series = (values, band) => arms.map((arm) => ({ name: arm.name, number: arm.place, values: cut(arm[values]),
      ...(band && { low: cut(arm.low), high: cut(arm.high) }) }));
    const counts = COUNTED.map((name, number) => ({ name, number, values: cut(this.past[name]).map((value) => value - this.past[name][from]) }));
    [series("estimate", true), series("share"), counts].forEach((shown, place) => this.fill(this.plots[place], times, shown, place < 2 || this.told?.groups ? changes : null));
  }

  fill({ plot, legend, data, table, shown }, times, series, changes) {
    plot.show(times, series, changes ?? []);
    const entries = [...series.map(({ name }) => name), ...(changes?.length ? ["┆ a change was detected"] : [])];
    if (entries.join("\n") !== legend.dataset.entries) {
      legend.dataset.entries = entries.join("\n");
      legend.replaceChildren(...entries.map((name, place) => element("li", {}, ...(place < series.length ? [sample(series[place].number)] : []), name)));
    }
    if (data.open) this.list(table, shown, times, series, changes);
  }

  // The plot as a table: the last point of each span of time, so that a row stays until its span is over.
  list(table, shown, times, series, changes) {
    const last = times.length - 1, all = times[last] - times[0], span = SPANS.find((seconds) => all <= 12 * seconds);
    const slot = (place) => Math.floor(times[place] / span);
    const places = times.map((_, place) => place).filter((place) => place === last || slot(place + 1) > slot(place));
    const heads = ["Time", ...series.map(({ name }) => name), ...(changes ? ["Changes detected"] : [])];
    table.show(heads, places.map(slot), (cells, row) => {
      const place = places[row], before = row ? places[row - 1] : -1;
      const said = series.map(({ values, low, high }) => (values[place] === null ? "–"
        : shown(values[place]) + (low ? ` (${shown(low[place])}\u00a0to\u00a0${shown(high[place])})` : "")));
      const seen = changes && changes.filter((change) => change > before && change <= place).length;
      [clock(times[place], all), ...said, ...(changes ? [String(seen)] : [])].forEach((text, column) => say(cells[column], text));
    });
  }

  // Actions of an administrator

  retiring(name) {
    let sure = false;
    const label = (asked) => {
      sure = asked;
      say(button, asked ? "For good?" : "Retire");
      button.setAttribute("aria-label", `${asked ? "For good? " : ""}Retire ${name}`);
    };
    const unsure = () => label(false);
    const button = element("button", { type: "button", class: "small", onblur: unsure, onmouseleave: unsure, onclick: () => {
      if (sure) this.act("Retired.", () => send("POST", `${this.path}/arms/${encodeURIComponent(name)}/retire`));
      label(!sure);
    } });
    unsure();
    return button;
  }

  change() {
    const status = this.told.status === "running" ? "paused" : "running";
    this.act(status === "paused" ? "Paused: everyone is shown the default arm." : "Started.", () => send("PATCH", this.path, { status }));
  }

  async act(done, work) {
    try {
      await work();
      say(this.said, done);
    } catch (error) {
      say(this.said, error instanceof SyntaxError ? "The payload is no JSON: write it in quotes, or leave it out." : error.message);
    }
  }
}

// The range of a plot

function zoomed(series) {
  const now = series.flatMap(({ low, high }) => [low[low.length - 1], high[high.length - 1]]);
  const all = [...now, ...series.flatMap(({ values }) => values)].filter((value) => value !== null);
  if (!all.length) return [0, 1];
  const low = Math.min(...all), high = Math.max(...all), room = Math.max(0.05 * (high - low), 0.01);
  return [Math.max(0, low - room), Math.min(1, high + room)];
}

const fromZero = (series) => [0, Math.max(10, ...series.flatMap(({ values }) => values)) * 1.05];
