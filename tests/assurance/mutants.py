"""pgrag with one guard taken out, for each guard in turn: does anything notice?

Mutants are made mechanically: of each function that decides who sees what, every condition, one at a time, is made to hold (after
where, on, having and and) or to be no fault (after if, elsif and or); of each policy, table, function and role, every way to
open it up by one statement; besides some by hand. Each is installed alone, and then the other proofs look: the reference model,
bad tokens and forged principals, pgrag.doctor, twin worlds. A mutant that does not install does not count. One that nobody
notices is a failure, unless REASONS says why it changes nothing that can be seen.
"""

from __future__ import annotations

import random
import re
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from math import gcd
from typing import Any

import psycopg

from tests.access.forge import BAD_TOKENS
from tests.assurance import differential, interference
from tests.assurance.proof import Batch, Control, Lab, Proof, Tally
from tests.support import Database

# What decides who sees what. Ranking is not here: it has no guard.
FUNCTIONS = (
    "verify_token", "current_principal", "closure", "permitted_acls", "visible_revisions", "filtered_revisions", "search_scope",
    "standing_revisions", "effective_revision", "browse_tenant", "browse_revisions", "find_principal", "find_source", "find_document", "find_revision",
    "switch_revision", "finding_of_access", "acl_of", "pgrag.can_read", "pgrag.excerpt", "pgrag.validate_reply", "pgrag.activate", "pgrag.rollback",
    "pgrag.delete_document", "pgrag.set_access", "pgrag.drop_principal", "pgrag.drop_membership", "pgrag.put_membership", "describe_chunk",
)  # fmt: skip
CONNECTIVE = re.compile(r"\b(where|and|or|on|if|elsif|having)\b", re.I)
END = re.compile(r"\b(and|or|where|on|group|order|limit|offset|union|join|cross|left|returning|having|for|then|window|loop|return)\b|[;,)]", re.I)
WORLDS, CHANGES = 6, 40  # in which the model tries a mutant, and of each of them


@dataclass(frozen=True)
class Mutant:
    """What was changed, in words that find its reason, and the SQL that does it."""

    name: str
    sql: str
    of_function: bool = False


def blanked(text: str) -> str:
    """The text with strings and comments made blank, so that words in them are not taken for SQL."""
    return re.sub(r"--[^\n]*|'(?:[^']|'')*'", lambda match: " " * len(match[0]), text)


def conditions(body: str) -> Iterator[tuple[str, int, int]]:
    """Each condition after a connective: the connective, and where the condition begins and ends."""
    plain = blanked(body)
    for found in CONNECTIVE.finditer(plain):
        word, start = found[1].lower(), found.end()
        if plain[start:].lstrip().lower().startswith(("replace", "conflict", "constraint")):
            continue
        while True:
            end = end_of(plain, start)
            if body[start:end].strip() not in ("", "true", "false", "not found", "found"):
                yield word, start, end
            # PostgreSQL prints what it has parsed as ((one) and (other)): the first of them too.
            if not plain[start:end].lstrip().startswith("(("):
                break
            start = plain.index("(", start) + 1


def end_of(plain: str, at: int) -> int:
    """Where the condition that begins there ends."""
    depth, between = 0, False
    while at < len(plain):
        if plain[at] in "([":
            depth += 1
        elif plain[at] in ")]" and depth:
            depth -= 1
        elif depth == 0 and plain[at : at + 8].lower() == "between ":
            between = True
        elif depth == 0 and (word := END.match(plain, at)) and not (word[0].isalpha() and plain[at - 1].isalnum()):
            if word[0].lower() != "and" or not between:
                return at
            between = False
        at += 1
    return at


def of_functions(superuser: psycopg.Connection[Any]) -> Iterator[Mutant]:
    """Every condition of FUNCTIONS."""
    for function in FUNCTIONS:
        name = function if "." in function else f"pgrag_private.{function}"
        for (body,) in superuser.execute("select pg_get_functiondef(oid) from pg_proc where (pronamespace::regnamespace || '.' || proname) = %s order by oid", (name,)):
            seen: Counter[str] = Counter()
            head = body.index("\n", body.lower().index("language")) if "language" in body.lower() else 0
            for word, start, end in conditions(body):
                if start > head:
                    neutral = "false" if word in ("or", "if", "elsif") else "true"
                    what = f"{function}: {word} {' '.join(body[start:end].split())}"
                    seen[what] += 1
                    yield Mutant(what + (f" ({seen[what]})" if seen[what] > 1 else ""), f"{body[:start]} {neutral} {body[end:]}", of_function=True)


