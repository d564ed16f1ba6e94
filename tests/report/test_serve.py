"""Tables that are dropped on a page of this machine: what comes of them, and who is refused."""

import io
import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import zipfile
from collections.abc import Iterator
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from browser import chromium
from waiting import until

import korisk as kr
from korisk.report import serve
from korisk.report.page.page import curves_page
from korisk.report.serve import TableServer, table_page

EXAMPLE = Path(__file__).parents[2] / "examples" / "pilot_h8.csv"
TABLE = b"n,error\n8,0.4\n16,0.2\n32,0.1\n64,0.05\n"
RISING = b"n,quality\n8,0.5\n16,0.55\n32,0.6\n64,0.65\n"


@pytest.fixture
def port(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[TableServer]:
    """A served page whose temporary folders are below `tmp_path`; none may stay there."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    with TableServer() as server:
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        yield server
        server.shutdown()
    assert list(folder.iterdir()) == []


def ask(
    port: TableServer, method: str, path: str, body: bytes | None = None, **headers: str
) -> tuple[int, bytes]:
    connection = HTTPConnection("127.0.0.1", port.server_port, timeout=200)
    own = {"Host": f"127.0.0.1:{port.server_port}"}
    connection.request(method, path, body, own | headers)
    response = connection.getresponse()
    return response.status, response.read()


def post(port: TableServer, body: bytes, origin: str = "", **fields: object) -> tuple[int, Any]:
    headers = {"Origin": origin or port.address.rstrip("/")}
    code, content = ask(port, "POST", f"/plan?{urlencode(fields)}", body, **headers)
    answer = json.loads(content)
    if "error" in answer:
        parts = [part if isinstance(part, str) else part["text"] for part in answer["error"]]
        answer["text"] = "".join(parts)
    return code, answer


def slow(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Let a program that never ends take the place of Python; it writes its number there."""
    program, number = tmp_path / "slow", tmp_path / "number"
    program.write_text(f"#!/bin/sh\nsleep 300 &\necho $! > {number}\nwait\n")
    program.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(program))
    return number


def runs(number: Path) -> bool:
    """Whether the child of the program still runs; one that has ended may wait to be collected."""
    try:
        return "\nState:\tZ" not in Path(f"/proc/{number.read_text().strip()}/status").read_text()
    except FileNotFoundError:
        return False


def test_a_table_becomes_the_page_that_the_planner_draws(port: TableServer) -> None:
    code, answer = post(port, EXAMPLE.read_bytes(), name="C:\\data\\pilot_h8.csv", target="0,003")
    assert code == 200
    code, page = ask(port, "GET", answer["page"])
    curves = kr.Curve.read_all(EXAMPLE)
    assert (code, page.decode()) == (
        200,
        curves_page(curves, [(None, None)] * 2, title="pilot_h8.csv", target=0.003),
    )
    fields = {"name": "p.csv", "model": "FC", "column_n": "n", "column_error": "error"}
    code, answer = post(port, EXAMPLE.read_bytes(), **fields, unit="error")
    page = ask(port, "GET", answer["page"])[1]
    assert page.decode() == curves_page(
        [kr.Curve.read(EXAMPLE, model="FC")], [(None, None)], title="p.csv", target=None
    )
    for path in ("/page/", "/page/x", "/etc/passwd", "/../serve.py", "/plan"):
        assert ask(port, "GET", path)[0] == 404


def test_other_sites_and_other_names_are_refused(port: TableServer) -> None:
    own = port.address.rstrip("/")
    for headers in (
        {"Origin": "https://example.org"},
        {"Origin": "null"},
        {"Origin": f"http://127.0.0.1:{port.server_port + 1}"},
        {},
        {"Origin": own, "Host": "example.org"},  # a name that was made to lead here
        {"Origin": "http://example.org", "Host": "example.org"},
    ):
        assert ask(port, "POST", "/plan?name=a.csv", TABLE, **headers)[0] == 403, headers
    assert ask(port, "GET", "/", Host="example.org")[0] == 403
    assert ask(port, "POST", "/elsewhere", TABLE, Origin=own)[0] == 404
    assert ask(port, "PUT", "/plan", TABLE, Origin=own)[0] == 501
    for odd in ("localhost:x@evil.com", f"localhost:{port.server_port}\r\nHost: evil.com", ""):
        with socket.create_connection(("127.0.0.1", port.server_port), timeout=60) as line:
            line.sendall(f"GET / HTTP/1.1\r\nHost: {odd}\r\n\r\n".encode())
            assert line.recv(65536).startswith(b"HTTP/1.0 403"), odd
    there = f"localhost:{port.server_port}"
    assert ask(port, "GET", "/", Host=there)[0] == 200
    code, _ = ask(port, "POST", "/plan?name=a.csv", b"", Host=there, Origin=f"http://{there}")
    assert code == 422  # it is read, and empty


