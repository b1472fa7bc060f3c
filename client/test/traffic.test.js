// The traffic of a device reveals nothing but the masked answer, and these tests detect modules that break a promise.
import assert from "node:assert/strict";
import { test } from "node:test";
import * as client from "../client.js";
import { GROUPS, KINDS, all, everybody, nobody, play, silence } from "./traffic.js";
import { LEFT, START, World, mutant, opened } from "./world.js";

const VISITS = Number(process.env.MASKEDBANDITS_VISITS ?? 60); // `make test-slow` has more

/** The promises that a module breaks. A test that expects one fault runs the check that can find it alone. */
async function findFaults(module, visits = 60, expected = null) {
  const found = new Set();
  const dice = Math.random;
  Math.random = () => (found.add("chance"), 0.5);
  const checks = { fraction: checkFractions, farewell: checkHiding, hidden: checkHiding };
  for (const name of ["times", "sizes", "presence", "lost", "bits", "early", "mask"]) checks[name] = checkRewards;
  try {
    for (const check of expected ? [checks[expected] ?? checkTerms] : [checkTerms, checkFractions, checkRewards, checkHiding]) {
      await check(module, found, visits, expected);
    }
  } finally {
    Math.random = dice;
  }
  return found;
}

/** Clicks, silence and rejections look the same to the network, but for the bit. */
async function checkRewards(module, found, visits) {
  const logs = [await play(module, all, visits, true), await play(module, silence, visits, true), await play(module, nobody, visits, true)];
  const seen = (what) => logs.map((log) => JSON.stringify(log.map(({ requests }) => requests.map(what))));
  if (new Set(seen(({ at }) => at)).size > 1) found.add("times");
  if (new Set(seen(({ size }) => size)).size > 1) found.add("sizes");
  if (new Set(seen(() => 1)).size > 1) found.add("presence");
  for (const { requests, taken } of logs.flat()) {
    if (taken.length !== 1) found.add("lost");
    if (new Set(requests.map(({ bit }) => bit)).size > 1) found.add("bits");
    if (requests.some(({ at }) => at < 120)) found.add("early");
  }
  const sure = logs.slice(0, 2).map((log) => log.filter(({ reward }) => reward !== 0.5));
  const ones = sure.map((log) => log.filter(({ taken }) => taken[0] === 1).length / log.length);
  if (ones[0] - ones[1] > 0.95) found.add("mask"); // 0.46 at epsilon = 1: 40 visits come so far once in 10^10 times
}

/** Nothing leaves when a click leads away or hides the page, and hidden pages report when others do. */
async function checkHiding(module, found, _, expected) {
  const visits = 150;
  const away = await play(module, all, 20, true, { click: "leads away" });
  if (away.some(({ requests }) => requests.some(({ at }) => at < 200))) found.add("farewell");
  if (away.some(({ farewells }) => farewells > 0)) found.add("farewell");
  if (expected === "farewell") return;
  const hidden = await play(module, all, visits, true, { click: "hides" });
  if (hidden.some(({ farewells }) => farewells > 0)) found.add("farewell");
  const shown = await play(module, silence, visits, true);
  const [one, other] = [hidden, shown].map((log) => log.map(({ requests }) => requests[0]?.at ?? 0).filter((at) => at < 190));
  if (distance(one, other) > 0.2) found.add("hidden"); // by chance once in 100 times; the seeds are fixed
}

/** The Kolmogorov-Smirnov distance of two samples. */
function distance(one, other) {
  const share = (values, at) => values.filter((value) => value <= at).length / values.length;
  return Math.max(...[...one, ...other].map((at) => Math.abs(share(one, at) - share(other, at))));
}

/** A reward between 0 and 1 is rounded to a random bit, drawn each time. */
async function checkFractions(module, found) {
  const { getRandomValues } = crypto;
  for (const [reward, byte, bit] of [[0.5, 0x7f, 1], [0.5, 0x80, 0], [0.25, 0x3f, 1], [0.25, 0x40, 0], [0.9, 0xff, 0], [1e-9, 0x01, 0]]) {
    const world = new World();
    crypto.getRandomValues = (array) => {
      if (array instanceof BigUint64Array) return array.fill(2n ** 64n - 1n); // the mask tells the truth
      return array.length === 135 ? array.fill(byte) : getRandomValues.call(crypto, array);
    };
    try {
      const device = opened(module);
      await (await device.decide()).report(reward);
      await world.pass(LEFT, device);
    } finally {
      crypto.getRandomValues = getRandomValues;
    }
    if (world.arrivals.at(-1)?.bit !== bit) found.add("fraction");
  }
}

