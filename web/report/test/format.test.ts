// Numbers as they are shown.
import assert from "node:assert/strict";
import { test } from "node:test";
import {
  count,
  exactBytes,
  mib,
  MIB,
  milliseconds,
  ordinal,
  percent,
  plural,
  signedPercent,
  time,
  timeApart,
} from "../src/format.ts";

test("sizes have three digits or more and say MiB", () => {
  assert.equal(mib(600 * MIB), "600\u00a0MiB");
  assert.equal(mib(12.34 * MIB), "12.3\u00a0MiB");
  assert.equal(mib(1.234 * MIB), "1.23\u00a0MiB");
  assert.equal(mib(2345.6 * MIB), "2,346\u00a0MiB");
  assert.equal(mib(0), "0\u00a0MiB");
  assert.equal(mib(100), "<\u00a00.01\u00a0MiB");
  assert.equal(mib(-100), ">\u00a0\u22120.01\u00a0MiB");
  assert.equal(mib(-3 * MIB), "\u22123.00\u00a0MiB");
  assert.equal(mib(9.999 * MIB), "10.00\u00a0MiB");
});

test("bytes are exact", () => {
  assert.equal(exactBytes(629145600), "629,145,600\u00a0bytes");
  assert.equal(exactBytes(1), "1\u00a0byte");
  assert.equal(count(-1234567), "\u22121,234,567");
  assert.equal(count(999), "999");
  assert.equal(count(-0.2), "0");
});

test("times choose their unit", () => {
  assert.equal(time(0), "0\u00a0ms");
  assert.equal(time(1.5), "1.50\u00a0s");
  assert.equal(time(123.4), "123\u00a0s");
  assert.equal(time(0.0123), "12.3\u00a0ms");
  assert.equal(time(4.5e-5), "45.0\u00a0\u00b5s");
  assert.equal(time(1e-9), "<\u00a01\u00a0\u00b5s");
  assert.equal(milliseconds(0.5), "500");
  assert.equal(milliseconds(1e-6), "<\u00a00.01");
});

test("shares, plurals and ordinals", () => {
  assert.equal(percent(0.0426), "4.3\u00a0%");
  assert.equal(percent(0.0001), "<\u00a00.1\u00a0%");
  assert.equal(percent(1.5), "150\u00a0%");
  assert.equal(signedPercent(0.5), "+50.0\u00a0%");
  assert.equal(signedPercent(-0.5), "\u221250.0\u00a0%");
  assert.equal(plural(1, "run"), "1 run");
  assert.equal(plural(2000, "run"), "2,000 runs");
  assert.deepEqual([0, 1, 2, 3, 10, 11, 12, 20, 21, 110].map(ordinal), [
    "1st",
    "2nd",
    "3rd",
    "4th",
    "11th",
    "12th",
    "13th",
    "21st",
    "22nd",
    "111th",
  ]);
});

test("times that are nearly the same have the digits that tell them apart", () => {
  assert.equal(timeApart(1.1134, 1.1066), "1.113\u00a0s");
  assert.equal(timeApart(1.1066, 1.1134), "1.107\u00a0s");
  assert.equal(timeApart(0.25, 0.5), time(0.25));
  assert.equal(timeApart(0.25, 0.25), time(0.25));
  assert.equal(timeApart(0.1230001, 0.1229999), "123.0001\u00a0ms");
});