def of_catalog(superuser: psycopg.Connection[Any]) -> Iterator[Mutant]:
    """What one statement can open: policies, forced row-level security, privileges, and settings of functions."""
    for policy, table, check, open_already in superuser.execute("""
        select polname, polrelid::regclass::text, polqual is null, coalesce(pg_get_expr(polqual, polrelid), pg_get_expr(polwithcheck, polrelid)) = 'true'
          from pg_policy where polrelid::regclass::text ~ 'pgrag' order by 2, 1"""):
        yield Mutant(f"policy {policy}: for everybody", f"alter policy {policy} on {table} to public")
        if open_already:  # the engine's: it decides in its functions
            continue
        yield Mutant(f"policy {policy}: true", f"alter policy {policy} on {table} {'with check' if check else 'using'} (true) ")
    tables = [row[0] for row in superuser.execute("select oid::regclass::text from pg_class where relkind = 'r' and relrowsecurity and relnamespace::regnamespace::text ~ 'pgrag' order by 1")]
    for table in tables:
        yield Mutant(f"{table}: not forced", f"alter table {table} no force row level security")
        yield Mutant(f"{table}: no row-level security", f"alter table {table} disable row level security")
        yield Mutant(f"{table}: a permissive policy", f"create policy mutant on {table} using (true); grant select on {table} to pgrag_reader")
        yield Mutant(f"{table}: select granted", f"grant select on {table} to pgrag_reader")
    for function, public, kind in superuser.execute("select oid::regprocedure::text, pronamespace = 'pgrag'::regnamespace, prosecdef from pg_proc where pronamespace::regnamespace::text in ('pgrag', 'pgrag_private') and prokind = 'f' order by 1"):
        yield Mutant(f"{function}: execute granted to everybody", f"grant execute on function {function} to public")
        if kind:
            yield Mutant(f"{function}: search_path open", f"alter function {function} reset search_path")
            yield Mutant(f"{function}: as its caller", f"alter function {function} security invoker")
        if public:
            yield Mutant(f"{function}: owned by another", f"alter function {function} owner to postgres")
    for role in ("reader", "writer", "admin", "browser"):
        for engine in ("pgrag_engine", "pgrag_owner", "pgrag_viewer"):
            yield Mutant(f"{role}: is {engine}", f"grant {engine} to pgrag_{role}")


def by_hand(superuser: psycopg.Connection[Any]) -> Iterator[Mutant]:
    """What no single condition shows."""

    def changed(name: str, function: str, old: str, new: str) -> Mutant:
        (body,) = superuser.execute("select pg_get_functiondef(%s::regproc)", (function if "." in function else f"pgrag_private.{function}",)).fetchone()
        assert old in body, (function, old)
        return Mutant(f"{function}: {name}", body.replace(old, new), of_function=True)

    yield changed("a stale pointer", "visible_revisions", "r.revision_id = d.active_revision_id", "r.document_id = d.document_id")
    yield changed("access of no document", "visible_revisions", "d.acl_id = any (p_acls)", "d.acl_id is not null")
    yield changed("a setting that outlives its transaction", "pgrag.authenticate", "v_setting), true)", "v_setting), false)")
    yield changed("rows of all in the dense lane", "compare_vectors", "and c.revision_id = s.revision_id", "")
    yield changed("a mark without its backend", "transaction_mark", "pg_backend_pid()", "0")
    yield changed("statistics of the tenant", "search_scope", "sum(v.chunk_count)", "(select sum(r.chunk_count) from pgrag_data.revision r where r.tenant_id = p_tenant_id)")
    yield changed("chunks that lie near", "describe_chunk", "(c.chunk_no = describe_chunk.p_chunk_no)", "(c.chunk_no <> describe_chunk.p_chunk_no)")
    for helper in ("visible_revisions", "permitted_acls", "closure", "current_principal"):
        (signature,) = superuser.execute("select %s::regproc::oid::regprocedure::text", (f"pgrag_private.{helper}",)).fetchone()
        yield Mutant(f"{helper}: volatile", f"alter function {signature} volatile")


