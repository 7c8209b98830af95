"""The arms of the filtered benchmark: pgrag, and what else a competent person would do, over the same chunks.

``peer.chunk`` has the row of each chunk, its text and its embedding, with pgvector's defaults. Under row-level security
the reader's access lists are looked up in the memberships and put into a setting at the start of each transaction,
and the policy compares with that setting. Written plainly, the planner knows the lists and estimates their share from
statistics, but the setting is read again for each row of a filter (``rls_hnsw``). In a sub-select, as is often recommended, it
is read once, but the planner guesses (``rls_hnsw_initplan``). Lookup, search and commit are pipelined, as one round trip.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar, Protocol

import numpy as np
import psycopg

from benchmarks._durable import Folder
from benchmarks._filtered import BLOCK, EACH, WIDTH, Asked, Company, Reader, Vectors
from benchmarks._server import Server
from pgrag.protocols import EmbeddingSpace

Row = tuple[Any, ...]
K = 10
TENANT = "filtered"


class Arm(Protocol):
    """One way of finding the K nearest chunks of a reader."""

    def ask(self, question: Asked) -> list[Row]:
        """The whole call, as an application makes it: times are of this."""

    def numbers(self, rows: list[Row]) -> list[int]:
        """The chunks of an answer, by number."""

    def visited(self, question: Asked) -> dict[str, Any]:
        """``rows`` that were visited for a question, ``buffers``, and ``plan`` in a few words."""

    def index_bytes(self) -> dict[str, int]:
        """Of the indexes that the vectors are found with: ``all``, and what parts of it there are."""


# -- Loading ------------------------------------------------------------------------------------------------


def copy_block(
    connection: psycopg.Connection[Any], company: Company, vectors: Vectors, first: int, labelled: bool
) -> None:
    """The chunks of a block of documents by COPY; once, however often it is called. ``labelled``: for vectorscale."""
    if connection.execute("select from peer.chunk where id = %s", (first * EACH,)).fetchone():
        return
    count = min(BLOCK, company.documents - first) * EACH
    ids = first * EACH + np.arange(count)
    label = company.class_of[ids // EACH] + 1
    array = [("dimensions", ">i4", 1), ("flags", ">i4", 0), ("type", ">i4", 21), ("length", ">i4", 1), ("bound", ">i4", 1),
             ("item", ">i4", 2), ("label", ">i2", label)]  # fmt: skip
    whole = [
        ("tenant", 8, 1),
        ("acl", 8, label),
        ("id", 8, ids),
        ("document", 8, ids // EACH),
        ("chunk", 4, ids % EACH + 1),
    ]
    fields: list[tuple[str, str, Any]] = []
    for name, size, value in [("id", 8, ids)] if labelled else whole:
        fields += [(f"{name}_size", ">i4", size), (name, f">i{size}", value)]
    if labelled:
        fields += [("labels_size", ">i4", 26), *array]
    fields += [
        ("text_size", ">i4", WIDTH),
        ("text", f"S{WIDTH}", [text.encode() for text in company.texts(first)]),
    ]
    dimension = vectors.shape[1]
    fields += [("embedding_size", ">i4", 4 + 4 * dimension), ("of", ">i2", dimension), ("unused", ">i2", 0)]
    columns = 4 if labelled else 7
    kind = [
        ("columns", ">i2"),
        *((name, kind) for name, kind, _ in fields),
        ("embedding", ">f4", (dimension,)),
    ]
    rows = np.zeros(count, dtype=kind)
    rows["columns"] = columns
    for name, _, value in fields:
        rows[name] = value
    rows["embedding"] = vectors[first * EACH : first * EACH + count]
    with (
        connection.transaction(),
        connection.cursor() as cursor,
        cursor.copy("copy peer.chunk from stdin (format binary)") as copy,
    ):
        copy.write(b"PGCOPY\n\xff\r\n\0" + bytes(8) + rows.tobytes() + b"\xff\xff")


def load_peer(
    folder: Folder,
    connection: psycopg.Connection[Any],
    company: Company,
    vectors: Vectors,
    readers: Sequence[Reader],
    index: bool = True,
) -> None:
    """The table under row-level security, and who is in which group. ``index``: whether anybody is going to search it."""

    def tables() -> None:
        connection.execute(f"""
            drop table if exists peer.chunk, peer.membership, peer.acl_entry;
            create table peer.chunk (
              tenant_id bigint not null, acl_id bigint not null, id bigint primary key, document_id bigint not null,
              chunk_no integer not null, text text not null, embedding vector({vectors.shape[1]}) not null);
            create table peer.membership (member text, group_id bigint, primary key (member, group_id));
            create table peer.acl_entry (acl_id bigint, group_id bigint, primary key (group_id, acl_id));
            do $$ begin
              create role peer_reader; create role peer_initplan;
            exception when duplicate_object then null; end $$;
            grant usage on schema peer to peer_reader, peer_initplan;
            grant select on all tables in schema peer to peer_reader, peer_initplan;
            alter table peer.chunk enable row level security;
            create policy permitted on peer.chunk for select to peer_reader
              using (acl_id = any (current_setting('peer.acls')::bigint[]));
            create policy permitted_initplan on peer.chunk for select to peer_initplan
              using (acl_id = any ((select current_setting('peer.acls')::bigint[])::bigint[]));
        """)
        with connection.cursor() as cursor:
            with cursor.copy("copy peer.membership from stdin") as copy:
                for reader in readers:
                    for group in reader.groups:
                        copy.write_row((reader.name, group))
            with cursor.copy("copy peer.acl_entry from stdin") as copy:
                for number, groups in enumerate(company.lists):
                    for group in groups:
                        copy.write_row((number + 1, group))

    folder.step("peer tables", tables)
    folder.blocks(
        "peer load",
        company.documents,
        BLOCK,
        lambda first: copy_block(connection, company, vectors, first, False),
    )
    if not index:
        return
    folder.step("peer acl index", lambda: void(connection, "create index chunk_acl on peer.chunk (acl_id)"))
    folder.step(
        "peer hnsw",
        lambda: void(
            connection, "create index chunk_hnsw on peer.chunk using hnsw (embedding vector_cosine_ops)"
        ),
    )
    folder.step(
        "peer analyze",
        lambda: void(connection, "vacuum (analyze) peer.chunk, peer.membership, peer.acl_entry"),
    )


def load_vectorscale(
    folder: Folder, connection: psycopg.Connection[Any], company: Company, vectors: Vectors
) -> None:
    """The table with labels, in its own server."""

    def tables() -> None:
        connection.execute(f"""
            create extension if not exists vectorscale cascade;
            create schema if not exists peer;
            drop table if exists peer.chunk;
            create table peer.chunk (id bigint primary key, labels smallint[] not null, text text not null,
                                     embedding vector({vectors.shape[1]}) not null);
        """)

    folder.step("vectorscale tables", tables)
    folder.blocks(
        "vectorscale load",
        company.documents,
        BLOCK,
        lambda first: copy_block(connection, company, vectors, first, True),
    )
    folder.step(
        "vectorscale index",
        lambda: void(
            connection,
            "create index chunk_diskann on peer.chunk using diskann (embedding vector_cosine_ops, labels)",
        ),
    )
    folder.step("vectorscale analyze", lambda: void(connection, "vacuum (analyze) peer.chunk"))


def load_pgrag(folder: Folder, server: Server, company: Company, readers: Sequence[Reader]) -> None:
    """The same documents through pgrag's own writer functions, each called for a block of them at a time."""
    connection, space = (
        server.connection,
        EmbeddingSpace("synthetic", "synthetic", "1", company.space.dimension),
    )

    def principals() -> None:
        server.put_tenant(TENANT, space)
        with connection.transaction():
            connection.execute("select pgrag.authenticate(%s)", (server.token(TENANT, "benchmark", "admin"),))
            connection.execute(
                "select pgrag.put_principal('group-' || n, 'group') from generate_series(0, %s) n",
                (len(company.lists) - 1,),
            )
            connection.execute(
                "select pgrag.put_principal(n, 'user') from unnest(%s::text[]) n",
                ([reader.name for reader in readers],),
            )
            connection.execute(
                "select pgrag.put_membership('group-' || group_id, member) from peer.membership"
            )

    folder.step("pgrag principals", principals)
    folder.blocks(
        "pgrag load", company.documents, BLOCK, lambda first: write_block(server, space.space, first)
    )
    folder.step("pgrag analyze", lambda: void(connection, "vacuum (analyze)"))


