// What a device promises: whether it takes part, what it sends and when, and what no server can make it do.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import * as client from "../client.js";
import { LEFT, START, World, mutant, opened } from "./world.js";

/** Draw only words that tell the truth, so that a test sees what was masked. */
function truthful(t) {
  const real = crypto.getRandomValues.bind(crypto);
  t.mock.method(crypto, "getRandomValues", (array) => (array instanceof BigUint64Array ? array.fill(2n ** 64n - 1n) : real(array)));
}

test("an arm is shown and a report promised, paid for, and sent at its time", async () => {
  const world = new World();
  const device = opened(client, { cap: 10, key: "mb_x" });
  const decision = await device.decide();
  const { report, ...told } = decision;
  assert.deepEqual(told, { arm: "plain", payload: { text: "Hello" }, participates: true, why: "", epsilon: 1 });
  assert.equal(await device.remaining(), 9);
  assert.equal(await report(1), true);
  assert.equal(await decision.report(0), false); // the first counts
  await world.pass(120, device);
  assert.equal(world.arrivals.length, 0);
  await world.pass(LEFT - 120, device);
  const [{ at, token, bit, epsilon }, ...more] = world.arrivals;
  assert.deepEqual([more.length, epsilon, token], [0, 1, "token-of-00000000"]);
  assert.ok([0, 1].includes(bit) && at >= START + 122 && at <= START + 184);
  assert.equal(await decision.report(1), false); // too late
  const { url, method, headers, redirect, credentials, referrerPolicy, keepalive } = world.requests[0];
  assert.equal(url, "https://bandits.example.org/v1/experiments/headline/decisions");
  assert.deepEqual([method, redirect, credentials, referrerPolicy, keepalive], ["POST", "error", "omit", "no-referrer", undefined]);
  assert.equal(headers.Authorization, "Bearer mb_x");
});

test("silence is a masked 0 and leaves like everything else", async (t) => {
  truthful(t);
  const world = new World();
  const device = opened(client);
  for (let i = 0; i < 20; i++) await (await device.decide()).report(i % 2 ? 1 : 0);
  await device.decide();
  await world.pass(LEFT + 6, device); // a quarter of a second for each that is written
  assert.equal(world.arrivals.length, 21);
  const bits = [...world.taken].sort().map(([, bit]) => bit);
  assert.deepEqual(bits, [...Array(20).keys()].map((i) => i % 2).concat(0));
  assert.equal(new Set(world.arrivals.map(({ size }) => size)).size, 1);
  assert.ok(new Set(world.arrivals.map(({ at }) => at)).size > 5); // each at a time of its own
});

test("a person who has reached the cap is shown arms, says so before, and reports nothing", async () => {
  const world = new World();
  const device = opened(client, { cap: 2.5 });
  for (let i = 0; i < 2; i++) assert.ok((await device.decide()).participates);
  const decision = await device.decide();
  assert.deepEqual([decision.participates, decision.arm], [false, "plain"]);
  assert.match(decision.why, /0.5 is left of the cap of 2.5/);
  assert.deepEqual(world.questions.map(({ participate }) => participate), [undefined, undefined, false]);
  assert.equal(await decision.report(1), false);
  world.decision = { token: "a-token-nobody-asked-for", participate: true }; // nor can a server press one on it
  assert.equal((await device.decide()).why, "a report would exceed the cap");
  await world.pass(LEFT, device);
  assert.equal(world.arrivals.length, 2);
});

test("a cap that renews holds in any stretch, and a clock set back gives nothing back", async () => {
  const world = new World();
  const device = opened(client, { cap: 1, per: "1 hour" });
  const takesPart = async () => (await device.decide()).participates;
  assert.ok(await takesPart());
  world.at += 3599;
  assert.ok(!(await takesPart()));
  world.at -= 7200;
  assert.ok(!(await takesPart()));
  world.at += 7202;
  assert.ok(await takesPart());
  assert.ok(!(await takesPart()));
});

