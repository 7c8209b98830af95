"""pgrag with one guard taken out, for each guard in turn: does anything notice?

Mutants are made mechanically: of each function that decides who sees what, every condition, one at a time, is made to hold (after
where, on, having, and; what a case answers), to be no fault (after if, elsif, or), or either (what a case asks); of each policy,
table, function and role, every way to open it up by one statement; besides some by hand. Each is installed alone, and then others
look: bad tokens and forged principals, two tenants that use the same names, the reference model, twin worlds, pgrag.doctor; of the
routes by indexes and blocks, comparing and counting. One that does not install is a failure, and so is one that nobody notices,
unless REASONS says why.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from math import gcd
from typing import Any

import psycopg

from tests.assurance.lookers import (
    by_blocks,
    by_exclusions,
    by_filters,
    by_identity,
    by_model,
    by_names,
    by_rare_words,
    by_statistics,
    by_twins,
    complaints,
)
from tests.assurance.proof import Batch, Control, Lab, Proof, Tally
from tests.support import Database

# What decides who sees what. Ranking is not here: it has no guard.
FUNCTIONS = (
    "verify_token", "current_principal", "closure", "permitted_acls", "visible_revisions", "filtered_revisions", "search_scope",
    "standing_revisions", "effective_revision", "browse_tenant", "browse_revisions", "find_principal", "find_source", "find_document", "find_revision",
    "switch_revision", "finding_of_access", "acl_of", "pgrag.can_read", "pgrag.excerpt", "pgrag.validate_reply", "pgrag.activate", "pgrag.rollback",
    "pgrag.delete_document", "pgrag.set_access", "pgrag.drop_principal", "pgrag.drop_membership", "pgrag.put_membership", "describe_chunk",
    "visible_row", "phrases_occur", "index_finds", "compared_revisions", "search_blocks", "lexical_lane", "dense_lane",
    "internal_mac", "count_document", "pgrag.writer_source", "pgrag.list_documents", "pgrag.missing_embeddings",
)  # fmt: skip
# Of these the statements that they put together, too.
DYNAMIC = ("visible_row", "search_blocks", "lexical_lane")
CONNECTIVE = re.compile(r"\b(where|and|or|on|if|elsif|having|case|when|then|else|end)\b", re.I)
TOKEN = re.compile(r"\w+|[(\[)\];,]")
ENDS = {*["and", "or", "where", "on", "group", "order", "limit", "offset", "union", "join", "cross", "left", "returning", "having", "for", "then", "when", "else", "end", "window", "loop", "return", ")", "]", ";", ","]}
BOOLEAN = re.compile(r"(?<![-=:<>@&])(=|<>|<=?|>=?)(?![=>])|@@|&&|@>|\b(is|exists|not|in)\b", re.I)
STRING = re.compile(r"--[^\n]*|'((?:[^']|'')*)'")
NONSENSE = re.compile(r"\b(42601|42703|42804|42883)\b")  # syntax, column, type, function
Looker = tuple[str, Callable[[Database, random.Random], str]]  # what it is called, and what it noticed


@dataclass(frozen=True)
class Mutant:
    """What was changed, in words that find its reason, and the SQL that does it."""

    name: str
    sql: str
    of_function: bool = False

    @property
    def function(self) -> str:
        return self.name.partition(":")[0] if self.of_function else ""


def blanked(text: str) -> str:
    """The text with strings and comments made blank, so that words in them are not taken for SQL."""
    return STRING.sub(lambda match: " " * len(match[0]), text)


def conditions(body: str) -> Iterator[tuple[str, int, int]]:
    """Each condition after a connective: the connective, and where the condition begins and ends. Of ``case`` what it
    asks (when), and what it answers (then, else) where that is a condition again."""
    plain, cases = blanked(body), list[bool]()
    for found in CONNECTIVE.finditer(plain):
        word, start = found[1].lower(), found.end()
        if word == "case":
            cases.append(plain[start:].lstrip().lower().startswith("when"))
        elif word == "end" and cases:
            cases.pop()
        if word in ("case", "end") or (word in ("when", "then", "else") and not (cases and (cases[-1] or word != "when"))):
            continue
        if plain[start:].lstrip().lower().startswith(("replace", "conflict", "constraint")) or (word == "and" and re.search(r"\bbetween\s+\S+\s*$", plain[: found.start()], re.I)):
            continue
        while True:
            end = end_of(plain, start)
            its = plain[start:end].strip()
            nested = its.startswith("((")  # PostgreSQL prints what it has parsed as ((one) and (other)): the first of them too
            if not (enclosed(its) and enclosed(its[1:-1])) and body[start:end].strip() not in ("", "true", "false", "not found", "found") and (
                word not in ("then", "else") or is_condition(its)
            ):
                yield word, start, end
            if not nested:
                break
            start = plain.index("(", start) + 1


def end_of(plain: str, at: int) -> int:
    """Where the condition that begins there ends."""
    depth, between = 0, False
    for token in TOKEN.finditer(plain, at):
        its = token[0].lower()
        if its in ("(", "[", "case"):
            depth += 1
        elif depth and its in (")", "]", "end"):
            depth -= 1
        elif depth == 0 and its == "between":
            between = True
        elif depth == 0 and its in ENDS:
            if its != "and" or not between:
                return token.start()
            between = False
    return len(plain)


def enclosed(text: str) -> bool:
    """Whether its first parenthesis closes at its end, and there it says no more than what is in it."""
    depths = [text[: n + 1].count("(") - text[: n + 1].count(")") for n in range(len(text))]
    return text.startswith("(") and 0 not in depths[:-1] and depths[-1] == 0


def is_condition(text: str) -> bool:
    """Whether it compares something, outside of parentheses."""
    while (less := re.sub(r"\([^()]*\)", "", text)) != text:
        text = less
    return BOOLEAN.search(text) is not None


def all_conditions(body: str, dynamic: bool) -> Iterator[tuple[str, int, int]]:
    """And those in its strings."""
    yield from conditions(body)
    for text in STRING.finditer(body) if dynamic else ():
        for word, start, end in conditions(its := text[1] or ""):
            if its[start:end].strip() != "%s" and (end < len(its) or is_condition(its[start:end])):  # the next string may go on with it
                yield word, text.start(1) + start, text.start(1) + end


def of_functions(superuser: psycopg.Connection[Any]) -> Iterator[Mutant]:
    """Every condition of FUNCTIONS."""
    for function in FUNCTIONS:
        name = function if "." in function else f"pgrag_private.{function}"
        for (body,) in superuser.execute("select pg_get_functiondef(oid) from pg_proc where (pronamespace::regnamespace || '.' || proname) = %s order by oid", (name,)):
            seen: Counter[str] = Counter()
            head = body.index("\n", body.lower().index("language")) if "language" in body.lower() else 0
            for word, start, end in all_conditions(body, function in DYNAMIC):
                for neutral in ("true", "false") if word == "when" else ("false",) if word in ("or", "if", "elsif") else ("true",):
                    if start > head:
                        what = f"{function}: {word} {' '.join(body[start:end].split())}" + (f" is {neutral}" if word == "when" else "")
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
    yield changed("rows of all, without conditions", "compare_vectors", "and v.revision_id = s.revision_id", "")
    yield changed("rows of all in the dense lane", "compare_vectors", "and c.revision_id = s.revision_id", "")
    yield changed("a mark without its backend", "transaction_mark", "pg_backend_pid()", "0")
    yield changed("statistics of the tenant", "search_scope", "sum(v.chunk_count)", "(select sum(r.chunk_count) from pgrag_data.revision r where r.tenant_id = p_tenant_id)")
    yield changed("chunks that lie near", "describe_chunk", "(c.chunk_no = describe_chunk.p_chunk_no)", "(c.chunk_no <> describe_chunk.p_chunk_no)")
    # What the routes for large scopes and the blocks take for visible.
    yield changed("any access list", "visible_row", " = any ((@).acls)", " is not null")
    yield changed("any revision", "visible_row", "%.revision_id + 0 = any ((@).revisions)", "true")
    yield changed("all that the index finds", "lexical_lane", "' and ' || pgrag_private.visible_row('l', '$2', p_plan.revisions is null)", "''")
    yield changed("all that a block has", "search_blocks", "pgrag_private.visible_row('b', '$2', p_scope.revisions is null)", "'true'")
    yield changed("any access list", "estimate_df", "d.acl_id = a.acl_id", "d.acl_id is not null")
    yield changed("of another revision", "chunk_id_lookup", "c.revision_id = %.revision_id and ", "")
    # To whom a packet was issued, and what stands in it.
    yield changed("of any tenant", "seal", "(p_principal).tenant_id", "0")
    yield changed("of any reader", "seal", "(p_principal).reader_id", "0")
    yield changed("of any subject", "seal", "(p_principal).subject", "''")
    yield changed("without the excerpts", "seal", "(e.excerpt - 'text'::text)", "'{}'::jsonb")
    for helper in ("visible_revisions", "permitted_acls", "closure", "current_principal"):
        (signature,) = superuser.execute("select %s::regproc::oid::regprocedure::text", (f"pgrag_private.{helper}",)).fetchone()
        yield Mutant(f"{helper}: volatile", f"alter function {signature} volatile")


# Why a mutant changes nothing that these lookers see: it is equivalent, or a test elsewhere notices it, or it takes longer and
# nothing else. By names, of which one that ends in "…" is of all that begin so.
REASONS: dict[str, tuple[str, ...]] = {
    "equivalent: ids are unique over all tenants, and the rest of the key is one": (
        "closure: where (p.tenant_id = closure.p_tenant_id)",
        "closure: on (m.tenant_id = closure.p_tenant_id)",
        "closure: on (g.tenant_id = closure.p_tenant_id)",
        "closure: where (p.tenant_id = closure.p_tenant_id) (2)",
        "permitted_acls: on e.tenant_id = p_tenant_id",
        "visible_revisions: where d.tenant_id = p_tenant_id",
        "visible_revisions: where r.tenant_id = d.tenant_id",
        "filtered_revisions: where d.tenant_id = p_tenant_id",
        "filtered_revisions: on d.tenant_id = r.tenant_id",
        "filtered_revisions: on s.tenant_id = d.tenant_id",
        "filtered_revisions: where r.tenant_id = p_tenant_id",
        "filtered_revisions: on r.tenant_id = d.tenant_id",
        "filtered_revisions: on s.tenant_id = d.tenant_id (2)",
        "filtered_revisions: where d.tenant_id = p_tenant_id (2)",
        "search_scope: on t.tenant_id = p_tenant_id",
        "standing_revisions: where (a.tenant_id = standing_revisions.p_tenant_id)",
        "standing_revisions: where (b.tenant_id = standing_revisions.p_tenant_id)",
        "standing_revisions: where (t.tenant_id = b.tenant_id)",
        "effective_revision: on (r.tenant_id = effective_revision.p_tenant_id)",
        "switch_revision: where d.tenant_id = p_document.tenant_id",
        "switch_revision: where r.tenant_id = v_locked.tenant_id",
        "switch_revision: where d.tenant_id = v_locked.tenant_id",
        "finding_of_access: on d.tenant_id = r.tenant_id",
        "finding_of_access: where r.tenant_id = p_principal.tenant_id",
        "pgrag.can_read: on r.tenant_id = v_principal.tenant_id",
        "pgrag.can_read: on d.tenant_id = r.tenant_id",
        "pgrag.can_read: on s.tenant_id = d.tenant_id",
        "pgrag.excerpt: on c.tenant_id = v_principal.tenant_id",
        "pgrag.activate: where s.tenant_id = v_revision.tenant_id",
        "pgrag.rollback: where t.tenant_id = v_document.tenant_id",
        "pgrag.rollback: where d.tenant_id = v_document.tenant_id",
        "pgrag.rollback: where r.tenant_id = v_document.tenant_id",
        "pgrag.rollback: where a.tenant_id = r.tenant_id",
        "describe_chunk: where (r_1.tenant_id = c.tenant_id)",
        "describe_chunk: where (d_1.tenant_id = r.tenant_id)",
        "describe_chunk: where (s_1.tenant_id = d.tenant_id)",
        "describe_chunk: where (c.tenant_id = describe_chunk.p_tenant_id)",
        "find_document: where d.tenant_id = p_source.tenant_id",
        "find_revision: where r.tenant_id = p_document.tenant_id",
        "pgrag.delete_document: where d.tenant_id = v_document.tenant_id",
        "pgrag.delete_document: where d.tenant_id = v_document.tenant_id (2)",
        "pgrag.set_access: where d.tenant_id = v_document.tenant_id",
        "pgrag.set_access: where d.tenant_id = v_document.tenant_id (2)",
        "pgrag.drop_membership: where m.tenant_id = v_principal.tenant_id",
        "pgrag.writer_source: where s.tenant_id = v_principal.tenant_id",
        "pgrag.list_documents: on p.tenant_id = e.tenant_id",
        "pgrag.list_documents: where e.tenant_id = d.tenant_id",
        "pgrag.list_documents: on s.tenant_id = d.tenant_id",
        "pgrag.list_documents: on r.tenant_id = d.tenant_id",
        "pgrag.missing_embeddings: on r.tenant_id = d.tenant_id",
        "pgrag.missing_embeddings: where d.tenant_id = v_source.tenant_id",
        "pgrag.missing_embeddings: where s.tenant_id = r.tenant_id",
        "pgrag.missing_embeddings: where s.tenant_id = r.tenant_id (2)",
        "pgrag.missing_embeddings: on c.tenant_id = v_source.tenant_id",
        "pgrag.missing_embeddings: where v.tenant_id = c.tenant_id",
        "count_document: where r.tenant_id = p_document.tenant_id",
        "dense_lane: where c.tenant_id = p_scope.tenant_id",
        "dense_lane: where v.tenant_id = p_scope.tenant_id",
        "compared_revisions: on d.tenant_id = p_scope.tenant_id",
        "compared_revisions: where d.tenant_id = p_scope.tenant_id",
        "visible_row: where d.tenant_id = $1",
        "index_finds: and l.tenant_id + 0 = p_tenant_id",
        "index_finds: where d.tenant_id = p_tenant_id",
        "phrases_occur: where c.tenant_id = p_scope.tenant_id",
        "phrases_occur: and l.tenant_id + 0 = p_scope.tenant_id",
        "phrases_occur: where d.tenant_id = p_scope.tenant_id",
        "lexical_lane: where c.tenant_id = $1",
        "lexical_lane: and l.tenant_id + 0 = $1",
        "lexical_lane: where l.tenant_id = $1",
        "search_blocks: where l.tenant_id = $1",
    ),
    "equivalent: of null the conditions after it refuse too": (
        "verify_token: if v_header is null", "verify_token: if v_claims is null", "pgrag.validate_reply: if jsonb_typeof(p_packet) is distinct from 'object'",
        "pgrag.validate_reply: if jsonb_typeof(p_reply) is distinct from 'object'", "pgrag.validate_reply: if jsonb_typeof(v_citation) <> 'object'",
    ),
    "equivalent: a source in a token that is no writer's was refused before": ("verify_token: and v_principal.kind = 'writer'",),
    "equivalent: a principal of another kind may call no function that reads as somebody": ("verify_token: and v_principal.kind = 'reader'",),
    "equivalent: a bound on work, and nothing that it refuses has a valid MAC": ("current_principal: if octet_length(v_setting) > 2048", "current_principal: or cardinality(v_fields) <> 10"),
    "noticed by tests/access/test_identity.py: it takes an hour, there a shorter one": ("current_principal: if clock_timestamp() > transaction_timestamp() + interval '1 hour'",),
    "equivalent: the MAC is over the transaction, and no other accepts it": ("pgrag.authenticate: a setting that outlives its transaction",),
    "equivalent: a document without an active revision joins none": (
        "visible_revisions: and d.active_revision_id is not null", "filtered_revisions: and d.active_revision_id is not null (2)",
        "compared_revisions: and d.active_revision_id is not null", "compared_revisions: and d.active_revision_id is not null (2)",
    ),
    "time only: which of two statements answers, by indexes or row by row; what either touches is in tests/access/test_index_boundary.py": (
        "filtered_revisions: if p_index", "filtered_revisions: and p_filter - 'source' <> '{}'", "filtered_revisions: and d.acl_id = any (p_acls)",
        "filtered_revisions: and d.active_revision_id is not null", "filtered_revisions: and d.deleted_at is null", "filtered_revisions: if p_index (2)",
        "search_scope: if p_search.isolation = 'auto'", "search_scope: if not p_listed", "search_scope: or v_scope.chunks > pgrag_private.scope_first_limit()",
    ),
    "time only: access lists of which nothing is left are asked about, and have nothing": ("search_scope: having sum(t.chunks) > 0",),
    "equivalent: the active revision is one of the document's own": ("filtered_revisions: and d.document_id = r.document_id",),
    "equivalent: keys of the index and values are compared, each of which suffices but for a collision of hashes": (
        *(f"filtered_revisions: {word}pgrag_private.facet_keys(…" for word in ("and (v_languages is null or ", "and (v_products is null or ", "and (v_versions is null or ", "and (v_tags is null or ", "and (v_metadata is null or ")),
        "filtered_revisions: and (v_languages is null or r.language = any (v_languages))",
        "filtered_revisions: and (v_products is null or r.product = any (v_products))",
        "filtered_revisions: and (v_versions is null or r.version = any (v_versions))",
        "filtered_revisions: and (v_tags is null or r.tags @> v_tags)",
        "filtered_revisions: and (v_metadata is null or r.metadata @> v_metadata)",
    ),
    "equivalent: a chunk's id is a hash of its tenant, too": ("pgrag.validate_reply: where c.tenant_id = v_principal.tenant_id",),
    "equivalent: the sources of other tenants are in no row of this one's ledger": ("search_scope: where s.tenant_id = p_tenant_id",),
    "equivalent: compare_vectors leaves out what has no direction, and so does the index of a block": ("dense_lane: where d.distance <> 'NaN'",),
    "equivalent: in these worlds, whose words are stemmed alike in every language": ("search_blocks: on q.language = l.language",),
    "equivalent: nothing is in force at no time": ("filtered_revisions: where p_as_of is not null",),
    "equivalent: the revision names its document": ("standing_revisions: and (t.document_id = b.document_id)", "pgrag.rollback: and a.document_id = r.document_id"),
    "noticed by tests/functions/test_spaces.py: there is one space here, there are several": (
        "pgrag.activate: if (v_revision.space_id is not null…", "pgrag.activate: or exists (select from pgrag_data.revision_space s…",
        "pgrag.activate: where s.tenant_id = v_revision.tenant_id (2)", "pgrag.activate: and s.revision_id = v_revision.revision_id (2)", "pgrag.activate: and not exists ( select from pgrag_data.revision_space s…",
        "pgrag.activate: and s.revision_id = v_revision.revision_id", "pgrag.activate: and s.space_id = v_tenant.active_space_id",
    ),
    "noticed by tests/functions/test_blocks.py: a candidate counts twice where a block came back short": ("compared_revisions: where a.acl_id <> all (p_plan.exact_acls)",),
    "equivalent: the row is locked": ("switch_revision: and d.active_revision_id is not distinct from v_locked.active_revision_id",),
    "noticed by tests/isolation/test_concurrency.py: for two that make the same list at once": (
        "acl_of: if v_acl_id is null", "acl_of: where a.tenant_id = p_tenant_id (2)", "acl_of: and a.fingerprint = v_fingerprint (2)",
    ),
    "equivalent: no revision of that id, and nothing to count": ("count_document: if p_document.active_revision_id is null",),
    "equivalent: a scope that is listed is asked for its revisions either way": ("compared_revisions: and p_scope.revisions is not null",),
    "time only: more is compared, and found once": (
        "compared_revisions: and d.changed_xid >= pg_snapshot_xmin(a.snapshot)", "compared_revisions: and not pg_visible_in_snapshot(d.changed_xid, a.snapshot)",
        "search_blocks: where b.n < least(p_plan.requested, b.vectors)", "dense_lane: where cardinality(v_revisions) > 0",
    ),
    "time only: a block that gives too few is followed by comparing all": ("search_blocks: or l.lexemes @@ q.condition",),
    "equivalent: a block that gives too few has given all that it has, unless its graph is unlucky": ("search_blocks: on f.n = g.n",),
    "equivalent: keys of the index and lexemes are compared, each of which suffices but for a collision of hashes": (
        "index_finds: where pgrag_private.lexeme_keys(l.tenant_id, tsvector_to_array(l.lexemes)) && v_keys", "index_finds: and l.lexemes @@ p_plan.any_query",
    ),
}


def reason_of(mutant: Mutant) -> str:
    return next((reason for reason, names in REASONS.items() for name in names if mutant.name == name or (name.endswith("…") and mutant.name.startswith(name[:-1]))), "")


# All that may not be counted holds a word that nothing else does.
def mutants(database: Database) -> list[Mutant]:
    """All of them, in one order."""
    with database.superuser() as superuser:
        found = [*of_functions(superuser), *by_hand(superuser), *of_catalog(superuser)]
    assert len({mutant.name for mutant in found}) == len(found)
    return found


@contextmanager
def installed(database: Database, mutant: Mutant) -> Iterator[None]:
    """Memberships of roles are the whole server's: what it adds to them is taken back."""
    memberships = "select roleid::regrole::text, member::regrole::text, grantor::regrole::text from pg_auth_members"
    with database.superuser() as superuser:
        before = set(superuser.execute(memberships).fetchall())
        try:
            superuser.execute(mutant.sql)
            yield
        finally:
            for role, member, grantor in set(superuser.execute(memberships).fetchall()) - before:
                superuser.execute(f"revoke {role} from {member} granted by {grantor}")


