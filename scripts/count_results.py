#!/usr/bin/env python3
"""Adds up the JUnit files that ctest and pytest wrote.

    count_results.py FOLDER [--skipped N] [--failed N]

A test of ctest that runs several tests has their report in FOLDER/several/NAME.xml, and they are counted in its place.
Prints what tests recorded about themselves (RecordProperty in GoogleTest, whose own reports lie below FOLDER/recorded and
FOLDER/several; record_property in pytest), failed and skipped tests with their reasons, then "N passed, N failed, N skipped".
Exit code 1 if a test failed or none ran.
"""

import argparse
import pathlib
import sys
import xml.etree.ElementTree as ElementTree


def outcome(case: ElementTree.Element) -> str:
    if case.find("failure") is not None or case.find("error") is not None or case.get("status") == "fail":
        return "failed"
    if case.find("skipped") is not None or case.get("status") in ("notrun", "disabled"):
        return "skipped"
    return "passed"


def several(folder: pathlib.Path, case: ElementTree.Element) -> list[ElementTree.Element]:
    """The tests that `case` stands for. It counts by itself where it has no report, or failed and none of its tests did:
    a program that crashes, or does not end, may not say how far it came."""
    report = folder / "several" / f"{case.get('name')}.xml"
    if not report.exists():
        return [case]
    cases = list(ElementTree.parse(report).iter("testcase"))
    failed = any(outcome(each) == "failed" for each in cases)
    return cases if failed or outcome(case) != "failed" else [*cases, case]


def recorded(folder: pathlib.Path) -> list[str]:
    """One line per test that recorded something: its name and "key value" pairs."""
    lines = []
    for path in sorted((*folder.glob("*.xml"), *folder.glob("recorded/**/*.xml"), *folder.glob("several/**/*.xml"))):
        for case in ElementTree.parse(path).iter("testcase"):
            pairs = [f"{p.get('name')} {p.get('value')}" for p in case.iter("property")]
            if pairs:
                lines.append(f"recorded {case.get('classname')}.{case.get('name')}: {', '.join(pairs)}")
    return lines


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--skipped", type=int, default=0, help="test sets that did not start at all")
    parser.add_argument("--failed", type=int, default=0, help="failures outside of any test, such as the build")
    arguments = parser.parse_args()

    for line in recorded(arguments.folder):
        print(line)
    counts = {"passed": 0, "failed": arguments.failed, "skipped": arguments.skipped}
    for path in sorted(arguments.folder.glob("*.xml")):
        for case in (each for entry in ElementTree.parse(path).iter("testcase") for each in several(arguments.folder, entry)):
            result = outcome(case)
            counts[result] += 1
            if result != "passed":
                detail = case.find("skipped")
                reason = (detail.get("message") or "").strip() if detail is not None else ""
                print(f"{result} {case.get('name')}{': ' + reason if reason else ''}")
    print(f"{counts['passed']} passed, {counts['failed']} failed, {counts['skipped']} skipped")
    return 0 if counts["passed"] and not counts["failed"] else 1


if __name__ == "__main__":
    sys.exit(main())
