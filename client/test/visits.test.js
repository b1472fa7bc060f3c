// Visits: the same browser sees the same arm, also while the server is away; offers that another server asked for.
import assert from "node:assert/strict";
import { test } from "node:test";
import * as client from "../client.js";
import { LEFT, World, mutant, opened } from "./world.js";

const DAY = 86_400;
const URL_HERE = "https://bandits.example.org";
const GROUPS = { groups: ["young", "old"], group: "old" };
const TABLE = { arm: undefined, arms: ["plain", "bold"], payloads: { plain: 1, bold: 2 }, signs: [0, 1] };

/** A browser's store, and pages with a device in it. */
function visited(options = {}) {
  const [world, store] = [new World(), client.inMemory()];
  return { world, store, page: (more = {}) => opened(client, { store, sticky: true, ...options, ...more }) };
}

const settled = () => new Promise((done) => setImmediate(done)); // what a decision writes after it is returned

test("a browser keeps its arm, pays once, and has another name once its offer has expired", async () => {
  const { world, page } = visited();
  const first = await page().decide();
  await settled();
  const again = await page().decide();
  await settled();
  assert.deepEqual([first.participates, again.participates, await page().remaining()], [true, true, 999]);
  assert.equal(await again.report(1), true);
  assert.equal(await first.report(1), false);
  world.at += DAY + 1;
  await page().decide();
  const names = world.questions.map(({ visitor }) => visitor);
  assert.equal(new Set(names).size, 2);
  assert.equal(names[0], names[1]);
  names.forEach((name) => assert.match(name, /^[0-9a-f]{32}$/));
});

test("names of a browser are random: two browsers and two experiments have different ones, sticky: false none", async () => {
  const { world, page, store } = visited();
  await page().decide();
  await new client.Device(URL_HERE, "other", { cap: 9, maxEpsilon: 1, store, background: false }).decide();
  await visitedIn(world).decide();
  await page({ sticky: false }).decide();
  const names = world.questions.map(({ visitor }) => visitor);
  assert.equal(new Set(names).size, 4);
  assert.equal(names[3], undefined);
});

const visitedIn = () => opened(client, { sticky: true });

test("at the cap a browser keeps its arm, too", async () => {
  const { world, page } = visited({ cap: 0 });
  for (let i = 0; i < 3; i++) {
    assert.equal((await page().decide()).participates, false);
    await settled();
  }
  assert.equal(new Set(world.questions.map(({ visitor }) => visitor)).size, 1);
});

for (const [kind, options, decision] of [["plain", {}, { arm: "bold" }], ["groups", GROUPS, TABLE]]) {
  test(`${kind}: while the server is away the visitor's decision comes from its token, and is rewarded`, async () => {
    const { world, page } = visited(options);
    world.decision = decision;
    assert.equal((await page().decide({ fallback: "mine" })).arm, "bold");
    await settled();
    for (const reply of [[0], [503, { error: "the store is away" }], [502, "<html>"], [429, {}]]) {
      world.answers = reply;
      const device = page();
      const again = await device.decide({ fallback: "mine" });
      assert.deepEqual([again.arm, again.participates], ["bold", true]);
      const other = await device.decide({ fallback: "mine", eligibleArms: ["thin"] });
      assert.deepEqual([other.arm, other.participates], ["mine", false]);
    }
    const [rewarded, device] = [await page().decide(), page()];
    assert.equal(await rewarded.report(1), true);
    world.answers = null;
    await world.pass(LEFT, device);
    assert.equal(world.taken.size, 1);
    assert.equal(await device.remaining(), 999);
    world.answers = [0];
    const after = await page().decide({ fallback: "mine" });
    assert.deepEqual([after.arm, after.participates], ["bold", false]); // reported: the arm stays for the offer's time
    world.at += DAY;
    assert.equal((await page().decide({ fallback: "mine" })).arm, "mine");
  });
}