test("another cap than was promised is refused, unless it is lower or meant", async () => {
  new World();
  const store = client.inMemory();
  assert.ok((await opened(client, { cap: 2, store }).decide()).participates);
  for (const other of [{ cap: 3 }, { cap: 2, per: "1 day" }]) {
    assert.match((await opened(client, { ...other, store }).decide()).why, /the stored cap or period differs/);
  }
  assert.equal(await opened(client, { cap: 1.5, store }).remaining(), 0.5);
  assert.equal(await opened(client, { cap: 3, per: "1 day", change: true, store }).remaining(), 2);
});

test("the smaller epsilon masks, and none that hides nothing", async () => {
  const world = new World();
  for (const [asked, used] of [[1, 1], [0.3, 0.3], [5, 2], [16, 2], [0.10000099, 0.1]]) {
    world.decision = { epsilon: asked };
    assert.equal((await opened(client).decide()).epsilon, used);
  }
  for (const epsilon of [0, -1, 17, 1e-7, null, "1", true, [1]]) {
    world.decision = { epsilon };
    const decision = await opened(client).decide();
    assert.deepEqual([decision.arm, decision.why], ["plain", "the server's epsilon is not a number above 0 and up to 16"]);
  }
});

test("who is not asked, or asked in no sense, takes no part", async () => {
  const world = new World();
  const now = START;
  const wrong = [
    { participate: false }, { participate: 1 }, { token: null }, { token: "short" }, { token: 7 }, { token: "with blank in it !" },
    { report_at: "soon" }, { expires: null }, { expires: now }, { report_at: now + 99, expires: now + 98 }, { expires: now + 368 * 86400 },
  ];
  for (const change of wrong) {
    world.decision = change;
    const device = opened(client, { cap: 1 });
    const decision = await device.decide();
    assert.ok(!decision.participates && decision.why && decision.arm === "plain", JSON.stringify(change));
    assert.equal(await device.remaining(), 1);
    await world.pass(LEFT, device);
  }
  assert.equal(world.arrivals.length, 0);
});

test("a server that is away, or answers nonsense: the fallback", async () => {
  const world = new World();
  const answers = [
    [0], [500, { error: "x" }], [200, "<html>"], [200, "null"], [200, []], [200, { arm: 7 }], [200, { arm: " " }],
    [200, { arm: "two\nlines" }], [404, { arm: "plain" }],
  ];
  for (const answer of answers) {
    world.answers = answer;
    const decision = await opened(client).decide({ fallback: "mine" });
    assert.deepEqual([decision.arm, decision.participates], ["mine", false], JSON.stringify(answer));
    assert.ok(decision.why);
  }
  world.answers = null;
  world.decision = { arm: "other" };
  assert.equal((await opened(client).decide({ eligibleArms: ["plain"] })).arm, null);
});

test("a report is tried again with the same bit, later each time, until it is answered for good", async () => {
  const world = new World();
  const device = opened(client);
  world.fails = (count) => (count < 6 ? (count % 2 ? "before" : "after") : "");
  await (await device.decide()).report(1);
  await world.pass(3600, device);
  assert.equal(world.arrivals.length, 6);
  assert.equal(new Set(world.arrivals.map(({ bit }) => bit)).size, 1);
  const pauses = world.arrivals.slice(1).map(({ at }, i) => at - world.arrivals[i].at);
  pauses.forEach((pause, i) => assert.ok(pause >= 15 * 2 ** i && pause <= 30 * 2 ** i + 1, String(pauses)));
});

test("what is final is not tried again; what is not, is, and no sooner than Retry-After says", async () => {
  for (const status of ["accepted", "duplicate", "late", "forged", "foreign", "invalid"]) {
    const world = new World();
    const device = opened(client);
    await device.decide();
    world.answers = ["accepted", "duplicate"].includes(status) ? [200, { status }] : [410, { status: 410, code: status }];
    await world.pass(600, device);
    assert.equal(world.requests.length, 2, status);
  }
  const world = new World();
  const device = opened(client);
  await device.decide();
  world.answers = [503, { status: 503, code: "later" }, { "retry-after": "200" }];
  while (world.requests.length < 2 && world.at < START + LEFT) await world.pass(1, device);
  assert.equal(world.requests.length, 2);
  const first = world.at;
  world.answers = null;
  assert.match((await device.decide({ fallback: "mine" })).why, /asked to wait/);
  while (world.arrivals.length === 0 && world.at < first + 1000) await world.pass(1, device);
  assert.ok(world.at - first >= 200 && world.at - first < 1000);
});