IDS = "ids are unique over all tenants: the rest of the key names the row alone"
ROUTE = "decides how it is looked for, not what is found"
NULL = "of null, the conditions after it refuse too"
REASONS: dict[str, str] = {
    r"^(?!pgrag.drop_principal|find_principal|find_source|acl_of: where a.tenant_id = p_tenant_id$).*: (where|and|on) \(?\w+\.tenant_id = [\w.]+\)?( \(\d+\))?$": IDS,
    r"^(verify_token: if (v_header|v_claims) is null|pgrag.validate_reply: if jsonb_typeof\((p_packet|p_reply|v_citation)\))": NULL,
    r"^verify_token: and v_principal.kind = 'writer'$": "a source in a token that is no writer's was refused before",
    r"^verify_token: and v_principal.kind = 'reader'$": "a principal of another kind may call no function that reads as somebody",
    r"^verify_token: and p.dropped_at is null$": "closure refuses a dropped reader, and names are unique among those that are not",
    r"^current_principal: (if octet_length\(v_setting\) > 2048|or cardinality\(v_fields\) <> 10)$": "a bound on work: nothing else has a valid MAC",
    r"^current_principal: if clock_timestamp\(\) > transaction_timestamp\(\) \+ interval '1 hour'$": "takes an hour: tests/access/test_identity.py has it with a shorter one",
    r"active_revision_id is not null( \(\d+\))?$": "a document without one joins no revision",
    r"^filtered_revisions: (if p_index|and p_filter - 'source'|and d.acl_id = any \(p_acls\)$|and d.deleted_at is null$)": ROUTE,
    r"^filtered_revisions: and d.document_id = r.document_id$": "the active revision is one of the document's own",
    r"^filtered_revisions: and \(v_(languages|products|versions|tags|metadata) is null or (pgrag_private.facet_keys|r\.)": "the index's keys and the values are compared, each of which suffices but for a collision of hashes",
    r"^filtered_revisions: or (pgrag_private.facet_keys|r\.(language|product|version|tags|metadata))": "the index's keys and the values are compared, each of which suffices but for a collision of hashes",
    r"^filtered_revisions: where p_as_of is not null$": "nothing is in force at no time",
    r"^pgrag.authenticate: a setting that outlives its transaction$": "its MAC is over the transaction: no other accepts it",
    r"^search_scope: (if p_search.isolation = 'auto'$|having sum\(t.chunks\) > 0|if not p_listed|or v_scope.chunks > )": ROUTE,
    r"^standing_revisions: and \(t.document_id = b.document_id\)$": "the revision names its document",
    r"^pgrag.activate: (if v_revision.space_id is not null|and not exists|(where|and) s\.)": "there is one space here: tests/functions/test_spaces.py has several",
    r"^pgrag.set_access: (if p_readers is null|or array_)": "what a caller wrote wrongly, which could take readers away and add none",
    r"^pgrag.rollback: and a.document_id = r.document_id$": "the revision names its document",
    r"^pgrag.delete_document: if v_document.deleted_at is not null$": "a deleted document is counted no more: count_document",
    r"^pgrag.set_access: if v_document.acl_id = v_acl_id$": "spares a write",
    r"^switch_revision: and d.active_revision_id is not distinct from v_locked": "the row is locked",
    r"^acl_of: if v_acl_id is null$|^acl_of: (where a.tenant_id = p_tenant_id|and a.fingerprint = v_fingerprint) \(2\)$": "for two that make the same list at once: tests/isolation has them",
}
"""Why a mutant changes nothing that can be seen here, by a pattern of its name."""


# ---- who looks ----


def by_model(database: Database, dice: random.Random) -> str:
    for seed in (0, 1):
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


def mutants(database: Database) -> list[Mutant]:
    """All of them, in one order."""
    with database.superuser() as superuser:
        return [*of_functions(superuser), *by_hand(superuser), *of_catalog(superuser)]


def judged(lab: Lab, mutant: Mutant, dice: random.Random) -> Tally:
    """Install it in a database of its own, and let everybody look until one notices."""
    tally = Tally()
    reason = next((reason for pattern, reason in REASONS.items() if re.search(pattern, mutant.name)), "")
    with lab.database() as database:
        before = complaints(database)
        with database.superuser() as superuser:
            try:
                superuser.execute(mutant.sql)
            except psycopg.Error as error:
                tally.counts["did not install"] += 1
                print(f"did not install: {mutant.name}: {error}")
                return tally
        tally.cases = 1
        by_doctor = ("pgrag.doctor", lambda *_: "; ".join(map(repr, complaints(database) - before)))
        model, identity, twins = ("the reference model", by_model), ("bad tokens", by_identity), ("twin worlds", by_twins)
        looking = [identity, model, twins] if mutant.of_function else [by_doctor, model]
        if not reason:  # where it matters, chance gets more worlds
            looking += [model] * 3
        for who, look in looking:
            try:
                noticed = look(database, dice)
            except (psycopg.Error, AssertionError) as error:
                noticed = repr(error)
            if noticed:
                tally.counts[f"noticed by {who}"] += 1
                return tally
    if reason:
        tally.counts["survived, changes nothing"] += 1
        tally.notes.append(f"{mutant.name} → {reason}")
    else:
        tally.failures.append(f"survived: {mutant.name}")
    return tally


@contextmanager
def opened(lab: Lab) -> Iterator[Batch]:
    """A batch is a mutant; after the last, the first with other worlds."""
    with lab.database() as database:
        found = mutants(database)
    step = next(n for n in range(int(len(found) * 0.618), len(found)) if gcd(n, len(found)) == 1)  # far from one to the next
    yield lambda seed: judged(lab, found[seed * step % len(found)], random.Random(seed))


@contextmanager
def nothing_changed(lab: Lab) -> Iterator[Batch]:
    """Control: a mutant that changes a comment survives."""
    yield lambda seed: judged(lab, Mutant("a comment", "comment on function pgrag.version() is 'Another comment.'"), random.Random(seed))


PROOF = Proof(
    name="mutants",
    contracts=("A2", "A4", "A6", "A8"),
    unit="mutants",
    target=774,
    claim="The loss of each guard is noticed, or is known to change nothing that can be seen.",
    opened=opened,
    controls={"a mutant that changes nothing": Control(nothing_changed, "")},
    short=6,
    control_batches=1,
)
