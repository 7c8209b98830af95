"""Who looks at a mutant (mutants.py): each finds something in a database whose guards are not as they should be, and nothing in one whose are."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from typing import Any

import psycopg

from tests.access.forge import BAD_TOKENS
from tests.assurance import differential, interference, reference, worlds
from tests.assurance.reference import NOW
from tests.assurance.worlds import ABSENT, Hands
from tests.functions.patched import blocks_cost_nothing, patched, scope_limit
from tests.support import Database

BLOCK_WORLDS = 4  # every second with a block of the whole tenant
WORLDS, CHANGES = 6, 40  # in which the model tries a mutant, and of each of them
MARKED = """
update pgrag_data.chunk_lex l set lexemes = array_to_tsvector(array[%s]) from pgrag_data.chunk c
 where c.tenant_id = l.tenant_id and c.revision_id = l.revision_id and c.chunk_no = l.chunk_no and encode(c.chunk_id, 'hex') <> all (%s)
"""
# Of so few chunks the sample has all where revisions are listed, and where they are counted no word that is in none of them;
# and an index finds as many as there are.
STATISTICS = """
with asked as materialized (
  select t.tenant_id, pgrag_private.search_scope(t.tenant_id, p.principal_id, jsonb_populate_record(null::pgrag_private.search_request, %(search)s::jsonb
           || case when %(listed)s then '{"isolation": "strict"}' else '{}' end::jsonb)) as scope
    from pgrag_data.tenant t join pgrag_data.principal p on p.tenant_id = t.tenant_id and p.name = %(reader)s and p.dropped_at is null
   where t.tenant = %(tenant)s
), scope as materialized (
  select a.tenant_id, a.scope, (select array_agg(r) from unnest((a.scope).parts) as p cross join lateral unnest(p.revisions) as r) as revisions,
         (select array_agg(c) from unnest((a.scope).parts) as p cross join lateral unnest(p.chunk_counts) as c) as chunks
    from asked a where (a.scope).chunks > 0
)
select w.word, w.n, e.df, e.seen, f.finds, f.more
  from scope s
 cross join unnest(%(words)s::text[], %(counts)s::integer[]) as w (word, n)
  join lateral pgrag_private.estimate_df(s.scope, s.revisions, s.chunks, '{en}', %(words)s) e on e.lexeme = w.word
 cross join lateral (select jsonb_populate_record(null::pgrag_private.lexical_plan, jsonb_build_object(
           'languages', array['en'], 'revisions', s.revisions, 'acls', (s.scope).acls, 'sources', (s.scope).sources, 'lexemes', array[w.word], 'searched', 1,
           'any_query', pgrag_private.lexeme_query(w.word)::text)) as plan offset 0) p
 cross join lateral (select pgrag_private.index_finds(s.tenant_id, p.plan, greatest(w.n, 1)) as finds, pgrag_private.index_finds(s.tenant_id, p.plan, w.n + 1) as more offset 0) f
 where case when %(listed)s then e.df <> coalesce(nullif(w.n, 0), 0.5) else e.seen and w.n = 0 end
    or e.seen and w.n = 0 or f.finds <> (w.n > 0) or f.more
