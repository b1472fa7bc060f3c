// Clocks that are wrong and put right, and caps that change: nothing that was promised is lost, and no cap is passed.
import assert from "node:assert/strict";
import { test } from "node:test";
import * as client from "../client.js";
import { LEFT, START, World, mutant, opened } from "./world.js";

const DAY = 86_400;

/** What a person's browser keeps through all of it, with a report that was promised, and a page that looks at it. */
async function promised(options = {}) {
  const [world, store] = [new World(), client.inMemory()];
  const device = opened(client, { store, ...options });
  const decision = await device.decide();
  assert.ok(decision.participates);
  return { world, store, device, decision };
}

/** Let a clock be off by some seconds while something is done; the server's stays right. */
async function off(world, seconds, work) {
  world.at += seconds;
  world.ahead -= seconds;
  await work();
  world.at -= seconds;
  world.ahead += seconds;
}

test("hours from the server's clock, and never set", async () => {
  const world = new World();
  world.ahead = 7200;
  const device = opened(client);
  await device.decide();
  await world.pass(120, device);
  assert.equal(world.arrivals.length, 0);
  await world.pass(LEFT - 120, device);
  assert.equal(world.taken.size, 1);
  world.at = 1000;
  const decision = await device.decide();
  assert.deepEqual([decision.participates, decision.why], [false, "the clock was never set"]);
  world.decision = { token: "a-token-nobody-asked-for", participate: true };
  assert.equal((await device.decide()).why, "the clock was never set");
  assert.equal(await device.sendDue(), 0);
});

test("set back for good: what is left to wait stays as it was", async () => {
  const { world, device } = await promised();
  world.at -= 2 * DAY;
  world.ahead += 2 * DAY;
  await world.pass(120, device);
  assert.equal(world.arrivals.length, 0);
  await world.pass(LEFT - 120, device);
  assert.equal(world.taken.size, 1);
});

for (const [name, seconds] of Object.entries({ "two days back": -2 * DAY, "ten minutes back": -600, "never set": 1000 - START })) {
  test(`${name}, looked at, and put right: it leaves at its time, and a click still counts`, async () => {
    const { world, device, decision } = await promised();
    await off(world, seconds, async () => {
      await device.sendDue();
      await device.decide({ visitor: "ann" });
      await device.remaining();
    });
    await world.pass(55, device);
    assert.equal(await decision.report(1), true);
    await world.pass(65, device);
    assert.ok(world.arrivals.every(({ token }) => token !== "token-of-00000000"));
    await world.pass(LEFT, device);
    assert.ok(world.taken.has("token-of-00000000"));
  });
}

for (const [name, seconds] of Object.entries({ "two days": 2 * DAY, "three years": 3 * 365 * DAY })) {
  for (const isOnline of [true, false]) {
    test(`${name} ahead ${isOnline ? "" : "without a network "}and put right: nothing is lost`, async () => {
      const { world, device } = await promised();
      world.fails = () => (isOnline ? "" : "before");
      await off(world, seconds, () => world.pass(3600, device));
      world.fails = () => "";
      world.ends.clear(); // nothing is late there
      for (let hour = 0; hour < 25; hour++) { // past its end by that clock: the next try is a day later at most
        world.at += 3599;
        await world.pass(1, device);
      }
      assert.deepEqual([...world.taken.keys()], ["token-of-00000000"]);
    });
  }
}

test("put right in two steps, or not at all and the page was gone: nothing is lost", async () => {
  const { world, store, device } = await promised();
  world.at -= 2 * DAY;
  await device.sendDue();
  for (const step of [DAY, DAY]) {
    world.at += step;
    await device.sendDue();
  }
  await world.pass(LEFT, device);
  assert.equal(world.taken.size, 1);
  world.at -= DAY / 2; // from now on the clock is half a day behind
  world.ahead += DAY / 2;
  await device.decide();
  await device.sendDue();
  world.at += DAY * 0.9; // nobody was there
  await world.pass(LEFT, opened(client, { store }));
  assert.equal(world.taken.size, 2);
});

test("a server that asked to be left alone is not left alone for days because the clock was set back", async () => {
  const { world, device } = await promised();
  world.answers = [503, { status: 503, code: "later" }, { "retry-after": "200" }];
  await device.decide();
  world.answers = null;
  world.at -= 2 * DAY;
  world.ahead += 2 * DAY;
  await world.pass(LEFT, device);
  assert.equal(world.taken.size, 1);
});

