// A page as a browser has it: timers that come late while nobody looks at it, and events when it is hidden or goes.

const NAMES = ["setTimeout", "clearTimeout", "document", "addEventListener", "navigator", "fetchLater"];
const QUIET = 10; // seconds after which a hidden page is woken once a minute; before, once a second

export class Page {
  farewells = 0; // what was sent by other ways than fetch
  #world;
  #phase;
  #timers = new Map();
  #hidden = Infinity;
  #events = new EventTarget();
  #count = 0;
  #before = NAMES.map((name) => [name, Object.getOwnPropertyDescriptor(globalThis, name)]);

  constructor(world, phase) {
    this.#world = world;
    this.#phase = phase;
    const farewell = () => (this.farewells += 1) > 0;
    const listen = (...heard) => this.#events.addEventListener(...heard);
    const fakes = {
      setTimeout: (work, wait) => this.#timers.set(++this.#count, [world.at + Math.max(Math.trunc(wait), 1) / 1000, work]) && this.#count,
      clearTimeout: (number) => this.#timers.delete(number),
      document: { addEventListener: listen, visibilityState: "visible" },
      addEventListener: listen,
      navigator: { sendBeacon: farewell },
      fetchLater: farewell,
    };
    for (const [name, value] of Object.entries(fakes)) Object.defineProperty(globalThis, name, { value, configurable: true });
  }

  /** When a browser lets a timer run. */
  #wakes(at) {
    if (at < this.#hidden) return at;
    if (at < this.#hidden + QUIET) return Math.ceil(at);
    return this.#phase + 60 * Math.ceil((at - this.#phase) / 60);
  }

  /** Let time pass until a moment, and timers run. */
  async until(end) {
    while (await this.next(end));
    this.#world.at = end;
  }

  /** Let time pass until the next timer runs; tell whether there was one. */
  async next(end = Infinity) {
    await settled();
    const wakes = [...this.#timers].map(([number, [at, work]]) => [this.#wakes(at), number, work]);
    const [first] = wakes.sort(([one], [other]) => one - other);
    if (!first || first[0] > end) return false;
    this.#timers.delete(first[1]);
    this.#world.at = Math.max(this.#world.at, Math.ceil(1000 * first[0] - 1e-3) / 1000); // clocks count milliseconds
    first[2]();
    await settled();
    return true;
  }

  async hide() {
    this.#hidden = this.#world.at;
    document.visibilityState = "hidden";
    this.#events.dispatchEvent(new Event("visibilitychange"));
    await settled();
  }

  /** The page goes: nothing of it runs any more. */
  async go() {
    await this.hide();
    for (const name of ["pagehide", "beforeunload", "unload", "freeze"]) this.#events.dispatchEvent(new Event(name));
    await settled();
    this.#timers.clear();
    this.#events = new EventTarget();
  }

  /** Another page of the site, that is looked at. */
  come() {
    this.#timers.clear(); // what the page before began while it went
    this.#hidden = Infinity;
    document.visibilityState = "visible";
  }

  close() {
    for (const [name, before] of this.#before) {
      if (before) Object.defineProperty(globalThis, name, before);
      else delete globalThis[name];
    }
  }
}

/** Whatever was begun has ended: there are no real timers, and no real network. */
async function settled() {
  for (let i = 0; i < 3; i++) await new Promise((done) => setImmediate(done));
}