_BLOCK = "from (select document_id::text as document, {} from peer.chunk where id between %(first)s and %(last)s group by document_id) d"
_WRITE = (
    "select pgrag.stage_revision(document, body, 'About ' || document, 'en', 'v1', p_space => %(space)s) "
    + _BLOCK.format("string_agg(text, '' order by chunk_no) as body"),
    "select pgrag.add_chunks(document, 'v1', 1, texts, starts, ends, tokens, p_embeddings => embeddings) "
    + _BLOCK.format(
        "array_agg(text order by chunk_no) as texts, array_agg(embedding order by chunk_no) as embeddings,"
        f" array_agg((chunk_no - 1) * {WIDTH} order by chunk_no) as starts, array_agg(chunk_no * {WIDTH} order by chunk_no) as ends,"
        " array_agg(25 order by chunk_no) as tokens"
    ),
    "select pgrag.verify_revision(document, 'v1', chunks) " + _BLOCK.format("count(*)::integer as chunks"),
    "select pgrag.set_access(document, array(select 'group-' || e.group_id from peer.acl_entry e where e.acl_id = d.acl_id)) "
    + _BLOCK.format("min(acl_id) as acl_id"),
    "select pgrag.activate(document, 'v1') " + _BLOCK.format("count(*)"),
)