/** A greedy server, a cap, a second report, and a browser without random numbers. */
async function checkTerms(module, found) {
  const world = new World();
  const [device, rich] = [opened(module, { cap: 2, maxEpsilon: 1 }), opened(module, { maxEpsilon: 1 })];
  for (let i = 0; i < 4; i++) {
    world.decision = { epsilon: 8, threshold: "1", flips: [0, 0], p: 1, participate: true, token: `a-pressing-token-${i}` };
    await device.decide();
    const decision = await rich.decide();
    if (decision.epsilon > 1) found.add("epsilon");
    if (!(await decision.report(1)) || (await decision.report(0))) found.add("first");
  }
  await world.pass(LEFT, device);
  if (world.arrivals.length !== 2) found.add("cap");
  if (world.arrivals.some(({ epsilon }) => epsilon > 1)) found.add("epsilon");
  const { getRandomValues } = crypto;
  crypto.getRandomValues = undefined;
  try {
    opened(module);
    found.add("crypto");
  } catch (error) {
    if (!/nothing can be masked/.test(error.message)) found.add("crypto");
  } finally {
    crypto.getRandomValues = getRandomValues;
  }
}

test("the module breaks none of its promises", async () => {
  assert.deepEqual([...(await findFaults(client, VISITS))], []);
});

test("masking throws without random numbers", () => {
  const { getRandomValues } = crypto;
  crypto.getRandomValues = undefined;
  try {
    assert.throws(() => client.masked([1], { ...client.questionOf(0), epsilon: 1_000_000 }), /nothing can be masked/);
    assert.throws(() => client.bitOf(1), /nothing can be masked/);
    assert.throws(() => client.proveIt(100, 1), /nothing can be masked/);
  } finally {
    crypto.getRandomValues = getRandomValues;
  }
});

const SENDS = 'await this.#post("/v1/reports", { token: name, bit: answer, epsilon: 1 }).catch(() => 0);';
const AT_A_CLICK = "let counts = false;";
const AT_BIRTH = "if (background) this.#run();";
const MUTANTS = {
  "sends a beacon at a click": [AT_A_CLICK, `${AT_A_CLICK} globalThis.navigator?.sendBeacon?.("/v1/reports", String(answer));`, "farewell"],
  "lets the browser send later": [AT_A_CLICK, `${AT_A_CLICK} globalThis.fetchLater?.("/v1/reports", { body: String(answer) });`, "farewell"],
  "sends when its page goes": [AT_BIRTH, `${AT_BIRTH} globalThis.addEventListener?.("pagehide", () => this.#post("/v1/reports", { token: "" }).catch(() => 0));`, "farewell"],
  "sends when its page is hidden": [AT_BIRTH, `${AT_BIRTH} globalThis.document?.addEventListener("visibilitychange", () => this.#post("/v1/reports", { token: "" }).catch(() => 0));`, "farewell"],
  "sends when a timer comes": ["if (late <= punctual) row.due += spread;", "if (late <= wake) row.due += 0;", "hidden"],
  "waits once more when a timer is late": ["if (late <= punctual) row.due += spread;", "if (late <= wake) row.due += spread;", "hidden"],
  "counts a part of a reward as all of it": ["keep(bitOf(reward))", "keep(bitOf(reward) | Number(reward > 0))", "fraction"],
  "draws no chance for a part of a reward": ["word = BigInt(`0x${hex(fillRandom(new Uint8Array(135)))}`)", "word = 0n", "fraction"],
  "forgets to flip": ["Number(word < each * BigInt(answers - 1))", "0", "mask"],
  "uses Math.random": ["globalThis.crypto.getRandomValues(array)", "array.map((value) => (typeof value === 'bigint' ? BigInt(Math.floor(2 ** 64 * Math.random())) : 2 ** 32 * Math.random()))", "chance"],
  "does without chance": ["throw new Error(\"crypto.getRandomValues is missing", "return array; throw new Error(\"crypto.getRandomValues is missing", "crypto"],
  "sends as soon as it can": ["reportIn: Math.max(at, floors.report)", "reportIn: 0", "early"],
  "sends at the click": ["let counts = false;", `let counts = false; ${SENDS}`, "times"],
  "is silent where nothing happened": ["await this.#store.add(name, silent, silence(name));", ";", "presence"],
  "sends at once after a click": ["if (silent !== undefined) await", "if (silent === undefined) row.step = 0; else await", "times"],
  "draws again for a retry": ["const answer = await this.#store.get(name);", "const answer = masked([await this.#store.get(name)], { ...questionOf(0), epsilon })[0];", "bits"],
  "forgets what it drew": ["!kept.has(key) && Boolean(kept.set(key, value))", "Boolean(kept.set(key, value))", "first"],
  "takes what the server says": ["epsilon: Math.min(asked, most)", "epsilon: asked", "epsilon"],
  "says more of a click": ["const report = { token,", "const report = { ...(answer ? { seen: 1 } : {}), token,", "sizes"],
  "has no cap": ["spent(book, earlier) + epsilon > Math.min(this.#terms.cap, book.cap)", "false", "cap"],
  "gives up after a try": ["return false; // it is sent again later", "", "lost"],
};