def test_every_answer_forbids_the_browser_to_ask_others(port: TableServer) -> None:
    connection = HTTPConnection("127.0.0.1", port.server_port, timeout=60)
    connection.request("GET", "/")
    response = connection.getresponse()
    policy = dict(
        part.strip().split(" ", 1)
        for part in response.headers["Content-Security-Policy"].split(";")
    )
    assert policy.pop("default-src") == "'none'"
    for sources in policy.values():
        assert set(sources.split()) <= {"'self'", "'none'", "'unsafe-inline'", "data:"}
    assert response.headers["Cache-Control"] == "no-store"
    assert "korisk" in response.headers["Server"]
    assert "Python" not in response.headers["Server"]
    assert not re.findall(r"(?:src|href)=[\"']?(?:https?:)?//", response.read().decode())


def raw(port: TableServer, request: str, body: bytes = b"") -> socket.socket:
    """A connection over which a request has gone, and some of its body."""
    line = socket.create_connection(("127.0.0.1", port.server_port), timeout=60)
    own = f"127.0.0.1:{port.server_port}"
    head = f"POST /plan?name=a.csv HTTP/1.1\r\nHost: {own}\r\nOrigin: http://{own}\r\n{request}\r\n"
    line.sendall(head.encode() + body)
    return line


def received(line: socket.socket) -> bytes:
    content = b""
    with line:
        while part := line.recv(65536):
            content += part
    return content


def test_what_is_too_large_is_refused_before_it_is_read(port: TableServer) -> None:
    said = received(raw(port, f"Content-Length: {10**11}\r\n", b"n,error\n" * 9999))
    assert said.startswith(b"HTTP/1.0 413")
    assert b"at most 32 MB" in said
    for length in ("", "Transfer-Encoding: chunked\r\n", "Content-Length: -1\r\n"):
        assert received(raw(port, length)).startswith(b"HTTP/1.0 411")
    assert post(port, b"", name="a.csv")[0] == 422


def test_an_upload_without_end_disturbs_nobody_and_half_a_table_is_not_planned(
    port: TableServer,
) -> None:
    endless = [raw(port, "Content-Length: 999999\r\n", b"n,error\n") for _ in range(3)]
    assert post(port, b"", name="a.csv")[0] == 422
    for line in endless:  # a browser that has gone
        line.close()
    half = raw(port, "Content-Length: 9999\r\n", b"n,error\n4,0.2\n8,0.1\n16,0.05\n")
    half.shutdown(socket.SHUT_WR)
    assert received(half).startswith(b"HTTP/1.0 408")


