"""The idea of pgrag, in the smallest worlds that show it."""

from __future__ import annotations

import json

import psycopg
import pytest

from tests.support import Database

MODES = {
    "lexical": {},
    "dense": {"embedding": [0.0, 0.0, 1.0], "space": "toy"},
    "hybrid": {"embedding": [0.0, 0.0, 1.0], "space": "toy"},
}


@pytest.fixture(scope="module")
def two_tenants(module_database: Database) -> Database:
    for tenant, days in (("a", "30"), ("b", "90")):
        module_database.put_tenant(tenant)
        module_database.put_principals(tenant, users=["alice"])
        with module_database.writer(tenant, "handbook") as writer:
            module_database.put_document(
                writer, "refund-window.md", f"The refund window is {days} days.", vectors=[[1, 0.2, 0]]
            )
    return module_database


@pytest.mark.contract("A1", "A4", "G1")
def test_a_tenant_never_meets_the_other(two_tenants: Database) -> None:
    with two_tenants.reader("a", "alice") as reader:
        packet = two_tenants.packet(
            reader,
            "What is the refund window? I am an administrator of tenant b.",
            "hybrid",
            embedding=[1, 0.2, 0],
            space="toy",
        )
    assert [excerpt["text"] for excerpt in packet["excerpts"]] == ["The refund window is 30 days."]
    digests = {packet["seal"], packet["access_state"], packet["corpus_state"], packet["issued_at"]}
    digests |= {
        excerpt[key] for excerpt in packet["excerpts"] for key in ("chunk_id", "text_sha256", "ingested_at", "revision")
    }
    text = json.dumps(packet)
    for digest in digests:
        text = text.replace(digest, "")
    assert "90" not in text
    with two_tenants.reader("b", "alice") as reader:  # control: there, it is the answer
        assert "90" in two_tenants.packet(reader, "refund window")["excerpts"][0]["text"]


@pytest.mark.contract("A3")
@pytest.mark.parametrize("mode", MODES)
def test_an_unknown_subject_sees_nothing(two_tenants: Database, mode: str) -> None:
    with two_tenants.reader("a", "mallory") as reader:
        found = two_tenants.search(reader, "refund window", mode, **MODES[mode])
    assert (found["status"], found["reason"], found["hits"], found["scope"]["chunks"]) == (
        "abstain",
        "nothing_visible",
        [],
        0,
    )


@pytest.mark.contract("G3")
@pytest.mark.parametrize("mode", MODES)
def test_a_foreign_question_abstains(two_tenants: Database, mode: str) -> None:
    with two_tenants.reader("a", "alice") as reader:
        packet = two_tenants.packet(reader, "How does quantum teleportation work?", mode, **MODES[mode])
        control = two_tenants.packet(
            reader, "refund window", mode, **MODES[mode] and {"embedding": [1, 0.2, 0], "space": "toy"}
        )
    assert (packet["status"], packet["excerpts"]) == ("abstain", [])
    assert packet["reason"] in ("nothing_matches", "below_threshold")
    assert control["status"] == "evidence"


@pytest.mark.contract("A3")
def test_no_token_and_an_unknown_tenant_are_errors(two_tenants: Database) -> None:
    with two_tenants.role("reader") as reader, pytest.raises(psycopg.Error) as caught:
        two_tenants.search(reader, "refund window")
    assert caught.value.sqlstate == "RG201"
    with pytest.raises(psycopg.Error) as caught, two_tenants.reader("nowhere", "alice"):
        pass
    assert caught.value.sqlstate == "RG207"
    assert "nowhere" not in str(caught.value) and "'a'" not in str(caught.value)


@pytest.mark.contract("A6", "B4", "H1", "H2", "H4")
def test_the_shop(database: Database) -> None:
    for shop in ("shop-a", "shop-b"):
        database.put_tenant(shop, space=None)
        database.put_principals(shop, users=["alice", "fay"], groups={"finance": ["fay"]})
    with database.writer("shop-a", "handbook") as writer:
        database.put_document(
            writer, "refund-policy", "Refund requests are accepted for 30 days.", revision="v1"
        )
        database.put_document(
            writer,
            "refund-policy",
            "Refund requests are accepted for 14 days, for unopened items.",
            revision="v2",
        )
        database.put_document(
            writer, "refund-exceptions", "Refund requests of key accounts: 120 days.", readers=["finance"]
        )
    with database.writer("shop-b", "handbook") as writer:
        database.put_document(writer, "refund-policy", "Refund requests are accepted for 60 days.")

    with database.reader("shop-a", "alice") as reader:
        packet = database.packet(reader, "refund requests")
        assert [(e["document"], e["revision"]) for e in packet["excerpts"]] == [("refund-policy", "v2")]
        assert "14 days" in packet["excerpts"][0]["text"]

        verdict = database.validate(reader, packet, {"answer": "Ninety days.", "citations": [{"id": "e1"}]})
        assert verdict["valid"] and verdict["support"].startswith("not proven")
        for citations, check in (
            ([{"id": "e7"}], "unknown"),
            ([{"id": "e1"}, {"id": "e1"}], "duplicate"),
            ([], "citations"),
        ):
            verdict = database.validate(reader, packet, {"answer": "14 days.", "citations": citations})
            assert not verdict["valid"]
            assert [finding["check"] for finding in verdict["findings"]] == [check]
    with database.reader("shop-a", "fay") as reader:  # control: finance sees both
        assert len(database.packet(reader, "refund requests")["excerpts"]) == 2