test("while the server's store is away, its new decision is for first visits alone", async () => {
  const { world, page } = visited();
  world.decision = { arm: "bold" };
  await page().decide();
  await settled();
  world.decision = { arm: "thin", stored: false };
  world.visitors.clear();
  const again = await page().decide();
  assert.deepEqual([again.arm, again.participates, await page().remaining()], ["bold", true, 999]);
  const first = await page({ store: client.inMemory() }).decide();
  assert.deepEqual([first.arm, first.participates], ["thin", true]);
});

test("an experiment that has ended shows the fallback, and so does a first visit", async () => {
  const { world, page } = visited();
  world.answers = [0];
  assert.equal((await page().decide({ fallback: "mine" })).arm, "mine");
  world.answers = null;
  await page().decide();
  await settled();
  for (const status of [401, 404, 410]) {
    world.answers = [status, { error: "no" }];
    assert.equal((await page().decide({ fallback: "mine" })).arm, "mine");
  }
});

test("a reply that is lost is asked for again under the same name", async () => {
  const { world, page } = visited();
  world.answers = [0];
  await page().decide();
  world.answers = null;
  await page().decide();
  const [lost, again] = world.requests.map(({ body }) => JSON.parse(body).visitor);
  assert.equal(lost, again);
});

test("no group is kept, and no token of a report that arrived", async () => {
  const kept = new Map();
  const inner = client.inMemory();
  const put = (entries) => (entries.forEach(([key, value]) => kept.set(key, JSON.stringify(value))), inner.put(entries));
  const logs = [];
  for (const group of GROUPS.groups) {
    const world = new World();
    world.decision = { ...TABLE, token: `token-of-the-${group}-people` };
    const device = opened(client, { ...GROUPS, group, sticky: true, store: { ...inner, put } });
    await device.decide({ visitor: group === "old" ? "ann" : "bob" });
    await settled();
    logs.push([...kept].filter(([key]) => key.startsWith("visit ")).at(-1)[1].replace(/[0-9a-f]{32}|the-\w+/g, "name"));
    await world.pass(LEFT, device);
    assert.equal(world.taken.size, 1);
    await device.decide({ visitor: group === "old" ? "ann" : "bob" });
    await settled();
  }
  assert.equal(logs[0], logs[1]);
  assert.ok([...kept.values()].every((text) => !text.includes("token-of")), [...kept.values()].join("\n"));
});

/** An offer as a backend gets it. */
async function offered(world, question = {}) {
  const path = "/v1/experiments/headline/decisions";
  const reply = await fetch(URL_HERE + path, { method: "POST", body: JSON.stringify(question) });
  return reply.json();
}

test("an adopted offer is paid for, masked and reported as the device's own", async () => {
  const { world, page } = visited({ cap: 2, maxEpsilon: 0.5 });
  const offer = await offered(world);
  world.at += 3;
  const device = page();
  const decision = await device.adopt(offer);
  assert.deepEqual([decision.arm, decision.payload, decision.participates], ["plain", { text: "Hello" }, true]);
  assert.deepEqual([decision.epsilon, await device.remaining()], [0.5, 1.5]);
  assert.equal(await decision.report(1), true);
  await world.pass(119, device);
  assert.equal(world.arrivals.length, 0);
  await world.pass(LEFT - 119, device);
  assert.deepEqual(world.arrivals.map(({ token, epsilon }) => [token, epsilon]), [[offer.token, 0.5]]);
});

test("an offer that is adopted again is the same promise, until it is reported", async () => {
  const { world, page } = visited({ cap: 1 });
  const offer = await offered(world);
  for (let i = 0; i < 3; i++) assert.ok((await page().adopt(offer)).participates);
  const [decision, device] = [await page().adopt(offer), page()];
  assert.equal(await decision.report(1), true);
  await world.pass(LEFT, device);
  assert.equal((await device.adopt(offer)).why, "this decision was already reported");
  assert.equal(world.arrivals.length, 1);
});

