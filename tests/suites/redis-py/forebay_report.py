"""Plugin of pytest for tests/suites.rs: writes one line of JSON for each phase of a test that is worth telling.

The suite says 6379 in some places whatever its options are; here that port is the server under test. So these tests
run too, and no other server of this machine is touched.
"""

import json
import os
import socket
import tracemalloc

import pytest

PORT = int(os.environ["FOREBAY_SUITE_PORT"])
REPORT = os.environ["FOREBAY_SUITE_REPORT"]

resolve = socket.getaddrinfo


def resolve_for_suite(host, port, *args, **kwargs):
    return resolve(host, PORT if port in (6379, "6379") else port, *args, **kwargs)


socket.getaddrinfo = resolve_for_suite

# The suite has each allocation of its own traced, which nothing in it reads and which doubles its time.
tracemalloc.start = lambda *frames: None


def causes(error):
    """The error, and those that led to it."""
    seen = []
    while error is not None and error not in seen:
        seen.append(error)
        error = error.__cause__ or error.__context__
    return " <- ".join(f"{type(error).__name__}: {error}" for error in seen)


def reason(report):
    """Why the suite skips a test, or expects it to fail."""
    if isinstance(report.longrepr, tuple):
        return report.longrepr[2].removeprefix("Skipped: ")
    return f"expected to fail: {report.wasxfail}"


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    report = (yield).get_result()
    if report.passed and call.when != "call":
        return
    if report.passed:
        why = ""
    elif report.skipped:
        why = reason(report)
    else:
        why = causes(call.excinfo.value)
    row = {"id": item.nodeid, "outcome": report.outcome, "why": why}
    with open(REPORT, "a", encoding="utf-8") as file:
        file.write(json.dumps(row) + "\n")


def pytest_sessionfinish(session):
    """The report is whole."""
    with open(REPORT, "a", encoding="utf-8") as file:
        file.write(json.dumps({"id": "", "outcome": "end", "why": str(session.testscollected)}) + "\n")
