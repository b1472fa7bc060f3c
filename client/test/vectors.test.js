// The mask gives what Python's gives, case by case: vectors.json is made by `python -m scripts.client_vectors`.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { answerOf, asEpsilon, bitOf, questionOf, threshold } from "../client.js";

const vectors = JSON.parse(readFileSync(new URL("../vectors.json", import.meta.url), "utf8"));
const word = (digits) => BigInt(`0x${digits}`);

test("epsilons in millionths", () => {
  for (const [value, millionths] of vectors.millionths) assert.equal(asEpsilon(value), millionths, String(value));
});

test("thresholds", () => {
  for (const [millionths, answers, each] of vectors.thresholds) {
    assert.equal(threshold(millionths, answers), word(each), `${millionths} ${answers}`);
  }
});

test("words make answers", () => {
  for (const [millionths, answers, truth, drawn, made] of vectors.answers) {
    assert.equal(answerOf(truth, answers, threshold(millionths, answers), word(drawn)), made);
  }
});

test("words make bits of rewards", () => {
  for (const [value, drawn, bit] of vectors.rewards) assert.equal(bitOf(value, word(drawn)), bit, String(value));
});

test("what a question to groups masks", () => {
  for (const [signs, groups, own, bit, answers, truth] of vectors.questions) {
    const question = questionOf(groups, own, signs);
    assert.deepEqual([question.answers, question.truthOf(bit)], [answers, truth]);
  }
});

test("there are cases of every kind", () => {
  const counts = Object.values(vectors).map((cases) => cases.length);
  assert.ok(Math.min(...counts) >= 20 && counts.length === 5);
});