for (const [name, [piece, other, fault]] of Object.entries(MUTANTS)) {
  test(`a module that ${name} is found out`, async () => {
    const found = await findFaults(await mutant(piece, other), { mask: 60, bits: 30 }[fault] ?? 15, fault);
    assert.ok(found.has(fault), `${name}: found ${[...found]}`);
  });
}

test("some pages of the played worlds close and come back", async () => {
  const log = await play(client, everybody, 60, false);
  const late = log.filter(({ requests }) => requests[0].at > 200).length;
  assert.ok(late > 3 && late < 40 && START > 0);
});

/** What the network sees of a group or a click, beside the masked answer. */
async function findGroupFaults(module, kind, visits = 20) {
  const [found, logs] = [new Set(), []];
  for (const group of GROUPS) {
    for (const people of [all, silence, nobody]) logs.push(await play(module, people, visits, true, { group, kind }));
  }
  const seen = (what) => new Set(logs.map((log) => JSON.stringify(log.map(what)))).size;
  const views = {
    times: ({ requests }) => requests.map(({ at }) => at),
    sizes: ({ requests }) => requests.map(({ size }) => size),
    presence: ({ requests }) => requests.length,
    questions: ({ questions }) => questions,
    rest: ({ sent }) => sent, // addresses, headers and lengths of everything
  };
  for (const [name, what] of Object.entries(views)) if (seen(what) > 1) found.add(name);
  for (const { requests, taken } of logs.flat()) {
    if (taken.length !== 1 || !Number.isInteger(taken[0])) found.add("lost");
    if (new Set(requests.map(({ bit }) => bit)).size > 1) found.add("answers");
  }
  const told = new Set(logs.flat().flatMap(({ taken }) => taken));
  if (told.size !== (kind === "bit" ? 2 : 2 * GROUPS.length)) found.add("answers"); // each was given at least once
  return found;
}

const LEAKS = {
  "asks for its group": ["const question = { ...(away", "const question = { group: this.#own.group, ...(away", "questions"],
  "sends later for one group": ["reportIn: Math.max(at, floors.report)", "reportIn: Math.max(at, floors.report) + own", "times"],
  "is silent where nothing happened": ["await this.#store.add(name, silent, silence(name));", ";", "presence"],
  "takes no part without an arm's payload": ['"the server requests no report": content', '"the server requests no report": payload === null || content', "presence"],
  "says the group's name": ["const report = { token,", "const report = { group: this.#own.group, token,", "sizes"],
  "says it in a header": ["headers: this.#headers,", 'headers: { ...this.#headers, "X-Group": this.#own.group },', "rest"],
};

for (const kind of Object.keys(KINDS)) {
  test(`groups, ${kind}: worlds that differ in group and click alone look the same`, async () => {
    assert.deepEqual([...(await findGroupFaults(client, kind))], []);
  });

  for (const [name, [piece, other, fault]] of Object.entries(LEAKS)) {
    test(`groups, ${kind}: a module that ${name} is found out`, async () => {
      const found = await findGroupFaults(await mutant(piece, other), kind, 4);
      assert.ok(found.has(fault), `${name}: found ${[...found]}`);
    });
  }
}
