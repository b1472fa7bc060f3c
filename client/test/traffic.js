// What the network sees of many visits: `node test/traffic.js 10000` prints it as JSON, for whoever judges it.
//
// Worlds can be played twice with the same chances: the same delays, the same failures of the server, the same pages that
// are left and come back, and other rewards, or people of another group. Then each request must leave at the same moment and
// have the same length, and each question must be the same. Devices send by themselves, with the timers of a page.
import { argv } from "node:process";
import { fileURLToPath } from "node:url";
import { Page } from "./page.js";
import { START, World, opened } from "./world.js";

/** Numbers in [0, 1) that are the same each time (mulberry32). */
export function random(seed) {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let t = Math.imul(state ^ (state >>> 15), 1 | state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
  };
}

export const all = () => 1;
export const nobody = () => 0;
export const silence = () => null;
export const everybody = (rng) => [1, 0, null, 0.5][Math.floor(4 * rng())];

export const GROUPS = ["a", "much older than that", "neither"];

/** Experiments with groups, of both kinds of answers: each group has an arm of its own, and names and payloads differ in length. */
const asked = (signs) => ({ arm: undefined, arms: ["plain", "b", "longest"], payloads: { plain: 1, b: { x: "y" } }, signs });
export const KINDS = { bit: asked([1, 0, 1]), "one of many": asked(null) };

/** Let people come, one every second, each with a device of their own; with a seed the delays are the same each time. They
 * are of a group, if one is given, and asked so. */
export async function play(client, people, visits, isSeeded, told = {}, first = 0) {
  const [real, log] = [crypto.getRandomValues, []];
  let delays;
  crypto.getRandomValues = (array) =>
    isSeeded && array instanceof Uint32Array ? array.map(() => 2 ** 32 * delays()) : real.call(crypto, array);
  try {
    for (let visit = first; visit < first + visits; visit++) {
      delays = random(visit);
      log.push(await visited(client, people, visit, told));
    }
  } finally {
    crypto.getRandomValues = real;
  }
  return log;
}

/** One visit: what was done, and every request as the network saw it. A click may hide the page, or lead away from it. */
async function visited(client, people, visit, { group = null, kind, click = "stays", isCalm = false, times = {}, terms = {}, url }) {
  const [world, rng, store, begin] = [new World(), random(1e6 + visit), client.inMemory(), START + visit];
  const options = { store, maxEpsilon: 1, background: true, ...terms, ...(group !== null && { groups: GROUPS, group }) };
  Object.assign(world, times);
  world.decision = KINDS[kind] ?? {};
  world.at = begin;
  const failures = isCalm ? [1, 1] : [rng(), rng()]; // calm: nothing fails, and nobody leaves
  world.fails = (count) => (count > 2 ? "" : failures[count - 1] < 0.15 ? "before" : failures[count - 1] < 0.3 ? "after" : "");
  const [after, leaves, back, phase] = [50 * rng(), rng() < (isCalm ? 0 : 0.3) ? 80 * rng() : Infinity, 200 + 1000 * rng(), 60 * rng()];
  const reward = people(random(2e6 + visit));
  const isInTime = reward !== null && after < leaves;
  const page = new Page(world, phase);
  try {
    let device = opened(client, options, url);
    const decision = await device.decide();
    if (isInTime) {
      await page.until(begin + after);
      await decision.report(reward);
      if (click === "hides") await page.hide();
    }
    const gone = isInTime && click === "leads away" ? begin + after : begin + leaves;
    if (gone < Infinity) {
      await page.until(gone);
      await page.go();
      world.at = gone + back;
      page.come();
      device = opened(client, options, url);
    }
    for (let left = 200; left > 0 && (await promises(store)) > 0; left--) await page.next();
    device.close();
  } finally {
    page.close();
  }
  const requests = world.arrivals.map(({ at, size, bit, answer }) => ({ at: at - begin, size, bit: bit ?? answer }));
  const told = reward === 0.5 || (reward !== null && !isInTime) ? 0.5 : reward ?? 0; // 0.5: nobody can say
  const sent = world.requests.map(({ url, headers, body }) => ({ url, headers, size: body.length }));
  return { reward: told, requests, sent, farewells: page.farewells, questions: world.questions, taken: [...world.taken.values()] };
}

const promises = async (store) => Object.keys((await store.get("book"))?.rows ?? {}).length;

if (argv[1] === fileURLToPath(import.meta.url)) {
  const client = await import("../client.js");
  const visits = Number(argv[2] ?? 1000);
  const [clicks, other, free] = [await play(client, all, visits, true), await play(client, silence, visits, true), await play(client, everybody, visits, false)];
  const hidden = await play(client, all, visits, false, { click: "hides" });
  const seen = (log) => log.map(({ requests }) => requests.map(({ at, size }) => [at, size]));
  const judged = (log) => log.map(({ reward, requests, taken }) => ({ reward, requests, taken }));
  console.log(JSON.stringify({ clicks: seen(clicks), silence: seen(other), free: judged(free), hidden: judged(hidden) }));
}
