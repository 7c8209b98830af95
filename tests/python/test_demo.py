"""``pgrag demo``, end to end in an empty folder, as a newcomer runs it."""

from __future__ import annotations

import json
import os
import re
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psycopg
import pytest

from pgrag import embedded
from pgrag.cli import _handbook
from pgrag.cli.demo import demo
from pgrag.config import Settings

Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with a space in its name, in which nothing of pgrag is set."""
    home = tmp_path_factory.mktemp("new comer")
    yield home
    embedded.stop(home / ".pgrag" / "demo", force=True)


@pytest.fixture(scope="module")
def pgrag(home: Path) -> Run:
    root = str(Path(__file__).resolve().parents[2])
    clean = {name: value for name, value in os.environ.items() if not name.startswith("PGRAG_")}

    def run(*arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-W", "error", "-m", "pgrag", *arguments],
            cwd=home,
            env={**clean, "PYTHONPATH": root, "TERM": "dumb", "COLUMNS": "100", **env},
            capture_output=True,
            text=True,
            timeout=120,
        )

    return run


@pytest.fixture(scope="module")
def told(pgrag: Run) -> subprocess.CompletedProcess[str]:
    """The first run, for people. Another database's settings in the environment are nothing to it."""
    begin = time.perf_counter()
    result = pgrag("demo", PGRAG_DSN="host=/nowhere", PGRAG_SIGNING_KEY="00" * 32, PGRAG_KID="other")
    assert (result.returncode, result.stderr) == (0, "")
    assert time.perf_counter() - begin < 120
    return result


@pytest.fixture(scope="module")
def again(told: subprocess.CompletedProcess[str], pgrag: Run) -> dict[str, Any]:
    """The second run, for programs; it leaves the server running."""
    result = pgrag("demo", "--keep", "--json")
    assert (result.returncode, result.stderr) == (0, "")
    document: dict[str, Any] = json.loads(result.stdout)
    return document


def test_the_story_is_told_in_plain_text(told: subprocess.CompletedProcess[str]) -> None:
    said = told.stdout
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]", said)
    assert not re.search(r" $", said, re.MULTILINE)
    scenes = re.split(r"\n\n(?=[1-9]  |Go on)", said)
    assert [scene.splitlines()[0] for scene in scenes[1:7]] == [
        "1  One question, two readers",
        "2  One question, two dates",
        "3  One question, two tenants",
        "4  No evidence, no answer",
        "5  No permission, no evidence",
        "6  Replies are checked",
    ]
    readers, dates, tenants, nothing, forbidden, replies, on = (" ".join(one.split()) for one in scenes[1:])
    bob, alice = readers.split("alice, of support")
    assert "policies/refund-exceptions.md" in bob
    assert "up to 60 days" in bob
    assert "60 days" not in alice
    assert re.search(r"2023-09-10 e1 .*within 14 days.*today e1 .*within 30 days", dates)
    assert re.search(r"halvorsen e1 .*within 30 days.*kestrel e1 .*within 90 days", tenants)
    assert "no evidence" in nothing
    assert re.search(r"bob.*31 % \| PF-T1.*dave, a contractor no evidence", forbidden)
    assert re.search(r"valid: .*invented citation.*refused: .*forged packet.*refused: RG501", replies)
    assert "not proven" in replies
    assert re.search(r"psql 'host=.* dbname=handbook user=demo_reader passfile=", on)
    assert "select pgrag.authenticate(" in on


def _texts(answer: dict[str, Any]) -> str:
    return " ".join(excerpt["text"] for excerpt in answer["packet"]["excerpts"])


@pytest.mark.contract("A1", "A4", "B7", "G3")
def test_readers_dates_and_tenants_get_their_own_evidence(again: dict[str, Any]) -> None:
    (bob, alice), (then, now), (halvorsen, kestrel), (teleport,), (lead, contractor) = (
        scene["answers"] for scene in again["scenes"]
    )
    assert "60 days" in _texts(bob)
    assert "60 days" not in json.dumps(alice)
    assert "14 days" in _texts(then) and "30 days" not in _texts(then)
    assert "30 days" in _texts(now) and "14 days" not in _texts(now)
    assert "30 days" in _texts(halvorsen) and "90 days" not in json.dumps(halvorsen)
    assert "90 days" in _texts(kestrel) and "30 days" not in json.dumps(kestrel)
    assert "PF-T1" in _texts(lead)
    for answer in (teleport, contractor):
        assert answer["packet"]["status"] == "abstain"
        assert answer["packet"]["excerpts"] == []


@pytest.mark.contract("H1", "H2", "G5")
def test_one_reply_is_valid_and_the_others_are_refused(again: dict[str, Any]) -> None:
    valid, invented, bare, forged, foreign = again["replies"]
    assert "valid and four that are refused" in " ".join(str(demo.__doc__).split())
    assert valid["valid"] is True
    assert valid["verdict"]["citations"][0]["quote"] == "exact"
    assert [one["check"] for one in invented["verdict"]["findings"]] == ["unknown"]
    assert [one["check"] for one in bare["verdict"]["findings"]] == ["citations"]
    assert forged["error"]["code"] == foreign["error"]["code"] == "RG501"


@pytest.mark.contract("B9")
def test_a_second_run_goes_on_from_the_first(again: dict[str, Any]) -> None:
    assert again["steps"][-1]["did"] == "64 documents, 0 of them new"


def test_it_says_how_to_go_on(again: dict[str, Any], home: Path, pgrag: Run) -> None:
    files = home / ".pgrag" / "demo"
    config = {"PGRAG_CONFIG": str(files / "pgrag.toml")}
    for name in ("pgrag.toml", "pgpass"):
        assert stat.S_IMODE((files / name).stat().st_mode) == 0o600
    assert "password" not in again["go_on"]["dsn"]
    found = pgrag("search", "Up to what price per night may I book a hotel?", "--subject", "jonas", **config)
    assert found.returncode == 0, found.stderr
    assert "EUR 165" in found.stdout
    assert pgrag("status", **config).returncode == 0
    token = pgrag("token", "--subject", "bob", **config).stdout.strip()
    with psycopg.connect(again["go_on"]["dsn"]) as connection:
        connection.execute("select pgrag.authenticate(%s)", (token,))
        search = "select document from pgrag.search('goodwill refund', p_mode => 'lexical')"
        assert ("policies/refund-exceptions.md",) in connection.execute(search).fetchall()
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            connection.execute("select * from pgrag_data.chunk")


def test_only_what_is_kept_stays_running(again: dict[str, Any], home: Path, pgrag: Run) -> None:
    path = home / ".pgrag" / "demo"
    assert embedded.status(path)["running"]
    assert embedded.stop(path)
    assert pgrag("demo", "--json").returncode == 0
    assert not embedded.status(path)["running"]


def test_settings_are_toml_whatever_the_path_is(tmp_path: Path) -> None:
    home = tmp_path / "🗂 Größe"
    server: Any = SimpleNamespace(path=home, dsn=lambda database, user, passfile: f"dbname={database} user={user} passfile='{passfile}'")
    (tmp_path / "pgrag.toml").write_text(_handbook._config(server, b"k" * 32, "demo"), encoding="utf-8")
    settings = Settings.load(config=tmp_path / "pgrag.toml")
    assert settings.dsn is not None and str(home) in settings.dsn and settings.signing_key == b"k" * 32