MODEL: Looker = ("the reference model", by_model)
BLOCKS: Looker = ("blocks and comparing", by_blocks)
STATISTICAL: Looker = ("statistics of words", by_statistics)
RARE: Looker = ("twin worlds by rare words", by_rare_words)
FILTERED: Looker = ("filters", by_filters)
EXCLUDING: Looker = ("exclusions", by_exclusions)
SHARP: dict[str, tuple[Looker, ...]] = {
    **dict.fromkeys(("compared_revisions", "search_blocks", "visible_row", "dense_lane"), (BLOCKS,)),
    "filtered_revisions": (FILTERED, BLOCKS),
    "lexical_lane": (EXCLUDING,),
    **dict.fromkeys(("estimate_df", "index_finds"), (STATISTICAL, RARE)),
}
"""Who looks first, of whom the cheaper lookers do not reach."""


def lookers(mutant: Mutant, before: set[tuple[str, str, str | None]]) -> Iterator[Looker]:
    """The cheapest first that sees much."""
    if not mutant.of_function:
        yield "pgrag.doctor", lambda database, _: "; ".join(map(repr, complaints(database) - before))
        yield MODEL
    else:
        yield from SHARP.get(mutant.function, ())
        yield "bad tokens", by_identity
        yield "the same names", by_names
        yield (MODEL[0], lambda database, dice: by_model(database, dice, (dice.randrange(2),))) if reason_of(mutant) else MODEL
        yield "twin worlds", by_twins
    if not reason_of(mutant):  # where it matters, chance gets more worlds
        yield from (MODEL, MODEL, *((BLOCKS, STATISTICAL, RARE) if mutant.of_function else ()))


