#!/usr/bin/env node
/**
 * The mask as a program, for the audit: `maskedbandits audit --epsilon 1 --command "node client/cli.js 1"`.
 *
 * It reads lines with a 0 or a 1 (and optionally the name of a decision, which keeps its first answer), or, for devices with
 * groups, a question and the truth, `TABLE SIGNS EPSILON GROUP REWARD`. It writes a masked answer for each line, and an empty
 * line where a device would take no part. Questions and answers go through the functions of a Device.
 */
import { createInterface } from "node:readline";
import { asEpsilon, masked, questionOf, readOffer } from "./client.js";

const most = asEpsilon(Number(process.argv[2] ?? "1"));
if (!most) fail("epsilon: give a number from 0.000001 to 16, such as: node cli.js 1");

const bitQuestion = { ...questionOf(0), epsilon: most };
const BIT = /^([01])(?: (\S+))?$/;
const QUESTION = /^(\d+(?:,\d+)*) (-|[01](?:,[01])*) ([\d.]+) (\d+) ([01])$/;
const OFFERED = { participate: true, token: "of-no-decision-at-all", now: 0, report_at: 60, expires: 3660 };

function fail(complaint) {
  console.error(complaint);
  process.exit(2);
}

const kept = new Map();

function bitAnswer(bit, name) {
  const answer = kept.get(name) ?? masked([Number(bit)], bitQuestion)[0];
  if (name !== undefined) kept.set(name, answer);
  return answer;
}

/** The answer of a Device of this group, as `decide()` and `report(reward)` compute it. */
function groupAnswer(table, signs, asked, group, reward) {
  const arms = table.split(",");
  const own = { most, groups: arms.map((_, index) => String(index)), group };
  if (!own.groups.includes(group)) fail("invalid line: its table has no such group"); // a Device has one of its groups
  const content = { ...OFFERED, arms, signs: signs === "-" ? null : signs.split(",").map(Number), epsilon: Number(asked) };
  const offer = readOffer(content, undefined, own);
  return offer.why ? "" : masked([Number(reward)], offer)[0];
}

let out = "";
for await (const line of createInterface({ input: process.stdin })) {
  const [bit, question] = [BIT.exec(line), QUESTION.exec(line)];
  if (!bit && !question) {
    fail("invalid line: write `BIT [NAME]` or `TABLE SIGNS EPSILON GROUP REWARD`"); // without repeating it
  }
  out += `${bit ? bitAnswer(...bit.slice(1)) : groupAnswer(...question.slice(1))}\n`;
  if (out.length > 1 << 16) {
    process.stdout.write(out);
    out = "";
  }
}
process.stdout.write(out);