"""


def by_model(database: Database, dice: random.Random, routes: tuple[int, ...] = (0, 1)) -> str:
    for seed in routes:
        with differential.routed(database, seed):
            if failures := differential.compared(database, dice.randrange(10**9), WORLDS // 2, stop=True, changes=CHANGES).failures:
                return failures[0]
    return ""


def by_twins(database: Database, dice: random.Random) -> str:
    failures = interference.compared(database, dice.randrange(10**9), 13).failures
    return failures[0] if failures else ""


def complaints(database: Database) -> set[tuple[str, str, str | None]]:
    """What pgrag.doctor finds wrong."""
    with database.role("operator") as operator:
        return set(operator.execute("select check_name, severity, object from pgrag.doctor() where severity in ('error', 'warning')").fetchall())


def by_identity(database: Database, dice: random.Random) -> str:
    """Bad tokens, and principals that were made or changed by hand, of another transaction or another session, are all refused."""
    for tenant in ("a", "b"):
        database.put_tenant(tenant)
        database.put_principals(tenant, users=["alice", "bob"])
    ask = "select pgrag.can_read('handbook', 'x')"

    def refused(connection: psycopg.Connection[Any], sql: str, parameters: Any = ()) -> str:
        try:
            with connection.transaction():
                connection.execute(sql, parameters)
        except psycopg.Error as error:
            return error.sqlstate or "?"
        return ""

    with psycopg.connect(database.dsn("app_reader"), autocommit=True) as reader, psycopg.connect(database.dsn("app_reader"), autocommit=True) as other:
        if refused(reader, "select pgrag.can_read('handbook', 'x', %s)", (database.token("a", "alice"),)):
            return "a good token is refused"
        for name, (builder, code) in BAD_TOKENS.items():
            got = refused(reader, "select pgrag.can_read('handbook', 'x', %s)", (builder("a", "alice"),))
            if got != code:
                return f"{name}: {got or 'accepted'}, not {code}"
        if (got := refused(reader, ask)) != "RG201":
            return f"nobody: {got or 'accepted'}, not RG201"
        for kind, more in (("writer", {"source": "handbook"}), ("admin", {}), ("auditor", {})):
            got = refused(reader, "select pgrag.can_read('handbook', 'x', %s)", (database.token("a", "alice", kind, **more),))
            if got != "RG209":
                return f"a token of kind {kind}: {got or 'accepted'}, not RG209"
        with reader.transaction():
            reader.execute("select pgrag.authenticate(%s)", (database.token("a", "alice"),))
            setting = reader.execute("select current_setting('pgrag.principal')").fetchone()[0]
            for there, where in ((other, "another session"), (reader, "")):
                with there.transaction():
                    there.execute("select set_config('pgrag.principal', %s, true)", (setting,))
                    if where and not refused(there, ask):
                        return f"accepted in {where}"
            fields = setting.split("|")
            for n, its in enumerate(fields):
                changed = "|".join([*fields[:n], str(int(its) + 1) if its.isdigit() else its[:-1] + ("0" if its[-1:] != "0" else "1"), *fields[n + 1 :]])
                reader.execute("select set_config('pgrag.principal', %s, true)", (changed,))
                if not refused(reader, ask):
                    return f"accepted with field {n} changed"
        with reader.transaction():
            reader.execute("select set_config('pgrag.principal', %s, true)", (setting,))
            if not refused(reader, ask):
                return "accepted in another transaction"
        if not refused(reader, ask):
            return "accepted after the transaction"
        with reader.transaction(), database.role("keys") as keys:
            keys.execute("select pgrag.add_signing_key('second', %s, 'tests', 'pgrag')", (b"s" * 32,))
            keys.commit()
            token = database.token("a", "alice", secret=b"s" * 32, kid="second")
            reader.execute("select pgrag.authenticate(%s)", (token,))
            keys.execute("select pgrag.retire_signing_key('second')")
            keys.commit()
            if not refused(reader, ask):
                return "accepted after its key was retired"
        if not refused(reader, "select pgrag.can_read('handbook', 'x', %s)", (token,)):
            return "a token of a retired key is accepted"
        with reader.transaction():
            reader.execute("select pgrag.authenticate(%s)", (database.token("a", "alice", exp=int(time.time()) + 1),))
            time.sleep(1.1)
            if not refused(reader, ask):
                return "accepted after it expired"
    return ""


def by_names(database: Database, dice: random.Random) -> str:
    """Two tenants that use the same names for everything, and somebody who was dropped and came back: what each may see and write,
    and what is answered where nothing is left to do."""
    with closing(Hands(database)) as hands:
        return next(named_differently(database, hands), "")


def named_differently(database: Database, hands: Hands) -> Iterator[str]:
    """What is not as it has to be."""
    tenants, sources = ("one", "two"), ("handbook", "wiki")

    def ask(role: str, tenant: str, subject: str, call: str, *parameters: Any, **claims: Any) -> Any:
        """The rows, the value where there is but one, or the SQLSTATE."""
        try:
            with hands.on(role, tenant, subject, **claims) as connection:
                rows = connection.execute(f"select {call}", parameters).fetchall()
        except psycopg.Error as error:
            return error.sqlstate
        return rows[0][0] if len(rows) == 1 and len(rows[0]) == 1 else rows

    def admin(tenant: str, call: str, *parameters: Any) -> Any:
        return ask("admin", tenant, "root", f"pgrag.{call}", *parameters)

    def writer(call: str, *parameters: Any, tenant: str = "one", source: str = "handbook") -> Any:
        return ask("writer", tenant, "connector", call, *parameters, source=source)

    def seen(tenant: str, reader: str) -> Any:
        return ask("browser", tenant, reader, "array_agg(distinct source || ' ' || document || ' ' || split_part(text, ' ', 1)) from pgrag.chunks")

    def visible(tenant: str, *documents: str) -> Any:
        return sorted(f"{source} {document} {tenant}" for source in sources for document in documents) or None

    for tenant in tenants:
        database.put_tenant(tenant, sources=(*sources, *(["extra"] if tenant == "two" else [])))
        database.put_principals(tenant, users=["alice", "bob", *(["dora"] if tenant == "two" else [])], groups={"staff": ["alice"]})
        with database.role("operator") as operator:
            operator.execute("select pgrag.put_space(%s, 'next', 'toy-model', '2', 3, p_normalisation => 'none')", (tenant,))
            operator.execute("select pgrag.build_space(%s, 'next')", (tenant,))
        for source in sources:
            with database.writer(tenant, source) as connection:
                for document, revision, readers, more in (
                    ("x", "r1", ["staff"], {}), ("y", "r1", ["bob"], {}), ("y", "r2", ["bob"], {}), ("a", "r1", ["alice"], {}), ("gone", "r1", ["bob"], {}),
                    ("plain", "r1", ["everyone"], {"vectors": None}), ("late", "r1", [], {"vectors": None}),
                ):  # fmt: skip
                    texts = [f"{tenant} {source} {document} {revision} “thirty  days”. ", f"{tenant} Norp. "]
                    database.put_document(connection, document, texts, readers=readers, revision=revision, **({"vectors": [(1, 2, 3), (3, 2, 1)]} | more))
                connection.execute("select pgrag.delete_document('gone')")
                connection.execute("select pgrag.add_embeddings('late', 'r1', 'toy', 1, '{\"[1,2,3]\",\"[3,2,1]\"}')")
                connection.execute("select pgrag.stage_revision('y', 'draft', p_revision => 'r3', p_space => 'toy')")
                connection.execute("select pgrag.add_chunks('y', 'r3', 1, '{draft}', '{0}', '{5}', '{1}', p_embeddings => '{\"[1,1,1]\"}')")

    def expected() -> Iterator[tuple[str, Any, Any]]:
        """In words what is asked, what is answered, and what has to be."""
        for tenant in tenants:
            yield "alice sees", seen(tenant, "alice"), visible(tenant, "a", "plain", "x")
            yield "bob sees", seen(tenant, "bob"), visible(tenant, "plain", "y")
            yield "a stranger sees", seen(tenant, "stranger"), None
        # Somebody is dropped, and another of that name comes.
        packet = ask("reader", "one", "alice", "pgrag.packet_json(%s)", '{"question": "norp", "mode": "lexical", "threshold": 0}')
        yield "dropped", admin("one", "drop_principal('alice')"), ""
        yield "dropped again", admin("one", "drop_principal('alice')"), "RG401"
        yield "everyone dropped", admin("one", "drop_principal('everyone')"), "RG401"
        yield "alice, dropped, sees", seen("one", "alice"), None
        yield "named as a reader, dropped", writer("pgrag.set_access('a', '{alice}')"), "RG401"
        yield "named as a member, dropped", admin("one", "put_membership('staff', 'alice')"), "RG401"
        yield "put again", admin("one", "put_principal('alice', 'user')"), ""
        yield "alice, another, sees", seen("one", "alice"), visible("one", "plain")
        yield "her packet", ask("reader", "one", "alice", "pgrag.validate_reply(%s, %s)", json.dumps(packet), "{}"), "RG501"
        yield "a member", admin("one", "put_membership('staff', 'alice')"), ""
        yield "alice, a member, sees", seen("one", "alice"), visible("one", "plain", "x")
        yield "alice of the other tenant sees", seen("two", "alice"), visible("two", "a", "plain", "x")
        yield "dropped in the other tenant", admin("two", "drop_principal('bob')"), ""
        yield "bob sees", seen("one", "bob"), visible("one", "plain", "y")
        yield "no member", admin("one", "drop_membership('staff', 'alice')"), ""
        yield "alice, no member, sees", seen("one", "alice"), visible("one", "plain")
        yield "alice of the other tenant sees still", seen("two", "alice"), visible("two", "a", "plain", "x")
        yield "a reader of the other tenant", writer("pgrag.set_access('a', '{dora}')"), "RG401"
        yield "a member of the other tenant", admin("one", "put_membership('staff', 'dora')"), "RG401"
        # What was done already.
        before = admin("one", "list_documents()")
        for call in ("set_access('x', '{staff}')", "delete_document('gone')", "activate('y', 'r2')"):
            yield call, writer(f"pgrag.{call}"), False
        yield "what that changed", admin("one", "list_documents()"), before
        yield "access of her own", writer("pgrag.set_access('a', '{alice,bob}')"), True
        yield "the same again", writer("pgrag.set_access('a', '{bob,alice}')"), False
        for readers in ("null", "'{null}'", "'{{staff},{bob}}'", "'{staff,null}'"):
            yield f"readers {readers}", writer(f"pgrag.set_access('a', {readers})"), "RG408"
        # Who writes where.
        rows = [("a", "r1", ["alice", "bob"], True), ("gone", "r1", ["bob"], False), ("late", "r1", [], True), ("plain", "r1", ["everyone"], True), ("x", "r1", ["staff"], True), ("y", "r2", ["bob"], True)]
        here = [("handbook", *row) for row in rows]
        there = [("wiki", document, revision, [] if document == "a" else readers, active) for document, revision, readers, active in rows]
        listed = "source, document, active_revision, readers, deleted_at is null from pgrag.list_documents(%s)"
        yield "documents of a writer", writer(listed, None), here
        yield "of the other writer", writer(listed, None, source="wiki"), there
        yield "of a source that is not its own", writer(listed, "wiki"), []
        yield "documents of an administrator", ask("admin", "one", "root", listed, None), here + there
        yield "of one source", ask("admin", "one", "root", listed, "wiki"), there
        for tenant in tenants:
            for source in sources:
                yield "a writer's source", writer("tenant, source from pgrag.writer_source()", tenant=tenant, source=source), [(tenant, source)]
        for call in ("set_access('x', '{}', 'wiki')", "delete_document('x', 'wiki')", "activate('x', 'r1', p_source => 'wiki')", "rollback('y', p_source => 'wiki')"):
            yield f"a writer elsewhere: {call}", writer(f"pgrag.{call}"), "RG401"
        yield "a writer that names its own", writer("pgrag.set_access('x', '{staff}', 'handbook')"), False
        for call, code in (("delete_document('x')", "RG408"), ("delete_document('x', 'nowhere')", "RG401"), ("delete_document('x', 'extra')", "RG401"), ("delete_document('x', 'wiki')", True)):
            yield f"an administrator: {call}", admin("one", call), code
        yield "what that hid", seen("two", "alice"), visible("two", "a", "plain", "x")
        yield "an administrator of the other tenant", admin("two", "set_access('x', '{}', 'wiki')"), True
        yield "what that hid", seen("two", "alice"), [its for its in visible("two", "a", "plain", "x") if its != "wiki x two"]
        yield "and did not hide", writer("pgrag.delete_document('x')"), True
        yield "restored", writer("pgrag.activate('x', 'r1', p_restore => true)"), True
        yield "a writer of a source of another tenant", writer("1", source="extra"), "RG207"
        yield "a writer of no tenant", writer("1", tenant="none"), "RG207"
        # What wants embeddings.
        missing = "document, revision, chunk_no from pgrag.missing_embeddings('next', %s, %s)"
        wanted = {key: [(document, revision, n) for document, revision in which for n in (1, 2)] for key, which in (
            (False, (("x", "r1"), ("y", "r2"), ("a", "r1"), ("late", "r1"))), (True, (("x", "r1"), ("y", "r1"), ("y", "r2"), ("a", "r1"), ("late", "r1"))))}  # fmt: skip
        for retained in (False, True):
            yield f"embeddings, retained {retained}", writer(missing, 256, retained), wanted[retained]
        yield "embeddings, at most three", writer(missing, 3, False), wanted[False][:3]
        for most in (None, 0, 2001):
            yield f"embeddings, at most {most}", writer(missing, most, False), "RG408"
        yield "one embedding", writer("complete from pgrag.add_embeddings('x', 'r1', 'next', 1, '{\"[1,2,3]\"}')"), False
        yield "embeddings after one", writer(missing, 256, False), wanted[False][1:]
        yield "the other", writer("complete from pgrag.add_embeddings('x', 'r1', 'next', 2, '{\"[1,2,3]\"}')"), True
        yield "embeddings after both", writer(missing, 256, False), wanted[False][2:]
        yield "the first of them", writer(missing, 1, False), wanted[False][2:3]
        yield "embeddings of another tenant", writer(missing, 256, False, tenant="two"), wanted[False]
        # Packets: nobody else's, changed in nothing, under their own key, and quotes as they are said to be.
        request = '{"question": "norp thirty", "mode": "lexical", "threshold": 0}'
        for tenant, reader, code in (("one", "stranger", None), ("two", "stranger", "RG501"), ("one", "foreigner", "RG501"), ("one", "bob", "RG501")):
            empty = ask("reader", "one", "stranger", "pgrag.packet_json(%s)", request)
            yield f"a packet, {tenant}, {reader}", checked(ask("reader", tenant, reader, "pgrag.validate_reply(%s, %s)", json.dumps(empty), '{"answer": "", "citations": []}')), code or []
        packet = ask("reader", "one", "bob", "pgrag.packet_json(%s)", request)
        first = packet["excerpts"][0]
        changed = packet | {"excerpts": [first | {"document": "another"}, *packet["excerpts"][1:]]}
        yield "another document in a packet", ask("reader", "one", "bob", "pgrag.validate_reply(%s, %s)", json.dumps(changed), '{"answer": "", "citations": []}'), "RG501"
        whole = next(e for e in packet["excerpts"] if "thirty" in e["text"])
        for quote, found in (("“thirty  days”", "exact"), ('"thirty days"', "normalised"), (" ", "missing"), ("forty days", "missing"), (None, "none")):
            reply = json.dumps({"answer": "x", "citations": [{"id": whole["id"], "quote": quote}]})
            verdict = ask("reader", "one", "bob", "pgrag.validate_reply(%s, %s)", json.dumps(packet), reply)
            yield f"quote {quote}", [c["quote"] for c in verdict["citations"]] or [f["check"] for f in verdict["findings"]], ["quote"] if found == "missing" else [found]
        for purpose, code in (("session", []), ("seal", "RG501")) * 2:
            packet = ask("reader", "one", "bob", "pgrag.packet_json(%s)", request)
            hands.superuser.execute("update pgrag_private.internal_key set inner_pad = sha256(inner_pad) where purpose = %s", (purpose,))
            yield f"a packet and another {purpose} key", checked(ask("reader", "one", "bob", "pgrag.validate_reply(%s, %s)", json.dumps(packet), '{"answer": "", "citations": []}')), code

    def checked(verdict: Any) -> Any:
        return verdict["findings"] if isinstance(verdict, dict) else verdict

    yield from (f"{what}: {got}, not {wanted}" for what, got, wanted in expected() if got != wanted)


def by_blocks(database: Database, dice: random.Random) -> str:
    """Worlds of which a block of the tenant, or those of its access lists, have the vectors, some of them stale: every reader finds
    what comparing all vectors finds, of what it may see."""
    with closing(Hands(database)) as hands, scope_limit(database):
        blocks_cost_nothing(database)
        for n in range(BLOCK_WORLDS):
            lists, whole = ("1", "1000000") if n % 2 else ("1000000", "1")
            with ExitStack() as stack:
                stack.enter_context(patched(database, "deserves_block", ("(p_chunks >= p_least)", f"(p_chunks >= {lists})"), ("(10 * p_least)", whole)))
                twin = crowded(hands, dice)
                hands.maintain()
            for changes in (0, 2, 4, 30):  # the blocks have nothing of them; where most has changed, they are not used
                for _ in range(changes):
                    worlds.change(twin, dice)
                if noticed := unlike(twin, dice):
                    return noticed
    return ""


FILTERS: tuple[dict[str, Any], ...] = (
    {"source": "wiki"}, {"language": "en"}, {"language": "xx"}, {"product": "tent"}, {"product": ["boat", "none"]}, {"version": "1"}, {"version": ["2", "none"]},
    {"tags": ["new"]}, {"tags": ["old", "new"]}, {"metadata": {"team": "ops"}}, {"date_from": "2021-01-01"}, {"date_to": "2021-01-01"},
    {"source": "wiki", "language": "en"}, {"source": "handbook", "language": "en"},
)  # fmt: skip


def by_filters(database: Database, dice: random.Random) -> str:
    """Each kind of filter by itself, now and at another time."""

    def questions() -> Iterator[worlds.Question]:
        for which in FILTERS:
            for at in (None, worlds.some_time(dice)):
                asked = {"question": dice.choice(worlds.WORDS), "mode": "lexical", "k": 10, "filter": which, "threshold": 0}
                yield worlds.Question(asked | ({"as_of": at.isoformat()} if at else {}), asked | {"phrases": [], "excluded": [], "as_of": at})

    return found_otherwise(database, dice, questions)


def by_exclusions(database: Database, dice: random.Random) -> str:
    """What a question excludes takes no place among few candidates: chance asks for as few as that too seldom."""

    def questions() -> Iterator[worlds.Question]:
        for word, unwanted in (dice.sample(worlds.WORDS, 2) for _ in range(20)):
            few = {"mode": "lexical", "k": 2, "candidates": 2, "threshold": 0}
            yield worlds.Question({"question": f"{word} -{unwanted}"} | few, {"question": word, "phrases": [], "excluded": [unwanted]} | few)

    return found_otherwise(database, dice, questions)


def found_otherwise(database: Database, dice: random.Random, questions: Callable[[], Iterator[worlds.Question]]) -> str:
    """What some reader finds and the model does not, where a scope is counted and where the index is asked."""
    with closing(Hands(database)) as hands:
        for limit in (20000, 0):
            twin = crowded(hands, dice)
            with scope_limit(database, limit):
                for reader in [name for name, kind in twin.model.principals.items() if kind == "user"]:
                    with twin.hands.on("reader", twin.model.name, reader) as connection:
                        for question in questions():
                            found = connection.execute("select pgrag.search_json(%s)", (json.dumps(question.request),)).fetchone()[0]
                            if wrong := worlds.differences(worlds.answered(twin, reader, question), found):
                                return f"{reader}, {question.request}: {wrong[0]}"
    return ""


OTHER_SPACE = """
insert into pgrag_data.chunk_vec (tenant_id, space_id, revision_id, chunk_no, embedding)
select v.tenant_id, s.space_id, v.revision_id, v.chunk_no, '[4,3,2,1]'
  from pgrag_data.tenant t join pgrag_data.chunk_vec v using (tenant_id) join pgrag_data.embedding_space s on s.tenant_id = t.tenant_id and s.space = 'other'
 where t.tenant = %s
