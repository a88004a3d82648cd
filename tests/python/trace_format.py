"""What the Trace Event Format ("Trace Event Format", Google, 2016: the JSON object format) asks of a file, as far as `lowtide report
--trace` uses it: metadata (M), complete events (X), counters (C), flows (s, f). A reader such as Perfetto drops or misplaces what
breaks these rules without saying so.
"""

import math

METADATA = {"process_name": "name", "thread_name": "name", "thread_sort_index": "sort_index"}


def _is_time(value) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value) and value >= 0


def _common(event: dict) -> list[str]:
    found = [f"{event}: no '{key}'" for key in ("name", "ph", "ts", "pid", "tid") if key not in event]
    if not found and not (isinstance(event["name"], str) and isinstance(event["ph"], str) and _is_time(event["ts"])
                          and all(isinstance(event[key], int) for key in ("pid", "tid"))):
        found.append(f"{event}: a member of the wrong type")
    return found


def _own(event: dict) -> list[str]:
    kind, args = event["ph"], event.get("args", {})
    if not isinstance(args, dict):
        return [f"{event}: 'args' is no object"]
    if kind == "M":
        return [] if list(args) == [METADATA.get(event["name"])] else [f"{event}: no metadata that is known"]
    if kind == "X":
        return [] if _is_time(event.get("dur")) else [f"{event}: no duration"]
    if kind == "C":
        right = bool(args) and all(isinstance(v, (int, float)) and not isinstance(v, bool) for v in args.values())
        return [] if right else [f"{event}: a counter counts numbers"]
    if kind in "sf" and len(kind) == 1:
        right = "id" in event and "cat" in event and (kind == "s" or event.get("bp") == "e")
        return [] if right else [f"{event}: a flow has an id, a category and, at its end, a binding point"]
    return [f"{event}: an event of kind '{kind}'"]


def _slices(events: list[dict]) -> list[str]:
    """Slices of a thread follow each other or lie in each other; ends in whole nanoseconds, as readers have them."""
    found, open_ends = [], {}
    for event in sorted((e for e in events if e["ph"] == "X"), key=lambda e: (e["tid"], e["ts"], -e["dur"])):
        begin = int(event["ts"] * 1000)
        end = begin + int(event["dur"] * 1000)
        ends = open_ends.setdefault(event["tid"], [])
        while ends and ends[-1] <= begin:
            ends.pop()
        if ends and ends[-1] < end:
            found.append(f"{event}: reaches over the end of the slice that it begins in")
        ends.append(end)
    return found


def _flows(events: list[dict]) -> list[str]:
    """Each begins once and ends once, not before, both in a slice of its thread."""
    found, slices = [], {}
    for event in events:
        if event["ph"] == "X":
            slices.setdefault(event["tid"], []).append((event["ts"], event["ts"] + event["dur"]))
    ends = {kind: {} for kind in "sf"}
    for event in (e for e in events if e["ph"] in "sf"):
        if event["id"] in ends[event["ph"]]:
            found.append(f"{event}: its id is there twice")
        ends[event["ph"]][event["id"]] = event
        if not any(begin - 1e-3 <= event["ts"] <= end + 1e-3 for begin, end in slices.get(event["tid"], [])):
            found.append(f"{event}: in no slice")
    found += [f"flow {one}: has one end" for one in ends["s"].keys() ^ ends["f"].keys()]
    return found + [f"flow {one}: ends before it begins" for one in ends["s"].keys() & ends["f"].keys()
                    if ends["f"][one]["ts"] < ends["s"][one]["ts"]]


def faults(trace: dict) -> list[str]:
    """What is wrong with a trace, one line each."""
    if not isinstance(trace, dict) or not isinstance(trace.get("traceEvents"), list):
        return ["no object with 'traceEvents'"]
    if trace.get("displayTimeUnit") not in ("ms", "ns"):
        return ["'displayTimeUnit' is neither ms nor ns"]
    events = trace["traceEvents"]
    found = [fault for event in events for fault in _common(event) or _own(event)]
    if found:
        return found
    named = {event["tid"] for event in events if event["name"] == "thread_name"}
    found += [f"{event}: of a thread without a name" for event in events if event["ph"] in "Xsf" and event["tid"] not in named]
    times = [event["ts"] for event in events if event["ph"] == "C"]
    if times != sorted(times):
        found.append("counters go back in time")
    return found + _slices(events) + _flows(events)