test("a report that comes too late is sent once, and dropped because the server says so", async () => {
  const world = new World();
  world.expiresAfter = 3660;
  const store = client.inMemory();
  const device = opened(client, { store });
  const decision = await device.decide();
  world.at += 3661;
  await world.pass(1000, device);
  assert.deepEqual([world.arrivals.length, world.taken.size], [1, 0]);
  assert.equal(await decision.report(1), false);
  assert.deepEqual((await store.get("book")).rows, {});
});

test("what nobody answers is dropped: three tries past its end, or 30 days past it if it is another server's", async () => {
  const world = new World();
  const store = client.inMemory();
  const [device, other] = [opened(client, { store }), opened(client, { store }, "https://other.example.org")];
  await device.decide();
  await other.decide();
  world.fails = () => "before";
  for (let hour = 0; hour < 30 * 24; hour++) {
    world.at += 3600;
    await device.sendDue();
  }
  const late = world.arrivals.filter(({ at }) => at >= START + world.expiresAfter);
  assert.equal(late.length, 3);
  assert.ok(late[2].at - late[0].at >= 86_400); // at least half a day apart
  assert.equal(Object.keys((await store.get("book")).rows).length, 1);
  world.at = START + 31 * 86_400;
  await device.sendDue();
  assert.deepEqual((await store.get("book")).rows, {});
});

test("a visitor has one decision, pays once, and is told apart by nobody else", async () => {
  const world = new World();
  const store = client.inMemory();
  const device = opened(client, { store });
  const first = await device.decide({ visitor: "ann" });
  const again = await opened(client, { store }).decide({ visitor: "ann" });
  assert.deepEqual([first.participates, again.participates, await device.remaining()], [true, true, 999]);
  assert.equal(await first.report(1), true);
  assert.equal(await again.report(1), false);
  await world.pass(LEFT, device);
  assert.equal(world.arrivals.length, 1);
  assert.match((await device.decide({ visitor: "ann" })).why, /already reported/);
  await device.decide({ visitor: "bob" });
  await opened(client).decide({ visitor: "ann" });
  const names = world.questions.map(({ visitor }) => visitor);
  assert.equal(new Set(names).size, 3);
  names.forEach((name) => assert.match(name, /^[0-9a-f]{32}$/));
});

test("a visitor's paid decision is rewarded after a reload at the cap, and no other token is asked for", async () => {
  const world = new World();
  const store = client.inMemory();
  assert.ok((await opened(client, { store, cap: 1 }).decide({ visitor: "ann" })).participates);
  const device = opened(client, { store, cap: 1 });
  assert.equal(await (await device.decide({ visitor: "ann" })).report(1), true);
  assert.equal((await device.decide({ visitor: "bob" })).participates, false);
  await world.pass(LEFT, device);
  assert.equal(world.taken.size, 1);
  assert.equal((await device.decide({ visitor: "ann" })).participates, false);
  assert.deepEqual(world.questions.map(({ participate }) => participate), [undefined, undefined, false, false]);
});

test("a page that is gone sends after the next visit begins, at a time of its own, and the same bit", async () => {
  const delays = new Set();
  for (let i = 0; i < 20; i++) {
    const world = new World();
    const store = client.inMemory();
    const before = opened(client, { store });
    await (await before.decide()).report(1);
    if (i % 2) await world.pass(61, before); // gone after it was fixed, or long before
    world.at += 7200;
    const after = opened(client, { store });
    const back = world.at;
    while (world.arrivals.length === 0 && world.at < back + LEFT) await world.pass(1, after);
    assert.ok(world.at - back >= 2 && world.at - back <= 63);
    delays.add(world.at - back);
  }
  assert.ok(delays.size > 5);
});

