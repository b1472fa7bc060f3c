// The network traffic of many visits: `node test/traffic.js 10000` prints it as JSON for the tests in Python.
//
// A world can be played twice with the same random numbers: the same delays, server failures and pages that close and come
// back, but with other rewards or another group. Then each request must leave at the same moment with the same length, and
// each question must be the same. Devices send on their own, with the timers of a page.
import { argv } from "node:process";
import { fileURLToPath } from "node:url";
import { Page } from "./page.js";
import { START, World, opened } from "./world.js";

/** A seeded generator of numbers in [0, 1) (mulberry32). */
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

const MAX_TIMERS = 60; // of a visit: a sound device needs fewer

export const GROUPS = ["a", "much older than that", "neither"];

/** Experiments with groups, of both kinds of answers; arms, names and payloads of the groups differ in length. */
const groupDecision = (signs) => ({ arm: undefined, arms: ["plain", "b", "longest"], payloads: { plain: 1, b: { x: "y" } }, signs });
export const KINDS = { bit: groupDecision([1, 0, 1]), "one of many": groupDecision(null) };

/** Play visits, one every second, each with a new device; seeded ones have the same delays each time. */
export async function play(client, people, visits, isSeeded, options = {}, first = 0) {
  const [real, log] = [crypto.getRandomValues, []];
  let delays;
  crypto.getRandomValues = (array) =>
    isSeeded && array instanceof Uint32Array ? array.map(() => 2 ** 32 * delays()) : real.call(crypto, array);
  try {
    for (let visit = first; visit < first + visits; visit++) {
      delays = random(visit);
      log.push(await playVisit(client, people, visit, options));
    }
  } finally {
    crypto.getRandomValues = real;
  }
  return log;
}

/** Play one visit; return the reward and every request as the network sees it. A click may hide the page, or lead away. */
async function playVisit(client, people, visit, { group = null, kind, click = "stays", isCalm = false, times = {}, terms = {}, url }) {
  const [world, rng, store, begin] = [new World(), random(1e6 + visit), client.inMemory(), START + visit];
  const options = { store, maxEpsilon: 1, background: true, ...terms, ...(group !== null && { groups: GROUPS, group }) };
  Object.assign(world, times);
  world.decision = KINDS[kind] ?? {};
  world.at = begin;
  const failures = isCalm ? [1, 1] : [rng(), rng()]; // calm: nothing fails, and no page closes
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
    for (let left = MAX_TIMERS; left > 0 && (await countPromises(store)) > 0; left--) await page.next();
    device.close();
  } finally {
    page.close();
  }
  const requests = world.arrivals.map(({ at, size, bit, answer }) => ({ at: at - begin, size, bit: bit ?? answer }));
  const known = reward === 0.5 || (reward !== null && !isInTime) ? 0.5 : reward ?? 0; // 0.5: not known
  const sent = world.requests.map(({ url, headers, body }) => ({ url, headers, size: body.length }));
  return { reward: known, requests, sent, farewells: page.farewells, questions: world.questions, taken: [...world.taken.values()] };
}

const countPromises = async (store) => Object.keys((await store.get("book"))?.rows ?? {}).length;

if (argv[1] === fileURLToPath(import.meta.url)) {
  const client = await import("../client.js");
  const visits = Number(argv[2] ?? 1000);
  const [clicks, other, free] = [await play(client, all, visits, true), await play(client, silence, visits, true), await play(client, everybody, visits, false)];
  const hidden = await play(client, all, visits, false, { click: "hides" });
  const seen = (log) => log.map(({ requests }) => requests.map(({ at, size }) => [at, size]));
  const judged = (log) => log.map(({ reward, requests, taken }) => ({ reward, requests, taken }));
  console.log(JSON.stringify({ clicks: seen(clicks), silence: seen(other), free: judged(free), hidden: judged(hidden) }));
}
