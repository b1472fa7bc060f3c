// The page of the demonstration. On the left is a visitor's device, with the module of real pages. The rest shows the
// events of the crowd, twice a second.

import { Device, inMemory } from "./client.js";

const FACES = ["☀", "☾", "★"];
const HURRY = { jitter: 0.5, demonstration: true, sticky: false, timeout: 10 }; // simulated visitors wait for no minutes
const SHOWN = 60; // seconds in the plot
const find = (id) => document.getElementById(id);
const pause = (seconds) => new Promise((done) => setTimeout(done, 1000 * seconds));
const percent = (share) => `${Math.round(100 * share)} %`;

let news = null, service = null; // the last event of the crowd, and the address of the service
const history = new Map(); // by experiment: [time, pulls of each arm]

const chosen = () => news.experiments[Number(find("epsilon").value)];

function element(kind, attributes = {}, ...children) {
  const made = document.createElement(kind);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

// ---- The device: every visitor has a new one, with its own store

let clicks = null; // the viewer may click for the visitor
let wish = null; // or for the next one, if this one has acted
let present = null; // the visitor on the page: the token of its report, and the callback for when it leaves

async function visitor() {
  const { name, epsilon } = chosen(), here = (present = {});
  const left = new Promise((done) => { here.leaves = done; });
  const device = new Device(service, name, { cap: epsilon, maxEpsilon: epsilon, ...HURRY, store: watched(here) });
  try {
    const decision = await device.decide();
    if (!decision.participates) throw new Error(decision.why);
    const reward = await acts(news.arms.indexOf(decision.arm));
    if (!(await decision.report(reward))) throw new Error("the report has left before the click"); // of silence
    await toss(here.kept !== reward);
    find("bit").textContent = String(here.kept);
    find("bit").setAttribute("aria-label", `Report: ${here.kept}`);
    find("wire").textContent = "Waits for its time to leave. A click is sent no sooner than silence.";
    find("wire").textContent = await Promise.race([left, pause(10).then(() => "Will be sent later.")]);
  } finally {
    setTimeout(() => device.close(), 60_000); // a report without a reply is sent once more
  }
}

// The store of a device, with its content visible to this page.
function watched(here) {
  const memory = inMemory();
  return {
    ...memory,
    async add(key, answer, instead) {
      const isFirst = await memory.add(key, answer, instead);
      if (isFirst) here.kept = answer; // later answers, such as that of silence, are not sent
      return isFirst;
    },
    put(entries) {
      for (const [, { rows = {} }] of entries) for (const { token } of Object.values(rows)) here.token = token;
      return memory.put(entries);
    },
  };
}

async function acts(arm) {
  show(arm);
  const asked = wish;
  wishFor(null);
  const reward = await new Promise((done) => {
    clicks = done;
    const acted = asked ?? Number(Math.random() < news.rates[arm]);
    setTimeout(() => done(acted), 1300);
  });
  clicks = null;
  find("truth").textContent = reward ? "clicks. This stays on the device." : "does not click. This stays on the device.";
  await pause(0.5);
  return reward;
}

function wishFor(reward) {
  wish = reward;
  find("wish").textContent = ["The next visitor ignores it.", "The next visitor clicks."][reward] ?? "";
}

const act = (reward) => (clicks ? clicks(reward) : wishFor(reward));

function show(arm) {
  find("card").replaceChildren(FACES[arm], element("small", {}, news.arms[arm]));
  find("card").className = `arm${arm}`;
  for (const id of ["truth", "flip", "bit"]) find(id).textContent = "";
  find("bit").removeAttribute("aria-label");
  find("coin").textContent = "";
  find("wire").textContent = "";
}

async function toss(isTurned) {
  const coin = find("coin");
  coin.classList.remove("spins");
  void coin.offsetWidth; // restarts the animation
  coin.classList.add("spins");
  await pause(0.7);
  coin.textContent = isTurned ? "⇄" : "✓";
  find("flip").textContent = isTurned ? "Invert the answer" : "Keep the answer";
}

// Show a request of the current visitor as it leaves; earlier visitors may send again.
const real = window.fetch;
window.fetch = (address, options) => {
  if (String(address).endsWith("/v1/reports")) {
    const { token, ...rest } = JSON.parse(options.body);
    if (token === present.token) present.leaves(JSON.stringify({ token: `${token.slice(0, 6)}…`, ...rest }));
  }
  return real(address, options);
};

async function visitors() {
  for (;;) {
    try {
      if (!document.hidden) await visitor();
    } catch (error) {
      find("truth").textContent = `Not now: ${error.message}`;
    }
    await pause(1.6);
  }
}

// ---- What the service sees and learns

function noise({ bits, truth }) {
  find("noise-words").textContent = `masked reports; ${Math.round(100 * (1 - truth))} in 100 are inverted, and nobody knows which`;
  const rows = bits.map((row, arm) => {
    const cells = Array.from({ length: 48 }, (_, place) => element("i", { class: ["zero", "one"][row[place]] ?? "none" }));
    return element("div", { class: `arm${arm}` }, element("span", {}, `${FACES[arm]} ${news.arms[arm]}`), ...cells);
  });
  find("noise").replaceChildren(...rows);
}

const bestAt = (at) => news.best[Math.floor(at / news.phase) % news.best.length];

function verdict(rows) {
  const recent = rows.filter(([at]) => at > news.now - 3);
  const sum = news.arms.map((_, arm) => recent.reduce((total, [, pulls]) => total + pulls[arm], 0));
  const all = Math.max(1, sum.reduce((a, b) => a + b, 0));
  const best = bestAt(news.now), most = sum.indexOf(Math.max(...sum));
  const share = percent(sum[most] / all);
  find("verdict").textContent = most === best
    ? `${share} of visitors see the ${news.arms[most]}, which they like best`
    : `${share} of visitors still see the ${news.arms[most]}; they now like the ${news.arms[best]} best`;
  const left = Math.ceil(news.phase - (news.now % news.phase));
  find("change").textContent = `Their taste changes in ${left} s. The service does not know.`;
}

const SVG = "http://www.w3.org/2000/svg";
function drawn(kind, attributes, text = "") {
  const made = document.createElementNS(SVG, kind);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.textContent = text;
  return made;
}

function shares(rows) {
  const picture = find("shares"), { width, height } = picture.getBoundingClientRect();
  if (!width) return; // the page is not shown yet
  const top = 54, bottom = height - 20, span = Math.min(SHOWN, Math.max(10, news.now)), from = news.now - span;
  const x = (at) => ((Math.max(at, from) - from) / span) * width;
  const parts = [];
  for (let at = Math.max(0, Math.floor(from / news.phase) * news.phase); at < news.now; at += news.phase) {
    const end = Math.min(at + news.phase, news.now);
    parts.push(drawn("rect", { x: x(at), y: 18, width: Math.max(0, x(end) - x(at)), height: 14, class: `arm${bestAt(at)}` }));
  }
  const points = smooth(rows);
  let below = points.map(() => bottom);
  news.arms.forEach((_, arm) => {
    const above = points.map(([, share], place) => below[place] - share[arm] * (bottom - top));
    const there = points.map(([at], place) => `${x(at).toFixed(1)},${above[place].toFixed(1)}`);
    const back = points.map(([at], place) => `${x(at).toFixed(1)},${below[place].toFixed(1)}`).reverse();
    parts.push(drawn("polygon", { points: [...there, ...back].join(" "), class: `arm${arm}` }));
    below = above;
  });
  parts.push(drawn("text", { x: 0, y: 12 }, "Ground truth: what visitors like best"));
  parts.push(drawn("text", { x: 0, y: 48 }, "What the service shows"));
  parts.push(drawn("rect", { x: .5, y: top, width: width - 1, height: bottom - top, class: "frame" }));
  parts.push(drawn("text", { x: 0, y: height - 4 }, span < SHOWN ? `${Math.round(span)} s ago` : "a minute ago"));
  parts.push(drawn("text", { x: width, y: height - 4, "text-anchor": "end" }, "now"));
  picture.setAttribute("viewBox", `0 0 ${width} ${height}`);
  picture.replaceChildren(...parts);
}

// Shares of five ticks at a time: thirty visitors alone would flicker.
function smooth(rows) {
  const found = [];
  for (let end = rows.length; end > 0; end -= 5) {
    const some = rows.slice(Math.max(0, end - 5), end);
    const sum = news.arms.map((_, arm) => some.reduce((total, [, pulls]) => total + pulls[arm], 0));
    const all = Math.max(1, sum.reduce((a, b) => a + b, 0));
    found.unshift([some[some.length - 1][0], sum.map((each) => each / all)]);
  }
  return found;
}

// ---- What privacy costs

function price({ epsilon, truth, lost }) {
  const most = Math.max(5, ...news.experiments.map((each) => each.lost));
  find("bars").replaceChildren(...news.experiments.map((each) => {
    const bar = element("i");
    bar.style.height = `${(110 * each.lost) / most}px`;
    return element("div", each.epsilon === epsilon ? { class: "chosen" } : {}, each.lost.toFixed(1), bar, `ε ${each.epsilon}`);
  }));
  find("price-words").textContent = `At ε = ${epsilon}, learning under privacy cost ${lost.toFixed(1)} clicks per 100 visitors in the last minute, compared with always showing the best picture.`;
  find("meaning").textContent = `ε = ${epsilon}: a report is true ${(100 * truth).toFixed(1)} % of the time.`;
  find("epsilon").setAttribute("aria-valuetext", `epsilon ${epsilon}`);
}

function refresh() {
  if (!news) return;
  const rows = history.get(chosen().name);
  noise(chosen());
  verdict(rows);
  shares(rows);
  price(chosen());
}

function hear(latest) {
  news = latest;
  for (const { name, ticks } of latest.experiments) {
    const rows = [...(history.get(name) ?? []), ...ticks];
    history.set(name, rows.filter(([at]) => at > latest.now - SHOWN - 2));
  }
  refresh();
}

// ---- The beginning

const USUAL_START = 15; // seconds

async function begin() {
  const opened = Date.now();
  while (!service) {
    ({ service } = await (await fetch("where")).json());
    if (service) break;
    const waited = (Date.now() - opened) / 1000;
    find("progress").value = 100 * (1 - Math.exp((-1.5 * waited) / USUAL_START)); // always moves, and never ends too soon
    find("status").textContent = `Starting the service … ${Math.round(waited)} s`;
    await pause(0.5);
  }
  const events = new EventSource("live");
  await new Promise((done) => { events.onmessage = ({ data }) => { hear(JSON.parse(data)); done(); }; });
  events.onerror = () => {
    find("status").textContent = "The demo has ended. Start it again with maskedbandits demo.";
    events.onopen = () => location.reload(); // another demonstration, with another service
  };
  find("status").textContent = "Each device inverts some answers before it sends them. The service learns all the same.";
  find("starting").hidden = true;
  document.querySelector("main").hidden = false;
  find("key").replaceChildren("Pictures:", ...news.arms.map((arm, place) => element("span", { class: `arm${place}` }, `${FACES[place]} ${arm}`)));
  const link = find("dashboard");
  [link.href, link.hidden] = [`${service}/dashboard`, false];
  visitors();
}

find("epsilon").addEventListener("input", refresh);
find("like").addEventListener("click", () => act(1));
find("leave").addEventListener("click", () => act(0));
new ResizeObserver(refresh).observe(find("shares"));
begin();