"""


def crowded(hands: Hands, dice: random.Random) -> worlds.Twin:
    """A world in which one access list has half of the documents, of either source, and two spaces have vectors."""
    twin = worlds.random_world(hands, f"c{dice.randrange(10**9)}", dice)
    for source, name in [key for key in twin.model.documents if dice.random() < 0.5]:
        twin.set_access(source, name, {reference.EVERYONE})
    hands.roles["operator"].execute("select pgrag.put_space(%s, 'other', 'toy-model', '2', %s, p_normalisation => 'none')", (twin.model.name, worlds.DIMENSION))
    hands.superuser.execute(OTHER_SPACE, (twin.model.name,))
    return twin


def unlike(twin: worlds.Twin, dice: random.Random) -> str:
    """Where a search of blocks gives another answer than one that compares, or what the model does not show."""
    model, hands = twin.model, twin.hands
    for reader in [name for name, kind in model.principals.items() if kind == "user"]:
        visible = model.visible(reader, NOW)
        shown = {(p.document.source, p.document.name, p.chunk.text) for p in visible}
        vectors = [p.chunk.vector for p in visible if p.chunk.vector] or [(1, 2, 3, 4)]
        with hands.on("reader", model.name, reader) as connection:
            # All of them, and the one that is nearest: of a block that gives as many as are wanted, the rest is not compared.
            for k, filtered in [(100, {}), (100, {"source": dice.choice(worlds.SOURCES)}), (100, {"language": "en"}), *[(1, {})] * 5, (1, {"source": "wiki"}), (1, {"language": "en"})]:
                question = dice.choice(worlds.WORDS) + f" -{dice.choice(worlds.WORDS[:6])}" * dice.randrange(2)
                request = {"question": question, "mode": "dense", "space": "toy", "embedding": dice.choice(vectors), "k": k, "candidates": k, "threshold": 0, "filter": filtered}
                auto, strict = (connection.execute("select pgrag.search_json(%s)", (json.dumps(request | {"isolation": isolation}),)).fetchone()[0] for isolation in ("auto", "strict"))
                found, compared = ([(hit["chunk_id"] if k > 1 else "", hit["dense_score"]) for hit in answer["hits"]] for answer in (auto, strict))
                near = len(found) == len(compared) and all(a == b and abs(x - y) < 0.002 for (a, x), (b, y) in zip(found, compared, strict=True))  # a graph has half precision
                if not near or auto["scope"] != strict["scope"]:
                    return f"{reader}, {request}: by {auto['policy']['dense_route']} {found} of {auto['scope']}, by comparing {compared} of {strict['scope']}"
                if strange := [hit for hit in auto["hits"] if (hit["source"], hit["document"], hit["text"]) not in shown]:
                    return f"{reader} is shown {strange[0]['document']}"
    return ""


def by_statistics(database: Database, dice: random.Random) -> str:
    """What the index route learns of words before it searches is of the reader's own chunks: in an answer it would hardly show."""
    with closing(Hands(database)) as hands, scope_limit(database):
        for _ in range(2):
            twin = crowded(hands, dice)
            for _ in range(30):
                worlds.change(twin, dice)
            for reader in [name for name, kind in twin.model.principals.items() if kind == "user"]:
                for source in (None, *worlds.SOURCES):
                    if noticed := miscounted(twin, reader, source):
                        return f"{reader}, {source}: {noticed}"
    return ""


