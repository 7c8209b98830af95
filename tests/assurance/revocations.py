"""What was taken from a reader is gone at commit, on every path, by every route, however the reader looks and whatever is open."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Any

import psycopg

from tests.access.hidden import on
from tests.assurance.proof import Batch, Control, Lab, Proof, Tally
from tests.assurance.together import NEAR
from tests.functions.patched import all_patched
from tests.support import AUDIENCE, ISSUER, KID, SECRET, Database

Connection = psycopg.Connection[Any]

PROBES = 32
PASSAGES = 4  # of a document: with as many a list has a block
ROUTES = ("scope", "index", "class blocks")  # by seed
_TOPIC = "select document, revision from pgrag.search(%(topic)s, 50, '{}', {}p_threshold => 0, p_filter => %(filter)s, p_as_of => %(as_of)s, p_token => %(token)s)"
_EXCERPTS = "select e ->> 'document', e ->> 'revision' from jsonb_array_elements({} -> 'excerpts') e"
LOOK_BY: Mapping[str, str] = {
    "lexical": _TOPIC.format("lexical", ""),
    "dense": _TOPIC.format("dense", NEAR),
    "hybrid": _TOPIC.format("hybrid", NEAR),
    "strict": "select e ->> 'document', e ->> 'revision' from jsonb_array_elements(pgrag.search_json(%(strict)s, %(token)s) -> 'hits') e",
    "packet_json": _EXCERPTS.format("pgrag.packet_json(%(request)s, %(token)s)"),
    "packet": _EXCERPTS.format(f"pgrag.packet(%(topic)s, 50, 'hybrid', {NEAR}p_threshold => 0, p_filter => %(filter)s, p_as_of => %(as_of)s, p_token => %(token)s)"),
    "excerpt": "select e ->> 'document', e ->> 'revision' from pgrag.excerpt(%(chunk)s, %(as_of)s, %(token)s) e",
    "can_read": "select %(document)s::text, %(revision)s::text where pgrag.can_read('handbook', %(document)s, %(token)s)",
    "validate_reply": """select %(document)s::text, %(revision)s::text
        where (pgrag.validate_reply(%(packet)s, %(reply)s, %(token)s) -> 'valid')::boolean""",
    "whoami": "select %(document)s::text, %(revision)s::text from pgrag.whoami(%(token)s) w where w.known and (%(held)s = any (w.groups) or %(held)s = w.subject)",
}  # fmt: skip
BROWSE_BY: Mapping[str, str] = {
    "documents view": "select document, revision from pgrag.documents",
    "chunks view": "select document, revision from pgrag.chunks",
}


class Revoking:
    """A tenant with documents, and connections that live as long as it: revokers, and readers with plans made before."""

    def __init__(self, database: Database, seed: int, stack: ExitStack, route: str = "", only: str = "") -> None:
        self.database, self.dice, self.route = database, random.Random(seed), route or ROUTES[seed % len(ROUTES)]
        self.looks = [only] if only else list(LOOK_BY)
        stack.enter_context(on(self.route, database))
        self.tenant = f"r{seed}-{time.monotonic_ns()}"
        database.put_tenant(self.tenant)
        database.put_principals(self.tenant, users=["alice", "bob"], groups={"outer": ["middle"], "middle": ["inner"], "inner": ["alice"]})
        self.documents = [f"d{number}" for number in range(6)]
        with database.writer(self.tenant, "handbook") as writer:
            for number, document in enumerate(self.documents):
                for revision in ("v1", "v2"):
                    texts = [f"Of topic{number} edition {revision} passage {n} speaks. " for n in range(PASSAGES)]
                    database.put_document(writer, document, texts, revision=revision, vectors=[[1, number / 10, n / 50] for n in range(PASSAGES)],
                                          readers=["bob"], activate=revision == "v1")  # fmt: skip
        self.writer, self.admin, self.keys, self.operator, self.reader, self.within, self.browser = (
            stack.enter_context(psycopg.connect(database.dsn(f"app_{role}"), autocommit=True))
            for role in ("writer", "admin", "keys", "operator", "reader", "reader", "browser")
        )
        self.tokens = {
            "writer": database.token(self.tenant, "connector", "writer", source="handbook"),
            "admin": database.token(self.tenant, "root", "admin"),
            "bob": database.token(self.tenant, "bob"),
        }
        self.number = 0

    def call(self, *statements: str, only: str = "") -> None:
        """One transaction, of the connector or of an administrator."""
        role = only or self.dice.choice(("writer", "admin"))
        connection = self.writer if role == "writer" else self.admin
        with connection.transaction():
            connection.execute("select pgrag.authenticate(%s)", (self.tokens[role],))
            for statement in statements:
                connection.execute(statement)

    def maintained(self, most: int = 20) -> None:
        """Some steps of maintenance, or all there are."""
        for _ in range(most):
            if not self.operator.execute("select remaining from pgrag.maintain('0')").fetchone()[0]:
                return

    def access(self, document: str, readers: str) -> str:
        return f"select pgrag.set_access('{document}', '{{{readers}}}', 'handbook')"

    def switch(self, document: str, revision: str) -> str:
        return f"select pgrag.activate('{document}', '{revision}', p_restore => true, p_source => 'handbook')"


@dataclass(frozen=True)
class Revocation:
    """What lets the reader see a document, and what takes that away."""

    readers: str
    revoke: tuple[str, ...]
    prepare: tuple[str, ...] = ()  # by an administrator, beforehand
    restore: tuple[str, ...] = ()  # and afterwards
    reader: str = "alice"
    key: str = ""  # a key of its own, which is what is revoked
    replaced: bool = False  # by another revision, which is seen then

    @property
    def held(self) -> str:
        """As whom the reader may read, before."""
        return self.readers.split(",")[0]

    @property
    def of_principals(self) -> bool:
        return any(word in statement for statement in self.revoke for word in ("membership", "principal"))

    def outcome(self, name: str, within: bool) -> str:
        """What each look has to say afterwards: an SQLSTATE, or nothing, which is an answer without the document."""
        if self.key:
            return "RG203"
        if name == "excerpt":
            return "RG401"
        # Dropped, it is nobody to whom a packet was issued; a transaction that was open has its principal, who may read nothing.
        return "RG501" if name == "validate_reply" and not within and f"drop_principal('{self.reader}')" in self.revoke[0] else ""


def revocations(world: Revoking, document: str) -> dict[str, Revocation]:
    """Every way, on this document."""
    n, there, away = world.number, "select pgrag.put_membership('{}', '{}')", "select pgrag.drop_membership('{}', '{}')"
    group, person, drop = "select pgrag.put_principal('{}', 'group')", "select pgrag.put_principal('{}', 'user')", "select pgrag.drop_principal('{}')"

    def chain(*names: str) -> tuple[str, ...]:
        return (*(group.format(name) for name in names[:-1]), *(there.format(names[m], names[m + 1]) for m in range(len(names) - 1)))

    def membership(group: str, member: str) -> Revocation:
        return Revocation("outer,bob", (away.format(group, member),), restore=(there.format(group, member),))

    return {
        "access": Revocation("alice,bob", (world.access(document, "bob"),)),
        "access of a group": Revocation("outer,bob", (world.access(document, "bob"),)),
        "access, to another group": Revocation("outer,bob", (world.access(document, f"bob,x{n}"),), prepare=(group.format(f"x{n}"),)),
        "membership": Revocation("inner,bob", (away.format("inner", "alice"),), restore=(there.format("inner", "alice"),)),
        "membership below": membership("inner", "alice"),
        "membership between": membership("middle", "inner"),
        "membership above": membership("outer", "middle"),
        "both ways of a diamond": Revocation(
            f"t{n},bob", (away.format(f"t{n}", f"l{n}"), away.format(f"r{n}", "alice")),
            prepare=(*chain(f"t{n}", f"l{n}", "alice"), group.format(f"r{n}"), there.format(f"t{n}", f"r{n}"), there.format(f"r{n}", "alice"))),
        "group": Revocation(f"g{n},bob", (drop.format(f"g{n}"),), prepare=chain(f"g{n}", "alice")),
        "group in a group": Revocation(f"g{n},bob", (drop.format(f"h{n}"),), prepare=chain(f"g{n}", f"h{n}", "alice")),
        "reader": Revocation(f"u{n},bob", (drop.format(f"u{n}"),), prepare=(person.format(f"u{n}"),), reader=f"u{n}"),
        "reader in a group": Revocation(f"g{n},bob", (drop.format(f"u{n}"),), prepare=(person.format(f"u{n}"), *chain(f"g{n}", f"u{n}")), reader=f"u{n}"),
        "document": Revocation("outer,bob", (f"select pgrag.delete_document('{document}', 'handbook')",)),
        "another revision": Revocation("outer,bob", (world.switch(document, "v2"),), replaced=True),
        "rollback": Revocation("alice,bob", (f"select pgrag.rollback('{document}', p_source => 'handbook')",), replaced=True),
        "key": Revocation("outer,bob", (), key=f"{world.tenant}-{n}"),
    }  # fmt: skip


def probe(world: Revoking, way: str, tally: Tally) -> None:
    """Seen, revoked, and seen no more: in every way to look, in statements of their own and in a transaction that was open."""
    world.number += 1
    number = world.dice.randrange(len(world.documents))
    document = world.documents[number]
    case = revocations(world, document)[way]
    revision, other = ("v2", "v1") if way == "rollback" else ("v1", "v2")
    # Beside another of the same list, which goes on to be read by whoever is on it.
    beside = world.dice.choice([d for d in world.documents if d != document])
    world.call(*case.prepare, world.access(document, case.readers), *((world.access(beside, case.readers),) if world.dice.random() < 0.6 else ()),
               *((world.switch(document, "v1"),) if revision == "v2" else ()), world.switch(document, revision), only="admin")  # fmt: skip
    if case.key:
        world.keys.execute("select pgrag.add_signing_key(%s, %s, %s, %s)", (case.key, SECRET, ISSUER, AUDIENCE))
    token = world.database.token(world.tenant, case.reader, kid=case.key or KID)
    if world.route == "class blocks" and world.dice.random() < 0.5:
        world.maintained(world.dice.choice((3, 20)))
    topic = {"question": f"topic{number}", "k": 50, "mode": "hybrid", "space": "toy", "embedding": [1, number / 10, 0], "threshold": 0}
    narrowed = world.dice.choice(("", "", "filter", "as_of"))
    if narrowed == "filter":
        topic["filter"] = {"source": "handbook"}
    asked: dict[str, Any] = {"token": token, "topic": topic["question"], "document": document, "revision": revision, "held": case.held,
                             "filter": json.dumps(topic["filter"]) if narrowed == "filter" else None, "request": json.dumps(topic)}  # fmt: skip
    packet = world.reader.execute("select pgrag.packet_json(%(request)s, %(token)s)", asked).fetchone()[0]
    first = next((e for e in packet["excerpts"] if (e["document"], e["revision"]) == (document, revision)), {"id": "", "chunk_id": ""})
    asked |= {"packet": json.dumps(packet), "reply": json.dumps({"answer": "So.", "citations": [{"id": first["id"]}]}), "chunk": first["chunk_id"]}
    tally.counts[f"probes, {world.route}, {packet['policy']['dense_route']}"] += 1
    where = f"{world.tenant}, {world.route}, probe {world.number}{f' by {narrowed}' * bool(narrowed)}, {way} of {document}"

    # The same looks before and after: five functions, each in a statement of its own or in the transaction that is open, and a view.
    names = [name for name in world.looks if name != "whoami" or case.of_principals or case.key]
    looks = [(name, LOOK_BY[name], world.dice.choice((world.reader, world.within))) for name in world.dice.sample(names, min(5, len(names)))]
    looks += [(name, BROWSE_BY[name], world.browser) for name in world.dice.sample(list(BROWSE_BY), 1)]

    def look(when: str, seen: bool) -> None:
        as_of = {"as_of": datetime.now(UTC).isoformat()} if narrowed == "as_of" else {}
        now = asked | {"as_of": None} | as_of | {"request": json.dumps(topic | as_of), "strict": json.dumps(topic | as_of | {"isolation": "strict"})}
        for name, statement, connection in looks:
            if name == "can_read" and not seen and case.replaced:
                continue  # the document may be read, in the other revision
            within = connection is not world.reader
            said = ask(connection, statement, now | {"token": None} if within else now)
            tally.counts["reads"] += 1
            outcome = "" if seen else case.outcome(name, within)
            if said != outcome if isinstance(said, str) or outcome else ((document, revision) in said) is not seen:
                what = f"is refused with {said}" if isinstance(said, str) else f"{'shows' if (document, revision) in said else 'does not show'} {revision}"
                tally.fail(f"{where}: {when}, {name}{' in a transaction that was open' * within} {what}{f', not {outcome}' * bool(outcome)}")

    for connection in (world.within, world.browser):
        connection.execute("begin")
        connection.execute("select pgrag.authenticate(%s)", (token,))
    try:
        look("before", True)
        if case.key:
            world.keys.execute("select pgrag.retire_signing_key(%s)", (case.key,))
        else:
            world.call(*case.revoke, only="admin" if case.of_principals else "")
        look("after", False)
        # Others keep what they had: nothing is taken from everybody.
        kept = ask(world.reader, LOOK_BY["lexical"], asked | {"as_of": None, "token": world.tokens["bob"]})
        expected = (document, other if case.replaced else revision)
        if (expected in kept) is (way == "document"):
            tally.fail(f"{where}: afterwards bob sees {kept}")
    finally:
        for connection in (world.within, world.browser):
            connection.execute("rollback")
    world.call(*case.restore, only="admin")
    tally.cases += 1
    tally.counts[way] += 1


def ask(connection: Connection, statement: str, asked: Mapping[str, Any]) -> list[tuple[Any, ...]] | str:
    """The rows, or the SQLSTATE."""
    try:
        with connection.transaction():
            return connection.execute(statement, asked).fetchall()
    except psycopg.Error as error:
        return error.sqlstate or str(error)


def revoked(database: Database, route: str, only: str, seed: int) -> Tally:
    """So many probes in a tenant of their own, every way as often."""
    tally = Tally(draws=1)
    with ExitStack() as stack:
        world = Revoking(database, seed, stack, route, only)
        ways = list(revocations(world, "d0"))
        order = (ways * (PROBES // len(ways) + 1))[:PROBES]
        world.dice.shuffle(order)
        for way in order:
            probe(world, way, tally)
    return tally


@contextmanager
def revoking(lab: Lab, *changes: tuple[str, str, str], cached: bool = False, route: str = "", only: str = "") -> Iterator[Batch]:
    """``changes``: function, text, replacement. ``cached``: access lists are those that a session saw first. ``only``: one way to look."""
    with lab.database() as database, ExitStack() as stack:
        stack.enter_context(all_patched(database, *changes))
        if cached:
            with database.superuser() as superuser:
                superuser.execute("alter function pgrag_private.permitted_acls rename to asked_acls")
                superuser.execute("""
                    create function pgrag_private.permitted_acls(p_tenant_id bigint, p_reader_id bigint) returns setof bigint language plpgsql stable as $$
                    declare v_name text := format('kept.acls_%s_%s', p_tenant_id, p_reader_id);
                    begin
                      if coalesce(current_setting(v_name, true), '') = '' then
                        perform set_config(v_name, array(select pgrag_private.asked_acls(p_tenant_id, p_reader_id))::text, false);
                      end if;
                      return query select unnest(current_setting(v_name)::bigint[]);
                    end $$;
                    alter function pgrag_private.permitted_acls owner to pgrag_engine""")
        yield partial(revoked, database, route, only)


_SEARCHES = "(lexical|dense|hybrid|strict|packet|packet_json)"
PROOF = Proof(
    name="revocations",
    contracts=("A2", "A6", "B4", "B8", "H3"),
    unit="probes",
    draw="worlds",
    target=10_000,
    claim="What was revoked is not shown by any function or view, by any route, in a statement that begins after the commit, in a transaction that was open "
          "either; and each look says so in the one way that it should.",
    opened=revoking,
    short=3,
    controls={
        "access lists kept from before": Control(partial(revoking, cached=True), f"(access|membership|group|reader).* of d.: after, {_SEARCHES}.* shows"),
        "a tombstone hides nothing": Control(lambda lab: revoking(lab, ("visible_revisions", "d.deleted_at is null", "true")), r", document of d.: after, .* shows"),
        "a reply is not checked again": Control(lambda lab: revoking(
            lab, ("pgrag.validate_reply", "not found or v_chunk.revision_id <> all (v_scope)", "not found")), r"after, validate_reply.* shows"),
        "keys that are retired still count": Control(lambda lab: revoking(lab, ("current_principal", "and k.retired_at is null", "")), r", key of d.: after, .* shows"),
        "the index route shows what is deleted": Control(lambda lab: revoking(
            lab, ("visible_row", "and d.deleted_at is null", ""), route="index"), r", index, .*, document of d.: after, (lexical|hybrid|packet).* shows"),
        "a block shows what has another list now": Control(lambda lab: revoking(
            lab, ("visible_row", "= any ((@).acls)", "is not null"), route="class blocks", only="dense"), r"(access|membership|group).* of d.: after, dense.* shows"),
        "a reader to whom nothing is left is refused": Control(lambda lab: revoking(
            lab, ("retrieve", "  v_index := p_search.isolation",
                  "  if v_scope.chunks = 0 then perform pgrag_private.not_found('document'); end if;\n  v_index := p_search.isolation")),
            f"after, {_SEARCHES}.* is refused with RG401"),
    },
)  # fmt: skip
