// Trouble: storage that fails, two pages at once.
import assert from "node:assert/strict";
import { test } from "node:test";
import * as client from "../client.js";
import { LEFT, World, opened } from "./world.js";

test("two pages at once: one draw, one report, one cap", async () => {
  const world = new World();
  const store = client.inMemory();
  const pages = [opened(client, { store, cap: 10 }), opened(client, { store, cap: 10 })];
  const decisions = await Promise.all([...Array(30).keys()].map((i) => pages[i % 2].decide()));
  assert.equal(decisions.filter(({ participates }) => participates).length, 10);
  for (let i = 0; i < LEFT; i++) {
    world.at += 1;
    await Promise.all(pages.map((page) => page.sendDue()));
  }
  assert.equal(world.arrivals.length, 10);
});

test("storage that fails: no part, said once", async (t) => {
  const world = new World();
  const warned = t.mock.method(console, "warn", () => undefined);
  const device = opened(client, { store: client.inBrowser() }); // Node has none
  for (let i = 0; i < 2; i++) {
    const decision = await device.decide({ visitor: "ann", fallback: "mine" });
    assert.deepEqual([decision.arm, decision.participates, await decision.report(1)], ["plain", false, false]);
    assert.match(decision.why, /storage is not available/);
  }
  assert.deepEqual(world.questions, [{ participate: false }, { participate: false }]);
  assert.equal(warned.mock.callCount(), 1);
});

test("no crypto.subtle, as on a page without https: no part, whatever the server offers", async () => {
  const world = new World();
  world.decision = { token: "x".repeat(64), participate: true };
  Object.defineProperty(crypto, "subtle", { value: undefined, configurable: true });
  try {
    for (const options of [{}, { sticky: true }]) {
      const decision = await opened(client, options).decide();
      assert.deepEqual([decision.arm, decision.participates, await decision.report(1)], ["plain", false, false]);
      assert.match(decision.why, /crypto.subtle/);
    }
  } finally {
    delete crypto.subtle;
  }
  assert.deepEqual(world.questions, [{ participate: false }, { participate: false }]);
});

/** Storage whose work under the lock fails from some moment on. */
function failing(when) {
  const store = client.inMemory();
  const locked = (work) => (when() ? client.inBrowser().locked(work) : store.locked(work)); // Node has no browser's
  return { ...store, locked };
}

test("storage that fails in the middle of a decision: an arm, and no part", async (t) => {
  const world = new World();
  t.mock.method(console, "warn", () => undefined);
  for (const works of [1, 2]) {
    let asked = 0;
    const device = opened(client, { store: failing(() => asked++ >= works) });
    const decision = await device.decide({ visitor: "ann" });
    assert.deepEqual([decision.arm, decision.participates], ["plain", false]);
  }
  assert.deepEqual(world.questions.map(({ participate, visitor }) => [participate, typeof visitor]), [[false, "undefined"], [undefined, "string"]]);
});

test("a click that cannot be kept while the next decision is made does not decide whether that one is paid for", async (t) => {
  const world = new World();
  t.mock.method(console, "warn", () => undefined);
  const store = client.inMemory();
  const device = opened(client, { store: { ...store, add: (...entry) => (isFull ? client.inBrowser().get("") : store.add(...entry)) } });
  let isFull = false;
  const before = await device.decide();
  isFull = true;
  const { fetch } = globalThis;
  globalThis.fetch = async (...question) => {
    assert.equal(await before.report(1), false);
    return fetch(...question);
  };
  const decision = await device.decide();
  assert.ok(decision.participates);
  assert.equal(await device.remaining(), 998);
  assert.equal(Object.keys((await store.get("book")).rows).length, 2);
});

test("storage that fails while something is due is looked at again after a minute, and not at once", async (t) => {
  const world = new World();
  t.mock.method(console, "warn", () => undefined);
  const store = client.inMemory();
  await opened(client, { store }).decide();
  world.at += 61;
  const waits = [];
  t.mock.method(globalThis, "setTimeout", (work, wait) => waits.push(wait) && {});
  let tries = 0;
  opened(client, { background: true, store: { ...store, locked: () => (tries++, client.inBrowser().locked()) } });
  for (let i = 0; i < 50; i++) await Promise.resolve();
  assert.deepEqual([tries, waits], [1, [60_000]]);
});

test("a lock that fails in whatever way does not end the sending", async (t) => {
  const world = new World();
  t.mock.method(console, "warn", () => undefined);
  const store = client.inMemory();
  await opened(client, { store }).decide();
  world.at += LEFT;
  let [work, fails] = [null, true];
  t.mock.method(globalThis, "setTimeout", (next) => ((work = next), {}));
  const fail = () => Promise.reject(new DOMException("the document is not active", "InvalidStateError"));
  const device = opened(client, { background: true, store: { ...store, locked: (...what) => (fails ? fail() : store.locked(...what)) } });
  const decision = await device.decide();
  assert.deepEqual([decision.arm, decision.participates, decision.why], ["plain", false, "the document is not active"]);
  fails = false;
  for (let i = 0; i < LEFT && world.taken.size === 0; i++) {
    await new Promise((done) => setImmediate(done));
    assert.ok(work, "nothing is planned");
    world.at += 1;
    await work();
  }
  assert.equal(world.taken.size, 1);
});

test("an arm may have the name of something that every object has", async () => {
  const world = new World();
  world.decision = { arm: undefined, arms: ["constructor", "toString"], payloads: { toString: 7 }, signs: null };
  for (const [group, payload] of [["a", null], ["b", 7]]) {
    const decision = await opened(client, { groups: ["a", "b"], group }).decide();
    assert.deepEqual([decision.payload, decision.participates], [payload, true]);
  }
  for (const payloads of [undefined, null, 7, []]) {
    world.decision = { ...world.decision, payloads };
    assert.equal((await opened(client, { groups: ["a", "b"], group: "a" }).decide()).payload, null);
  }
});