def write_block(server: Server, space: str, first: int, count: int = BLOCK, tenant: str = TENANT) -> None:
    """``count`` documents from the peer's table, in one transaction; once, however often it is called."""
    there = "select from pgrag_data.document d join pgrag_data.tenant t using (tenant_id) where t.tenant = %s and d.document = %s"
    if server.connection.execute(there, (tenant, str(first))).fetchone():
        return
    its = {"first": first * EACH, "last": (first + count) * EACH - 1, "space": space}
    with server.connection.transaction():
        server.connection.execute(
            "select pgrag.authenticate(%s)", (server.token(tenant, "benchmark", "writer"),)
        )
        for statement in _WRITE:
            server.connection.execute(statement, its)


def maintain(folder: Folder, server: Server) -> dict[str, Any] | None:
    """Blocks, built by one bounded step after the other; None where this pgrag has none."""
    if server.connection.execute("select to_regproc('pgrag.maintain') is null").fetchone() == (True,):
        return None
    steps: dict[str, int] = {}
    while True:
        folder.check()
        rows = server.connection.execute("select action, rows, remaining from pgrag.maintain()").fetchall()
        for action, _, _ in rows:
            steps[action] = steps.get(action, 0) + 1
        if not rows or not rows[-1][2]:
            return steps


def maintained(folder: Folder, server: Server, name: str = "maintain") -> bool:
    """That step done, and whether this pgrag has it at all."""
    if folder.step(name, lambda: maintain(folder, server))["value"] is not None:
        return True
    folder.forget(name)
    return False


def calibrate(server: Server) -> dict[str, float]:
    """The costs by which searches choose their route, measured."""
    return dict(server.connection.execute("select part, microseconds from pgrag.calibrate()").fetchall())


def void(connection: psycopg.Connection[Any], statement: str) -> None:
    """A statement without a result, or whose result is of no interest."""
    connection.execute(statement)


# -- Asking -------------------------------------------------------------------------------------------------