test("a page with a higher cap, or another per, sends what was promised, and keeps clicks of known decisions", async () => {
  for (const other of [{ cap: 20 }, { cap: 10, per: "1 day" }]) {
    const world = new World();
    const store = client.inMemory();
    assert.ok((await opened(client, { cap: 10, store }).decide({ visitor: "ann" })).participates);
    const device = opened(client, { ...other, store });
    await assert.rejects(device.remaining(), /the stored cap or period differs/);
    const decision = await device.decide({ visitor: "ann" });
    assert.ok(decision.participates); // paid for before
    assert.equal(await decision.report(1), true);
    assert.match((await device.decide()).why, /the stored cap or period differs/);
    assert.deepEqual(world.questions.at(-1), { participate: false });
    await world.pass(LEFT, device);
    assert.equal(world.taken.size, 1);
    assert.equal(await opened(client, { cap: 10, store }).remaining(), 9);
  }
});

test("a changed cap stays changed, also if nothing was decided under it", async () => {
  const { store } = await promised({ cap: 1 });
  assert.equal(await opened(client, { cap: 3, change: true, store }).remaining(), 2);
  assert.equal(await opened(client, { cap: 3, store }).remaining(), 2);
});

test("the last report that fits a cap is made", async () => {
  for (const [epsilon, cap, fit] of [[4.1, 8.2, 2], [0.1, 0.3, 3], [1.1, 3.3, 3], [0.7, 2.1, 3], [2.3, 6.899999, 2]]) {
    const world = new World();
    world.decision = { epsilon };
    const device = opened(client, { cap, maxEpsilon: 16 });
    const parts = [];
    for (let i = 0; i < fit + 2; i++) parts.push((await device.decide()).participates);
    assert.deepEqual(parts, [...Array(fit).fill(true), false, false], `${epsilon} ${cap}`);
  }
});

/** How many reports somebody makes who sets the clock ahead again and again. */
async function jumped(module, cap) {
  const [world, store] = [new World(), module.inMemory()];
  const told = { cap, per: "30 days", store };
  let many = 0;
  for (let i = 0; i < 5; i++) {
    many += (await opened(module, told).decide()).participates;
    world.at += 31 * DAY;
    world.ahead -= 31 * DAY; // the server's stays right
  }
  return many;
}

test("a clock that is set ahead lets nobody pass a cap that renews, as long as the server's is right", async () => {
  for (const cap of [1, 2, 4]) assert.equal(await jumped(client, cap), cap);
  const believing = await mutant("const earlier = Math.min(at, now);", "const earlier = at;");
  assert.equal(await jumped(believing, 1), 5);
});

test("nor does a server's clock, whatever it says, as long as the own one is right", async () => {
  for (const jumps of [[-400 * DAY, 31 * DAY, 62 * DAY], [31 * DAY, 62 * DAY, 93 * DAY], [0, -31 * DAY, 31 * DAY]]) {
    const [world, store] = [new World(), client.inMemory()];
    const parts = [];
    for (const jump of jumps) {
      world.ahead = jump;
      parts.push((await opened(client, { cap: 1, per: "30 days", store }).decide()).participates);
    }
    assert.deepEqual(parts, [true, false, false], String(jumps));
  }
});

test("a cap renews when both clocks say so", async () => {
  const world = new World();
  world.ahead = -3600;
  const device = opened(client, { cap: 1, per: "1 day" });
  assert.ok((await device.decide()).participates);
  world.at += DAY + 1;
  assert.equal((await device.decide()).why, "a report would exceed the cap"); // an hour longer, as much as they differ by
  world.at += 3600;
  assert.ok((await device.decide()).participates);
});

test("a server whose clock is more than a year ahead is paid nothing: that would never be old", async () => {
  const world = new World();
  world.ahead = 400 * DAY;
  const device = opened(client, { cap: 1, per: "1 day" });
  assert.equal((await device.decide()).why, "the server's clock is more than a year ahead");
  world.ahead = 0;
  assert.ok((await device.decide()).participates);
});

test("what was spent in a longer period than before counts in it, too", async () => {
  const [world, store] = [new World(), client.inMemory()];
  assert.ok((await opened(client, { cap: 1, per: "30 days", store }).decide()).participates);
  world.at += 40 * DAY;
  assert.equal(await opened(client, { cap: 1, per: "30 days", store }).remaining(), 1);
  const longer = opened(client, { cap: 1, per: "365 days", store, change: true });
  assert.equal(await longer.remaining(), 0);
  assert.equal((await longer.decide()).participates, false);
});

test("of many reports that are fixed at once none leaves before all may be written", async () => {
  const [world, store] = [new World(), client.inMemory()];
  const device = opened(client, { store });
  for (let i = 0; i < 8; i++) await device.decide();
  world.at += 60;
  await device.sendDue();
  const rows = Object.values((await store.get("book")).rows);
  assert.deepEqual(rows.map(({ due }) => due - world.at), Array(8).fill(60 + 7 * 0.25));
});