def miscounted(twin: worlds.Twin, reader: str, source: str | None) -> str:
    """Which word's frequency, in the reader's English chunks of a source, is not what the model counts."""
    model = twin.model
    words = sorted({word for d in model.documents.values() for r in d.revisions.values() for chunk in r.chunks for word in reference.tokens(chunk.text)})
    visible = [p for p in model.visible(reader, NOW) if p.revision.language == "en" and source in (None, p.document.source)]
    counted = {ABSENT: 0} | {word: sum(word in p.words for p in visible) for word in words}
    search = json.dumps({"isolation": "auto", "filter": {"source": source} if source else {}})
    superuser = twin.hands.superuser
    with superuser.transaction(force_rollback=True):
        superuser.execute(MARKED, (ABSENT, [p.chunk.chunk_id for p in visible]))
        for listed in (False, True):
            asked = {"tenant": model.name, "reader": reader, "search": search, "listed": listed, "words": list(counted), "counts": list(counted.values())}
            if wrong := superuser.execute(STATISTICS, asked).fetchall():
                return f"listed {listed}, {wrong[:3]}"
    return ""


def by_rare_words(database: Database, dice: random.Random) -> str:
    """Twin worlds on the route by the rarest words, on which frequencies are estimated."""
    failures = interference.compared(database, dice.randrange(10**9), 13, "rarest").failures
    return failures[0] if failures else ""