test("groups: the arm and the answer follow from the group, and the question from nothing", async (t) => {
  truthful(t);
  const world = new World();
  const groups = ["young", "old", "older"];
  const offered = { arm: undefined, arms: ["a", "b", "a"], payloads: { a: 1, b: { x: 2 } }};
  for (const [signs, group, reward, truth] of [[null, "old", 1, 3], [null, "older", 0, 4], [[0, 1, 1], "old", 1, 0], [[0, 1, 1], "young", 1, 1]]) {
    world.decision = { ...offered, signs };
    const device = opened(client, { groups, group });
    const decision = await device.decide();
    assert.deepEqual([decision.arm, decision.payload], group === "old" ? ["b", { x: 2 }] : ["a", 1]);
    assert.equal(await decision.report(reward), true);
    await world.pass(LEFT, device);
    const { at, size, token, ...rest } = world.arrivals.at(-1);
    assert.deepEqual(rest, { answer: truth, epsilon: 1 });
  }
  const many = Array.from({ length: 60 }, (_, i) => `group ${i}`);
  world.decision = { ...offered, arms: many.map(() => "a"), signs: null, token: "t".repeat(1024) }; // as long as they get
  const sizes = [];
  for (const group of [many[0], many[59]]) { // answer 0 or 1, and 118 or 119
    const device = opened(client, { groups: many, group });
    assert.ok((await device.decide()).participates);
    await world.pass(LEFT, device);
    sizes.push(world.arrivals.at(-1).size);
  }
  assert.equal(sizes[0], sizes[1]);
  world.decision = { ...offered, signs: [0, 1, 1] };
  const silent = opened(client, { groups, group: "old" });
  await silent.decide();
  await world.pass(LEFT, silent);
  assert.equal(world.arrivals.at(-1).answer, 1); // a 0, turned round
});

test("groups that the server does not ask alike take no part, whichever one is in", async () => {
  const world = new World();
  const groups = ["young", "old"];
  const good = { arms: ["a", "b"], payloads: {}, signs: null };
  const shown = [{ signs: undefined }, { signs: [0] }, { signs: [0, 2] }, { signs: "01" }];
  const away = [{ arms: ["a"] }, { arms: ["a", "b", "c"] }, { arms: "ab" }, { arms: ["a", 7] }, { arms: undefined }];
  for (const group of groups) {
    for (const change of [...shown, ...away]) {
      world.decision = { ...good, ...change };
      const decision = await opened(client, { groups, group }).decide({ fallback: "mine" });
      assert.equal(decision.participates, false, JSON.stringify(change));
      assert.equal(decision.arm === "mine", away.includes(change));
    }
    world.decision = good; // an arm of the other group's may not be shown: nothing is, to anybody
    assert.equal((await opened(client, { groups, group }).decide({ eligibleArms: ["a"] })).arm, null);
  }
  assert.equal((await opened(client).decide({ fallback: "mine" })).why, "");
});

test("a caller's mistake is told, and never what was to be masked", async () => {
  new World();
  const good = { cap: 1, maxEpsilon: 1, store: client.inMemory(), background: false };
  const wrong = [
    { cap: -1 }, { cap: "1" }, { cap: undefined }, { maxEpsilon: 0 }, { maxEpsilon: 17 }, { maxEpsilon: 1e-7 }, { per: "soon" },
    { per: 30 }, { jitter: -1 }, { timeout: 0 }, { worker: "/w.js" }, { groups: ["a"], group: "b" }, { groups: "ab", group: "a" }, { groups: ["a", "a"], group: "a" },
  ];
  for (const change of wrong) {
    assert.throws(() => new client.Device("https://a.example", "x", { ...good, ...change }), TypeError, JSON.stringify(change));
  }
  for (const url of ["ftp://a.example", "https://a.example?x=1", "https://u:p@a.example", "https://a.example#x", "nowhere"]) {
    assert.throws(() => new client.Device(url, "x", good), TypeError, url);
  }
  const decision = await opened(client).decide();
  for (const reward of [0.123456789 + 1, -0.123456789, NaN, "0.123456789", null, undefined, 123456789n]) {
    await assert.rejects(decision.report(reward), (error) => error instanceof RangeError && !/123456789/.test(error.message));
  }
  for (const question of [{ visitor: "" }, { visitor: 7 }, { eligibleArms: [] }, { eligibleArms: "plain" }, { eligibleArms: [7] }]) {
    await assert.rejects(opened(client).decide(question), TypeError);
  }
});