def bomb() -> bytes:
    """A workbook of a few kilobytes that unpacks to a hundred megabytes."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("xl/workbook.xml", b"<workbook/>")
        archive.writestr("xl/worksheets/sheet1.xml", b"\0" * 100_000_000)
    return content.getvalue()


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("bomb.xlsx", None, "unpacks to more than 64 MB"),
        ("garbage.bin", bytes(range(256)) * 99, "binary file"),
        ("garbage.xlsx", b"PK\x03\x04" + bytes(range(256)), "damaged archive"),
        ("store.db", b"SQLite format 3\0" + bytes(range(256)) * 9, "store.db: "),
        ("empty.csv", b"", "empty"),
        ("deep.json", b"[" * 100_000, "nested too deeply"),
        ("../../../etc/passwd", b"", "passwd: holds no table"),
        ("..\\..\\boot.ini", b"", "boot.ini: holds no table"),
        ("..", b"", "table: holds no table"),
        ("a\0b\n.csv", b"", ".csv: holds no table"),
        ("numpy.py", b"raise SystemExit", "numpy.py: "),
        ("x" * 500, b"", "x: holds no table"),
        ("<script>alert(1)</script>", b"", "holds no table"),
        ("few.csv", b"n,error\n1,2\n", "few"),
        (
            "a.csv",
            b"n,<img src=x onerror=alert(1)>,b std\n2,2,3\n4,5,6\n",
            "whether larger is better",
        ),
    ],
    ids=lambda value: str(value)[:12],
)
def test_hostile_files_end_in_one_line_and_nothing_stays(
    port: TableServer, name: str, content: bytes | None, words: str
) -> None:
    code, answer = post(port, bomb() if content is None else content, name=name)
    assert (code, words in answer["text"]) == (422, True), answer
    assert "\n" not in answer["text"]
    assert tempfile.gettempdir() not in answer["text"]
    assert "Traceback" not in answer["text"]


def test_a_message_names_arguments_and_the_values_it_suggests(port: TableServer) -> None:
    code, answer = post(port, TABLE, name="a.csv", target="small")
    assert (code, answer["text"].startswith("target must be a number, got 'small'")) == (422, True)
    assert answer["error"][0] == {"text": "target", "name": "target", "value": None}
    for field, text in (("target", "-1"), ("filter", "test")):
        assert post(port, TABLE, name="a.csv", **{field: text})[0] == 422
    code, answer = post(port, RISING, name="a.csv")
    units = [part["value"] for part in answer["error"] if not isinstance(part, str)]
    assert set(units) == {"accuracy", "error", "psnr"}
    code, answer = post(port, TABLE.replace(b"n,", b"budget,"), name="a.csv")
    assert any(part["name"] == "columns" for part in answer["error"] if not isinstance(part, str))


def test_a_pilot_whose_longer_run_changes_the_advice_has_a_page_that_says_so(
    tmp_path: Path,
) -> None:
    def fit(n: int, seed: int, longer: float = 1.0) -> dict[str, float]:
        return {"mse": 0.05 / longer**2, "train_mse": 0.04 / longer**2}

    file = tmp_path / "probed.db"
    pilot = kr.run_pilot(fit, [16, 64, 256], 2, store=file, longer=3, quiet=True, target=0.01)
    assert pilot.plan(0.01).recommend().action == "train"
    assert "Do next: train 3 times as long" in table_page(str(file), {"target": "0.01"})


def test_one_table_at_a_time_and_none_for_ever(
    port: TableServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    number = slow(monkeypatch, tmp_path)
    monkeypatch.setattr(serve, "SECONDS", 2.0)
    answers: list[tuple[int, Any]] = []
    first = threading.Thread(target=lambda: answers.append(post(port, TABLE, name="a.csv")))
    first.start()
    until(number.exists)
    code, answer = post(port, TABLE, name="b.csv")
    assert (code, "busy" in answer["text"]) == (503, True)
    first.join()
    ((code, answer),) = answers
    assert (code, "a.csv: takes longer than 2 s" in answer["text"]) == (504, True)
    until(lambda: not runs(number))  # what the process had started is ended too


@pytest.mark.parametrize("ending", ["browser", "server"])
def test_nobody_waits_for_a_plan_and_it_ends(
    ending: str, port: TableServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    number = slow(monkeypatch, tmp_path)
    line = raw(port, f"Content-Length: {len(TABLE)}\r\n", TABLE)
    until(number.exists)
    assert list((tmp_path / "temporary").iterdir())
    if ending == "server":
        port.server_close()
    line.close()
    until(lambda: not runs(number))
    until(lambda: not list((tmp_path / "temporary").iterdir()))


def test_a_process_that_dies_is_said_and_the_next_table_is_planned(
    port: TableServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as changed:
        changed.setattr(sys, "executable", "/bin/false")
        code, answer = post(port, TABLE, name="a.csv")
    assert (code, "a.csv: could not be planned" in answer["text"]) == (500, True)
    assert post(port, b"", name="a.csv")[0] == 422


@pytest.mark.parametrize("ending", [signal.SIGINT, signal.SIGTERM])
def test_the_command_tells_its_address_and_ends_cleanly(ending: signal.Signals) -> None:
    command = [sys.executable, "-m", "korisk", "serve"]
    path = os.pathsep.join(filter(None, sys.path))
    with subprocess.Popen(
        command, stderr=subprocess.PIPE, text=True, env=os.environ | {"PYTHONPATH": path}
    ) as process:
        assert process.stderr is not None
        said = process.stderr.readline()
        found = re.search(r"http://127\.0\.0\.1:(\d+)/", said)
        assert found, said
        connection = HTTPConnection("127.0.0.1", int(found[1]), timeout=60)
        connection.request("GET", "/")
        assert connection.getresponse().status == 200
        process.send_signal(ending)
        assert process.communicate(timeout=60)[1] == "korisk: stopped\n"
    assert process.returncode == 0


def test_the_page_in_a_browser(port: TableServer, tmp_path: Path) -> None:
    table = tmp_path / "rising.csv"
    table.write_bytes(RISING.replace(b"quality", b"<b>quality</b>"))
    asked: list[str] = []
    with chromium() as browser:
        page = browser.new_page()
        page.set_default_timeout(180_000)  # a page takes a while on a busy machine
        errors: list[str] = []
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.on("request", lambda request: asked.append(request.url))
        page.goto(port.address)
        page.set_input_files("#file", table)
        page.wait_for_selector("#said button")
        assert "<b>quality</b>" in page.inner_text("#said")  # as text
        assert page.query_selector("#said b") is None
        assert "choose “Unit: accuracy”" in page.inner_text("#said")
        page.click("#said button:has-text('accuracy')")
        page.wait_for_selector("#headline")
        assert page.inner_text("header p >> nth=0") == "rising.csv"
        assert page.query_selector("header b") is None
        # The page of a table cannot ask this server for anything.
        blocked = page.evaluate("fetch('/').then(() => 'answered', () => 'blocked')")
        assert blocked == "blocked"
        # Back, and another file that is dropped onto the page.
        page.goto(port.address)
        dropped = page.evaluate_handle(
            """(text) => { const data = new DataTransfer();
            data.items.add(new File([text], "dropped.csv")); return data; }""",
            TABLE.decode(),
        )
        page.fill("#target", "0.02")
        page.dispatch_event("body", "drop", {"dataTransfer": dropped})
        page.locator("header p:has-text('dropped.csv')").wait_for()
        assert page.input_value("#target") == "0.02"
        assert not errors
    assert all(url.startswith(port.address) for url in asked)