class Pgrag:
    """``pgrag.search``, the whole public call, with the token as an argument."""

    _SEARCH = """select document, span_start, text from pgrag.search(%s, 10, 'dense', p_embedding => %s::vector,
                        p_space => 'synthetic', p_token => %s)"""

    def __init__(self, server: Server, readers: Sequence[Reader], tenant: str = TENANT) -> None:
        self._server, self._connection = server, connect(server.embedded.superuser_dsn)
        self._tokens = {reader.name: server.token(tenant, reader.name) for reader in readers}

    def ask(self, question: Asked) -> list[Row]:
        """As Arm says."""
        return self._connection.execute(self._SEARCH, self._parameters(question)).fetchall()

    def _parameters(self, question: Asked) -> tuple[str, ...]:
        return question.text, question.vector, self._tokens[question.reader.name]

    def numbers(self, rows: list[Row]) -> list[int]:
        """As Arm says."""
        return [int(document) * EACH + start // WIDTH for document, start, _ in rows]

    def policy(self, question: Asked) -> dict[str, Any]:
        """What pgrag says of how it went about it."""
        request = {"question": question.text, "k": K, "mode": "dense", "space": "synthetic"}
        text = f'{json.dumps(request)[:-1]}, "embedding": {question.vector}}}'
        statement = "select pgrag.search_json(%s::jsonb, %s)"
        row = self._connection.execute(statement, (text, self._tokens[question.reader.name])).fetchone()
        assert row is not None
        policy = {
            key: value
            for key, value in row[0]["policy"].items()
            if key.startswith("dense") and key != "dense_weight"
        }
        return policy | {"scope": row[0]["scope"]}

    def visited(self, question: Asked) -> dict[str, Any]:
        """As Arm says. What happens inside of functions is counted by the server, in its tables that have vectors."""
        counted = """select coalesce(sum(coalesce(s.seq_tup_read, 0) + coalesce(s.idx_tup_fetch, 0)), 0)::bigint
                       from pg_stat_xact_all_tables s
                      where s.schemaname like 'pgrag%%' and exists (
                        select from pg_attribute a where a.attrelid = s.relid and not a.attisdropped
                           and a.atttypid in ('vector'::regtype, 'halfvec'::regtype))"""
        with self._connection.transaction():
            before = self._connection.execute(counted).fetchone()
            self._connection.execute(self._SEARCH, self._parameters(question)).fetchall()
            after = self._connection.execute(counted).fetchone()
            explained = explain(self._connection, self._SEARCH, self._parameters(question))
        assert before is not None and after is not None
        return {
            "rows": after[0] - before[0],
            "buffers": explained["buffers"],
            "plan": self.policy(question).get("dense_route", ""),
        }

    def index_bytes(self) -> dict[str, int]:
        """As Arm says: the blocks' graphs, and of these ``of_lists`` those of single access lists; an exact scan has none."""
        graphs = "n.nspname = 'pgrag_block' and m.amname = 'hnsw'"
        of_lists = """exists (select from pg_index i join pg_class t on t.oid = i.indrelid
                                join pgrag_data.dense_block b on t.relname = 'b' || b.block_id
                               where i.indexrelid = c.oid and b.acl_id is not null)"""
        return {
            "all": bytes_of(self._connection, graphs),
            "of_lists": bytes_of(self._connection, f"{graphs} and {of_lists}"),
        }


class Peer:
    """A statement over ``peer.chunk`` that returns id and text."""

    SEARCH = "select id, text from peer.chunk order by embedding <=> %s::vector limit 10"

    def __init__(self, dsn: str, settings: Mapping[str, Any], role: str | None = None) -> None:
        self._connection = connect(dsn)
        self._connection.execute("load 'vector'")
        if role is not None:
            self._connection.execute(f"set role {role}")
        self.tune(settings)

    def tune(self, settings: Mapping[str, Any]) -> None:
        """Other settings for all that follows."""
        for name, value in settings.items():
            self._connection.execute("select set_config(%s, %s, false)", (name, str(value)))

    def ask(self, question: Asked) -> list[Row]:
        """As Arm says."""
        return self._connection.execute(self.SEARCH, (question.vector,)).fetchall()

    def numbers(self, rows: list[Row]) -> list[int]:
        """As Arm says."""
        return [int(row[0]) for row in rows]

    def visited(self, question: Asked) -> dict[str, Any]:
        """As Arm says."""
        return explain(self._connection, self.SEARCH, (question.vector,))

    def index_bytes(self) -> dict[str, int]:
        """As Arm says."""
        return {"all": bytes_of(self._connection, "n.nspname = 'peer' and m.amname in ('hnsw', 'diskann')")}


class Rls(Peer):
    """The same under row-level security: memberships first, then the search, in one transaction."""

    _SCOPE = """select set_config('peer.acls', array(select e.acl_id from peer.membership m join peer.acl_entry e using (group_id)
                                                      where m.member = %s group by e.acl_id)::text, true)"""
    ROLES: ClassVar = {"inline": "peer_reader", "initplan": "peer_initplan"}

    def ask(self, question: Asked) -> list[Row]:
        """As Arm says."""
        with self._connection.pipeline(), self._connection.transaction():
            self._connection.execute(self._SCOPE, (question.reader.name,))
            found = self._connection.execute(self.SEARCH, (question.vector,))
        return found.fetchall()

    def visited(self, question: Asked) -> dict[str, Any]:
        """As Arm says."""
        with self._connection.transaction():
            self._connection.execute(self._SCOPE, (question.reader.name,))
            return explain(self._connection, self.SEARCH, (question.vector,))


class Vectorscale(Peer):
    """A DiskANN index with a label for each class. The reader's labels are given, and cost nothing here."""

    SEARCH = "select id, text from peer.chunk where labels && %s::smallint[] order by embedding <=> %s::vector limit 10"

    def __init__(self, dsn: str, settings: Mapping[str, Any]) -> None:
        super().__init__(dsn, {})
        self._connection.execute("load 'vectorscale-0.9.0'")
        self.tune(settings)

    def ask(self, question: Asked) -> list[Row]:
        """As Arm says."""
        return self._connection.execute(self.SEARCH, self._parameters(question)).fetchall()

    def _parameters(self, question: Asked) -> tuple[list[int], str]:
        return [number + 1 for number in question.reader.classes], question.vector

    def visited(self, question: Asked) -> dict[str, Any]:
        """As Arm says."""
        return explain(self._connection, self.SEARCH, self._parameters(question))


def connect(dsn: str) -> psycopg.Connection[Any]:
    """A connection of an arm's own; each statement is planned when it runs."""
    return psycopg.connect(dsn, autocommit=True, prepare_threshold=None)


def bytes_of(connection: psycopg.Connection[Any], which: str) -> int:
    """Of the indexes that this condition takes."""
    row = connection.execute(f"""
        select coalesce(sum(pg_relation_size(c.oid)), 0)::bigint
          from pg_class c join pg_namespace n on n.oid = c.relnamespace join pg_am m on m.oid = c.relam
         where c.relkind = 'i' and {which}""").fetchone()
    assert row is not None
    return int(row[0])


def explain(connection: psycopg.Connection[Any], statement: str, parameters: Sequence[Any]) -> dict[str, Any]:
    """Rows that the scans of a statement visited, buffers, and its scans by name."""
    row = connection.execute(
        f"explain (analyze, buffers, timing off, format json) {statement}", parameters
    ).fetchone()
    assert row is not None
    plan = row[0][0]["Plan"]
    visited, scans = 0.0, []
    for node in nodes(plan):
        if "Scan" in node["Node Type"] and "Function" not in node["Node Type"]:
            scans.append(f"{node['Node Type']} {node.get('Index Name', '')}".strip())
        if node.get("Relation Name") == "chunk":
            read = sum(
                node.get(name, 0)
                for name in ("Actual Rows", "Rows Removed by Filter", "Rows Removed by Index Recheck")
            )
            visited += read * node["Actual Loops"]
    buffers = plan.get("Shared Hit Blocks", 0) + plan.get("Shared Read Blocks", 0)
    return {"rows": round(visited), "buffers": buffers, "plan": " > ".join(dict.fromkeys(scans))}


def nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """A plan's nodes, from the top."""
    yield plan
    for child in plan.get("Plans", ()):
        yield from nodes(child)


class PgragLane(Pgrag):
    """The reader's scope, the route and the dense lane of ``pgrag.search``, and the texts of the best K: without token, checks,
    near-duplicates and provenance, which the other arms do not have either."""

    _MAKE = """
        create schema if not exists peer;
        create or replace function peer.lane(p_tenant text, p_reader text, p_question text, p_embedding vector)
        returns table (document text, span_start integer, text text)
        language plpgsql stable set plan_cache_mode = force_generic_plan set jit = off as $$
        #variable_conflict use_column
        declare
          v_tenant_id bigint := (select t.tenant_id from pgrag_data.tenant t where t.tenant = p_tenant);
          v_reader_id bigint := (select p.principal_id from pgrag_data.principal p where p.tenant_id = v_tenant_id and p.name = p_reader);
          v_space     pgrag_data.embedding_space;
          v_search    pgrag_private.search_request;
          v_scope     pgrag_private.search_scope;
        begin
          select s.* into v_space from pgrag_data.embedding_space s where s.tenant_id = v_tenant_id and s.space = 'synthetic';
          v_search.question := p_question;
          v_search.isolation := 'auto';
          v_scope := pgrag_private.search_scope(v_tenant_id, v_reader_id, v_search, p_listed => false);
          return query
          select d.document::text, c.span_start, c.text
            from (select l.revision_id, l.chunk_no, l.cosine, l.chunk_id
                    from pgrag_private.dense_lane(v_scope, pgrag_private.dense_plan(v_scope, v_space, 20, 'auto'), v_space.space_id, p_embedding, 20,
                                                  null, null) l
                   order by l.cosine desc, l.chunk_id limit 10) l
            join pgrag_data.chunk c on c.tenant_id = v_tenant_id and c.revision_id = l.revision_id and c.chunk_no = l.chunk_no
            join pgrag_data.revision r on r.tenant_id = v_tenant_id and r.revision_id = l.revision_id
            join pgrag_data.document d on d.tenant_id = v_tenant_id and d.document_id = r.document_id
           order by l.cosine desc, l.chunk_id;
        end
        $$"""
    _SEARCH = "select document, span_start, text from peer.lane(%s, %s, %s, %s::vector)"

    def __init__(self, server: Server, readers: Sequence[Reader], tenant: str = TENANT) -> None:
        super().__init__(server, readers, tenant)
        self._connection.execute(self._MAKE)
        self._tenant = tenant

    def _parameters(self, question: Asked) -> tuple[str, ...]:
        return self._tenant, question.reader.name, question.text, question.vector