test("an offer that cannot be used is shown, and not paid for", async () => {
  const world = new World();
  const offer = await offered(world);
  const cases = [
    [{ experiment: "other" }, /not of this experiment/], [{ experiment: undefined }, /not of this experiment/],
    [{ service: "https://other.example" }, /not of this service/], [{ service: 5 }, /not of this service/],
    [{ now: undefined }, /lacks its time/], [{ now: "1" }, /lacks its time/], [{ epsilon: 17 }, /epsilon/],
    [{ stored: false }, /cannot store/], [{ token: "short" }, /no token/], [{ participate: false }, /requests no report/], [{ epsilon: 1.5 }, /exceed the cap/],
    [{ report_at: offer.now }, /report_at/], [{ now: offer.now + 60 }, /report_at/], [{ expires: offer.now + 31 * DAY }, /30 days/],
  ];
  for (const [change, why] of cases) {
    const device = opened(client, { cap: 1 });
    const decision = await device.adopt({ ...offer, ...change });
    assert.deepEqual([decision.arm, decision.participates, await decision.report(1)], ["plain", false, false]);
    assert.match(decision.why, why);
    assert.equal(await device.remaining(), 1);
  }
  for (const late of [DAY - 59, 2 * DAY]) {
    world.at += late;
    assert.match((await opened(client).adopt(offer)).why, /expired/);
    world.at -= late;
  }
  assert.ok((await opened(client).adopt({ ...offer, service: `${URL_HERE}/` })).participates);
  for (const nothing of [null, undefined, 5, [], {}, { arm: "" }]) {
    assert.deepEqual((({ arm, participates }) => [arm, participates])(await opened(client).adopt(nothing)), [null, false]);
  }
});

test("while the server's store is away, an adopted offer costs nothing, and a promise is kept", async () => {
  const { world, page } = visited();
  const offer = await offered(world);
  assert.ok((await page().adopt(offer)).participates);
  for (let i = 0; i < 3; i++) {
    const other = { ...offer, arm: "thin", stored: false, token: `token-of-reload-${i}` };
    const decision = await page().adopt(other);
    assert.deepEqual([decision.arm, decision.participates, await page().remaining()], ["thin", false, 999]);
  }
  assert.ok((await page().adopt({ ...offer, stored: false })).participates);
});

test("adopted groups show the person's own arm", async () => {
  const world = new World();
  world.decision = TABLE;
  assert.equal((await opened(client, GROUPS).adopt(await offered(world))).arm, "bold");
});

test("no time that a server states lets a report leave early", async () => {
  const world = new World();
  const offer = await offered(world);
  let promised = 0;
  const times = [...Array(200).keys()].map((place) => offer.now + 97 * (place - 100));
  for (const [place, now] of [...times, 0, -1e300, 1e300, "x", null].entries()) {
    const device = opened(client);
    const made = await device.adopt({ ...offer, now, token: `token-of-the-time-${place}` });
    promised += made.participates;
    const before = world.arrivals.length;
    world.at += 119;
    await device.sendDue();
    assert.equal(world.arrivals.length, before);
    world.at -= 119;
  }
  assert.ok(promised > 20);
  const hurried = await mutant("reportIn: Math.max(at, floors.report),", "reportIn: -100,");
  const device = opened(hurried);
  await device.adopt(offer);
  for (let i = 0; i < 119; i++) await world.pass(1, device);
  assert.ok(world.arrivals.length > 0);
});

test("a server that never answers: the fallback comes after the timeout", async () => {
  new World();
  globalThis.fetch = (_, { signal }) => new Promise((_, failed) => signal.addEventListener("abort", () => failed(signal.reason)));
  const alive = setInterval(() => undefined, 50); // Node waits for no timeout signal
  const decision = await opened(client, { timeout: 0.05 }).decide({ fallback: "mine" });
  clearInterval(alive);
  assert.deepEqual([decision.arm, decision.participates], ["mine", false]);
});

test("a store that never answers: the fallback comes after the timeout", async (t) => {
  new World();
  t.mock.method(console, "warn", () => undefined);
  globalThis.fetch = (_, { signal }) => (signal.aborted ? Promise.reject(signal.reason) : assert.fail("too early"));
  const alive = setInterval(() => undefined, 50);
  const stuck = { ...client.inMemory(), locked: () => new Promise(() => undefined) };
  const decision = await opened(client, { timeout: 0.05, sticky: true, store: stuck }).decide({ fallback: "mine" });
  clearInterval(alive);
  assert.deepEqual([decision.arm, decision.participates], ["mine", false]);
});