def judged(lab: Lab, mutant: Mutant, dice: random.Random) -> Tally:
    """Install it in a database of its own, and let everybody look until one notices."""
    tally = Tally(cases=1)
    reason = reason_of(mutant)
    with lab.database() as database:
        before = complaints(database)
        try:
            with installed(database, mutant):
                for who, look in lookers(mutant, before):
                    broke = ""
                    try:
                        noticed = look(database, dice)
                    except Exception as error:  # on guards as they are nobody raises anything: the controls show it
                        noticed, broke = f"{getattr(error, 'sqlstate', '')} {error!r}", ": it broke"
                    if nonsense := NONSENSE.search(noticed):
                        tally.failures.append(f"its SQL is no SQL, {nonsense[0]}: {mutant.name}")
                        return tally
                    if noticed:
                        tally.counts[f"noticed by {who}{broke}"] += 1
                        return tally
        except psycopg.Error as error:
            tally.failures.append(f"did not install: {mutant.name}: {error}")
            return tally
    if reason:
        tally.counts[f"survived, {reason.partition(':')[0]}"] += 1
        tally.notes.append(f"{mutant.name} → {reason}")
    else:
        tally.failures.append(f"survived: {mutant.name}")
    return tally


@contextmanager
def opened(lab: Lab) -> Iterator[Batch]:
    """A batch is a mutant; after the last there is none."""
    with lab.database() as database:
        found = mutants(database)
    if len(found) != PROOF.target:
        raise AssertionError(f"there are {len(found)} mutants: PROOF.target is {PROOF.target}")
    step = next(n for n in range(int(len(found) * 0.618), len(found)) if gcd(n, len(found)) == 1)  # far from one to the next
    yield lambda seed: judged(lab, found[seed * step % len(found)], random.Random(seed)) if seed < len(found) else Tally()


@contextmanager
def nothing_changed(lab: Lab, function: str = "") -> Iterator[Batch]:
    """Control: a comment is changed, or a function is made again as it was, and nobody may notice."""
    with lab.database() as database, database.superuser() as superuser:
        body = superuser.execute("select pg_get_functiondef(to_regproc(%s))", (f"pgrag_private.{function}",)).fetchone()[0] if function else ""
    mutant = Mutant(f"{function}: as it was", body, of_function=True) if function else Mutant("a comment", "comment on function pgrag.version() is 'Another comment.'")
    yield lambda seed: judged(lab, mutant, random.Random(seed))


PROOF = Proof(
    name="mutants",
    contracts=("A2", "A4", "A6", "A8"),
    unit="mutants",
    target=969,
    claim="The loss of each guard is noticed, or is known to change nothing that can be seen.",
    opened=opened,
    controls={
        "a comment is changed": Control(nothing_changed, "^survived: a comment"),
        "a function is made again": Control(lambda lab: nothing_changed(lab, "verify_token"), "^survived: verify_token"),
    },
    short=6,
    control_batches=1,
)