test("no reward is kept, and of a report that arrived neither token nor answer", async () => {
  const world = new World();
  const kept = new Map();
  const inner = client.inMemory();
  const note = (entries) => entries.forEach(([key, value]) => kept.set(key, JSON.stringify(value)));
  const store = {
    ...inner,
    put: (entries) => (note(entries), inner.put(entries)),
    add: (key, value, instead) => (note([[key, value]]), kept.delete(instead), inner.add(key, value, instead)),
  };
  const device = opened(client, { store });
  await (await device.decide()).report(0.123456789);
  assert.ok([...kept.values()].every((text) => !text.includes("0.123456789")));
  await world.pass(LEFT, device);
  assert.equal(world.taken.size, 1);
  assert.ok([...kept.values()].every((text) => !text.includes("token-of")));
  assert.deepEqual([...kept.keys()].filter((key) => key !== "book").map((key) => kept.get(key)), ['"sent"']);
});

/** Words that are the same each time (SplitMix64), so that nothing is left to chance. */
function seeded(t) {
  let state = 7n;
  const next = () => {
    state = BigInt.asUintN(64, state + 0x9e3779b97f4a7c15n);
    let z = BigInt.asUintN(64, (state ^ (state >> 30n)) * 0xbf58476d1ce4e5b9n);
    z = BigInt.asUintN(64, (z ^ (z >> 27n)) * 0x94d049bb133111ebn);
    return z ^ (z >> 31n);
  };
  t.mock.method(crypto, "getRandomValues", (array) => array.map((value) => (typeof value === "bigint" ? next() : Number(next() & 255n))));
}

test("proveIt measures what is promised, and shows it", (t) => {
  seeded(t);
  for (const epsilon of [0.1, 1, 4]) {
    const where = {};
    const proof = client.proveIt(40_000, epsilon, where);
    assert.ok(proof.low <= proof.measured && proof.measured <= proof.high && proof.holds);
    assert.deepEqual([proof.promise, proof.flips], [epsilon, 40_000]);
    assert.equal(where.textContent, String(proof));
    assert.match(where.textContent, /promised is at most [0-9.]+, which the flips do not contradict$/);
  }
  assert.match(String(client.proveIt(100, 16)), /^100 flips: epsilon too large for so few flips, between [0-9.]+ and too large/);
  assert.equal(opened(client).proveIt(100).promise, 2);
  assert.throws(() => client.proveIt(1, 1), TypeError);
  assert.throws(() => client.proveIt(100, 17), TypeError);
});

test("proveIt sees a fault of what reports are drawn with", async (t) => {
  seeded(t);
  const drawn = "answerOf(truthOf(bit), answers, each, words[at])";
  for (const other of ["truthOf(bit)", `(at % 2 ? truthOf(bit) : ${drawn})`, "answerOf(truthOf(bit), answers, each / 2n, words[at])"]) {
    const proof = (await mutant(drawn, other)).proveIt(40_000, 1);
    assert.equal(proof.holds, false, other);
    assert.match(String(proof), /promised is at most 1, which IS NOT TRUE$/);
  }
});

test("the lines for Node run, and without a store nobody takes part", async (t) => {
  const page = readFileSync(new URL("../../docs/browser_client.md", import.meta.url), "utf8");
  const [[, lines]] = page.matchAll(/^```js\n(.*?)^```/gms);
  const world = new World();
  let send;
  t.mock.method(globalThis, "setInterval", (work) => (send = work));
  const module = lines.replace('"./client.js"', JSON.stringify(new URL("../client.js", import.meta.url).href));
  const { decision, device } = await import(`data:text/javascript,${encodeURIComponent(`${module}export { decision, device };`)}`);
  assert.deepEqual([decision.participates, decision.why, await device.remaining()], [true, "", 9]);
  for (let i = 0; i < 30; i++) {
    world.at += 10;
    await send();
  }
  assert.equal(world.taken.size, 1);
  const warned = t.mock.method(console, "warn", () => undefined);
  const alone = await opened(client, { store: undefined }).decide();
  assert.deepEqual([alone.arm, alone.participates, warned.mock.callCount()], ["plain", false, 1]);
  assert.match(alone.why, /storage is not available/);
});
