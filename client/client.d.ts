/** What a page may ask of a device; docs/client.md says what it means. */

/** What is kept, and where: `inBrowser()` unless another is given. */
export interface Store {
  get(key: string): Promise<unknown>;
  put(entries: [key: string, value: unknown][]): Promise<unknown>;
  /** Write a value where there is none, and delete what is kept as `instead`, both or neither; tell whether there was none. */
  add(key: string, value: unknown, instead?: string): Promise<boolean>;
  /** Do something while nobody else does. */
  locked<T>(work: () => Promise<T>): Promise<T>;
}

export interface DeviceOptions {
  /** What all reports together may cost ... */
  cap: number;
  /** ... in any time such as "30 days"; for ever, if it is left out. */
  per?: string | null;
  /** What one report may cost, whatever the server says: 0.000001 to 16. */
  maxEpsilon: number;
  /** A key with the role device, if the service asks for one. It stands in the page: it is public. */
  key?: string | null;
  /** Names of the groups of an experiment with private groups, as the experiment has them ... */
  groups?: readonly string[] | null;
  /** ... and the person's own, which nobody else learns. */
  group?: string | null;
  /** A report leaves one minute to so many seconds and a minute after the server's time for it: 60, and no less. */
  jitter?: number;
  /** Seconds for the server to answer: 10. */
  timeout?: number;
  /** Whether it sends by itself; else call `sendDue()` now and then. */
  background?: boolean;
  store?: Store;
  /** Whether cap and per take the place of those that were promised here before. */
  change?: boolean;
  /** For demonstrations and tests on this machine alone: reports may leave within seconds, and then their time tells. */
  demonstration?: boolean;
}

export interface Question {
  /** A name of the person for this browser; what is sent is a pseudonym. */
  visitor?: string;
  eligibleArms?: readonly string[];
  /** What to show while the server is away. */
  fallback?: string | null;
}

export interface Decision<Payload = unknown> {
  readonly arm: string | null;
  readonly payload: Payload | null;
  readonly participates: boolean;
  /** Why it takes no part; empty if it does. */
  readonly why: string;
  /** What the report costs, and is masked with; 0 if there is none. */
  readonly epsilon: number;
  /** Mask a reward in [0, 1], to leave later; whether it counts: the first does, until report_at. */
  report(reward: number | boolean): Promise<boolean>;
}

export interface Proof {
  readonly flips: number;
  readonly promise: number;
  readonly measured: number;
  readonly low: number;
  readonly high: number;
  /** Whether what was seen does not contradict the promise. */
  readonly holds: boolean;
  toString(): string;
}

export class Device {
  constructor(url: string | URL, experiment: string, options: DeviceOptions);
  decide<Payload = unknown>(question?: Question): Promise<Decision<Payload>>;
  /** Send the reports whose time has come; how many were answered for good. */
  sendDue(): Promise<number>;
  /** What is left of the cap. */
  remaining(): Promise<number>;
  close(): void;
  proveIt(n: number, where?: { textContent: string | null } | null): Proof;
}

export function inBrowser(name?: string): Store;
export function inMemory(): Store;
export function proveIt(n: number, epsilon: number, where?: { textContent: string | null } | null): Proof;

/** The parts of the mask, for whoever checks it. Epsilons are whole millionths here. */
export function asEpsilon(value: unknown): number;
export function threshold(millionths: number, answers?: number): bigint;
export function answerOf(truth: number, answers: number, each: bigint, word: bigint): number;
export function bitOf(reward: number | boolean, word?: bigint): 0 | 1;
export interface Answers {
  answers: number;
  truthOf(bit: number): number;
}
export function masked(bits: readonly number[], question: Answers & { epsilon: number }): number[];
export function questionOf(groups: number, own?: number, signs?: readonly number[] | null): Answers;
/** What an answer of a server offers; `why` it is of no use, if so. */
export function readOffer(
  answer: { status: number; content: unknown; date: number },
  among: readonly string[] | undefined,
  own: { most: number; groups: readonly string[] | null; group: string | null },
): Answers & { epsilon: number; arm: string; why: string };
export function interval(hits: number, n: number, level: number): [number, number];
