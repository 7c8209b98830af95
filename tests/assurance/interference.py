"""Twin worlds that differ in what the reader may not see alone: every answer, error and notice is the same to the last byte."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from typing import Any

import psycopg

from tests.access import hidden
from tests.access.hidden import HANDS, TOY, UPKEEP, on
from tests.access.model import WORDS
from tests.assurance.proof import Batch, Control, Lab, Proof, Tally
from tests.functions.patched import all_patched
from tests.support import Database

PAIRS = 20  # of a batch: the world before and after one change of what is hidden
QUESTIONS = 4  # of those in tests/access/hidden.py, and as many random ones
# How 'auto' looks, by seed: a third with scopes that are listed, a third by the index, a third with blocks. 'loose blocks': of lists some
# of whose documents have changed since, which maintenance would put in order; so it has to stay away.
ROUTES = ("scope", "index", "class blocks", "scope", "rarest", "loose blocks", "scope", "index", "tenant block")
SEARCH = "select pgrag.search_json(r)::text from unnest(%(requests)s::jsonb[]) with ordinality as q (r, n) order by n"
# Asked by the reader, most of them in each world, each in one answer; {row} is a question of the row functions.
ASKED: Mapping[str, str] = {
    "packet_json": "select (pgrag.packet_json(%(request)s::jsonb) - array['seal', 'issued_at'])::text",
    "search": "select jsonb_agg(to_jsonb(s) order by s.rank)::text from pgrag.search({row}) s",
    "packet": "select (pgrag.packet({row}) - array['seal', 'issued_at'])::text",
    "validate_reply": "select jsonb_agg(pgrag.validate_reply(%(packet)s, r) order by n)::text from unnest(%(replies)s::jsonb[]) with ordinality as q (r, n)",
    "excerpt": "select jsonb_agg(pgrag.excerpt(c) order by n)::text from unnest(%(chunks)s::text[]) with ordinality as q (c, n)",
    "can_read": "select jsonb_agg(pgrag.can_read('handbook', d) order by n)::text from unnest('{{open-1,hidden-1,new-1}}'::text[]) with ordinality as q (d, n)",
    "whoami": "select to_jsonb(w)::text from pgrag.whoami() w",
    "spaces": "select jsonb_build_array((select to_jsonb(a) from pgrag.active_space() a), (select to_jsonb(n) from pgrag.next_space() n), pgrag.status())::text",
}
ROW = "'common refund of a tent', 20, 'hybrid', '[0.5, 0.4, 0.3]', 'toy', p_threshold => 0, p_isolation => %(isolation)s"
BROWSED: Mapping[str, str] = {
    "documents view": "select jsonb_agg(to_jsonb(d) order by d.source, d.document)::text from pgrag.documents d",
    "chunks view": "select jsonb_agg(to_jsonb(c) order by c.chunk_id, c.source, c.document)::text from pgrag.chunks c",
}
# What is refused: an error says the same too. {chunk} and {document} are hidden ones, or of the other tenant.
REFUSED = (
    "select pgrag.excerpt('{chunk}')", "select pgrag.excerpt('{chunk}', '2025-01-01')", "select pgrag.can_read('handbook', '{document}')",
    "select pgrag.search_json('{{\"question\": \"common\", \"mode\": \"lexical\", \"filter\": {{\"{document}\": 1}}}}')",
    "select pgrag.search_json('{{\"question\": \"common\", \"mode\": \"dense\", \"space\": \"{document}\", \"embedding\": [1, 1, 1]}}')",
    "select * from pgrag.list_documents('handbook')", "select * from pgrag.list_revisions('{document}')", "select * from pgrag.list_principals()",
)  # fmt: skip
# Of all that is stored. Nothing that alice may see changes: if this moved, something hidden did.
TABLES = """select format('select sum(hashtextextended(t::text, 0)) as h from pgrag_data.%I t', relname) from pg_class
             where relnamespace = 'pgrag_data'::regnamespace and relkind in ('r', 'p') order by 1"""
CHUNKS = """select encode(c.chunk_id, 'hex'), d.document from pgrag_data.chunk c join pgrag_data.revision r using (tenant_id, revision_id)
              join pgrag_data.document d using (tenant_id, document_id) where d.document like 'hidden%' order by 2, 1"""

VARIES = r'\d{4}-\d\d-\d\dT[0-9:.+]+|"(corpus|access)_state": "[0-9a-f]{64}"'  # in worlds of another past

Answers = dict[str, str]


class World(hidden.World):
    """With random questions, asked in strict isolation or in the route of this world; refused ones; and all else that a reader may ask."""

    def __init__(self, database: Database, dice: random.Random, route: str = "scope") -> None:
        super().__init__(database, dice)
        self.token = database.token("a", "alice")
        self.notices: list[str] = []
        self.browser = psycopg.connect(database.dsn("app_browser"), autocommit=True)
        self.superuser = database.superuser()
        for connection in (self.reader, self.browser):
            connection.add_notice_handler(lambda said: self.notices.append(f"{said.severity} {said.message_primary} {said.message_detail}"))
        self.digest_of = " union all ".join(table for (table,) in self.superuser.execute(TABLES))
        chunk, document = random.Random(dice.random()).choice(self.superuser.execute(CHUNKS).fetchall())
        self.requests = [*dice.sample(hidden.REQUESTS, QUESTIONS), *(self.question() for _ in range(QUESTIONS))]
        self.ways = dice.sample(list(ASKED), 6)
        self.refused = [call.format(chunk=chunk, document=document) for call in dice.sample(REFUSED, 5)]
        # With a block of the whole tenant, byte for byte is promised in strict isolation alone.
        isolation = {"isolation": "strict"} if route == "tenant block" else {}
        if "block" in route:
            self.maintained()
        if route == "loose blocks":
            with database.writer("a", "handbook") as writer:
                for number in dice.sample(range(10), 2):
                    self.put(writer, f"open-{number}", readers=[dice.choice(["everyone", "alice", "team"])])
        self.asked: dict[str, Any] = {
            "requests": [json.dumps({"threshold": 0} | request) for request in self.requests],
            "request": json.dumps(dice.choice(self.requests) | isolation | {"budget": dice.choice((120, 600, 8000))}),
            "isolation": isolation.get("isolation", "auto"), "chunks": [], "packet": None, "replies": [],
        }  # fmt: skip
        self.keep()

    def keep(self) -> None:
        """A packet that is validated later, and passages that are looked up by their ids."""
        with self.reader.transaction():
            self.reader.execute("select pgrag.authenticate(%s)", (self.token,))
            request = json.dumps({"question": "common refund", "mode": "hybrid", "threshold": 0, "k": 5, "isolation": self.asked["isolation"], **TOY})
            (packet,) = self.reader.execute("select pgrag.packet_json(%s)", (request,)).fetchone()
        excerpts = packet["excerpts"]
        citations = [{"id": e["id"], "quote": e["text"][:9]} for e in excerpts]
        replies = (citations, [], [{"id": "e1", "quote": "lagoon pier"}, {"id": "e99"}])
        self.asked |= {"packet": json.dumps(packet), "chunks": [e["chunk_id"] for e in excerpts[:2]],
                       "replies": [json.dumps({"answer": "So.", "citations": c}) for c in replies]}  # fmt: skip

    def close(self) -> None:
        super().close()
        self.browser.close()
        self.superuser.close()

    def question(self) -> dict[str, Any]:
        dice = self.dice
        request: dict[str, Any] = {"question": " ".join(dice.choices([*WORDS, "common", "zebra"], k=dice.randint(1, 5))),
                                   "mode": dice.choice(("lexical", "dense", "hybrid")), "k": dice.choice((1, 3, 10, 50)),
                                   "isolation": dice.choice(("auto", "strict"))}  # fmt: skip
        if dice.random() < 0.2:
            request["question"] += f' "{dice.choice(WORDS)} {dice.choice(WORDS)}"'
        if dice.random() < 0.2:
            request["question"] += f" -{dice.choice(WORDS)}"
        if request["mode"] != "lexical":
            request |= {"space": "toy", "embedding": [round(dice.random() + 0.1, 2) for _ in range(3)]}
        if dice.random() < 0.3:
            request["candidates"] = request["k"]
        if dice.random() < 0.7:
            request["threshold"] = 0
        if dice.random() < 0.2:
            request["filter"] = dice.choice(({"source": "handbook"}, {"source": ["wiki", "handbook"]}, {"metadata": {"team": "billing"}}, {"metadata": {"level": 1}}))
        if dice.random() < 0.2:
            request["as_of"] = "2030-01-01"
        return request

    def digest(self) -> Any:
        """Of every row there is."""
        return self.superuser.execute(f"select array_agg(h) from ({self.digest_of}) t").fetchone()[0]

    def everything(self) -> Answers:
        """All answers, and errors in all their fields, by what was asked."""
        said: Answers = {}
        with self.reader.transaction():
            self.reader.execute("select pgrag.authenticate(%s)", (self.token,))
            for request, (answer,) in zip(self.asked["requests"], self.reader.execute(SEARCH, self.asked), strict=True):
                said[f"search_json {request}"] = answer
            said |= {name: self.answer(self.reader, ASKED[name].format(row=ROW)) for name in self.ways}
            said |= {call: self.answer(self.reader, call) for call in self.refused}
        with self.browser.transaction():
            self.browser.execute("select pgrag.authenticate(%s)", (self.token,))
            said |= {name: self.answer(self.browser, statement) for name, statement in BROWSED.items()}
        said["notices"] = json.dumps(self.notices)
        self.notices.clear()
        return said

    def answer(self, connection: psycopg.Connection[Any], statement: str) -> str:
        try:
            with connection.transaction():
                return str(connection.execute(statement, self.asked).fetchone()[0])
        except psycopg.Error as error:
            its = error.diag
            return json.dumps({"sqlstate": its.sqlstate, "message": its.message_primary, "detail": its.message_detail,
                               "hint": its.message_hint, "context": its.context})  # fmt: skip


class Twin(World):
    """The same for alice whatever ``others`` draws: other documents were hidden from her, and in other numbers, between those that she sees."""

    def __init__(self, database: Database, seed: int, others: random.Random, route: str, token: str) -> None:
        self.others, self.made = others, 0
        super().__init__(database, random.Random(seed), route)
        self.token = token

    def put(self, writer: psycopg.Connection[Any], key: str, **more: Any) -> str:
        if key.startswith("open"):
            return super().put(writer, key, **more)
        mine, self.dice = self.dice, self.others
        for _ in range(self.others.randint(1, 4)):
            self.made += 1
            name = super().put(writer, f"hidden-{self.made}", **more)
        self.dice = mine
        return name

    def known(self) -> Answers:
        """Without the time of day, keyed digests of internal numbers, and what is refused, which names hidden documents."""
        said = self.everything()
        return {asked: re.sub(VARIES, "…", answer) for asked, answer in said.items() if asked not in self.refused}


def by_tenants_block(answer: str) -> bool:
    return '"dense_route": "tenant_block"' in answer


def difference(before: Any, after: Any, path: str = "") -> str:
    """Where two values differ first, and what is there."""
    if isinstance(before, dict) and isinstance(after, dict) and before.keys() == after.keys():
        return next(difference(before[key], after[key], f"{path}.{key}") for key in before if before[key] != after[key])
    if isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        return next(difference(a, b, f"{path}[{n}]") for n, (a, b) in enumerate(zip(before, after, strict=True)) if a != b)
    return f"{path.lstrip('.')}: {str(before)[:200]} … {str(after)[:200]}"


def told(before: str, after: str) -> str:
    """The same of two answers; of objects, for each of their parts."""
    try:
        one, other = json.loads(before), json.loads(after)
    except ValueError:
        one, other = before, after
    if isinstance(one, dict) and isinstance(other, dict) and one.keys() == other.keys() and one != other:
        return "; ".join(difference(one[key], other[key], key) for key in one if one[key] != other[key])
    return difference(one, other)


def compared(database: Database, seed: int, pairs: int = PAIRS, route: str = "") -> Tally:
    """One world, and so many changes of what is hidden."""
    route = route or ROUTES[seed % len(ROUTES)]
    tally, dice = Tally(draws=1), random.Random(seed)
    hands = list(HANDS) + 2 * list(UPKEEP)
    if route == "loose blocks":
        hands = [name for name in HANDS if "maintenance" not in name]
    with on(route, database), closing(World(database, dice, route)) as world:
        before, stored = world.everything(), world.digest()
        tally.counts["answers"] += len(before)
        for _ in range(2 * pairs):
            if tally.cases == pairs:
                break
            name = dice.choice(hands)
            world.step(name)
            if (now := world.digest()) == stored:
                tally.counts["steps that changed nothing, and are no case"] += 1
                continue
            stored = now
            if dice.random() < 0.05:
                world.superuser.execute("analyze pgrag_data.document, pgrag_data.revision, pgrag_data.chunk_lex, pgrag_data.chunk_vec")
            after = world.everything()
            tally.cases += 1
            tally.counts[f"pairs, {route}"] += 1
            tally.counts["answers"] += len(after)
            tally.counts["bytes"] += sum(map(len, after.values()))
            tally.counts["answers from blocks of lists"] += sum('"dense_route": "class_blocks"' in answer for answer in after.values())
            wrong = []
            for asked, answer in after.items():
                if by_tenants_block(answer) or by_tenants_block(before[asked]):
                    tally.counts["answers from a block of the tenant, not compared"] += 1
                elif answer != before[asked]:
                    wrong.append(f"seed {seed}, {route}, {name}: {asked}: {told(before[asked], answer)}")
            tally.failures += wrong[:3]
            before = after
    return tally


def of_another_past(lab: Lab, seed: int, route: str, tally: Tally, *changes: tuple[str, str, str]) -> None:
    """Two databases in which alice sees the same: what is hidden from her was there before it, and is another in each."""
    said: list[Answers] = []
    with lab.database() as one, lab.database() as other:
        token = one.token("a", "alice")
        for number, database in enumerate((one, other)):
            with all_patched(database, *changes), on(route, database), closing(Twin(database, seed, random.Random(-1 - number - 2 * seed), route, token)) as twin:
                said.append(twin.known())
    tally.cases += 1
    tally.draws += 1
    tally.counts[f"pairs of another past, {route}"] += 1
    tally.failures += [f"seed {seed}, {route}, another past: {asked}: {told(answer, said[1].get(asked, ''))}" for asked, answer in said[0].items()
                       if answer != said[1].get(asked) and not by_tenants_block(answer + said[1].get(asked, ""))][:3]  # fmt: skip


@contextmanager
def opened(lab: Lab, *changes: tuple[str, str, str], pairs: int = PAIRS, route: str = "", past: bool = False) -> Iterator[Batch]:
    """Each batch in a database of its own. ``changes`` take guards out: function, text, replacement. ``past``: two worlds of another past too."""

    def batch(seed: int) -> Tally:
        with lab.database() as database, all_patched(database, *changes):
            tally = compared(database, seed, pairs, route)
        if past or (seed % 4 == 0 and not changes):
            of_another_past(lab, seed, route or ROUTES[seed % len(ROUTES)], tally, *changes)
        return tally

    yield batch


def control(seen: str, *changes: tuple[str, str, str], route: str = "scope", past: bool = False) -> Control:
    return Control(lambda lab: opened(lab, *changes, pairs=0 if past else 13, route=route, past=past), seen)


_TENANT = "(select array_agg(r.revision_id) from pgrag_data.revision r where r.tenant_id = v_principal.tenant_id)"
PROOF = Proof(
    name="no interference",
    contracts=("A7", "A9", "F9"),
    unit="pairs of worlds",
    draw="worlds",
    target=10_000,
    claim="Not a byte of an answer, an error or a notice differs with what the reader may not see, whichever way is looked, but for the block of a whole tenant.",
    opened=opened,
    short=3,
    controls={
        "chunks are counted over the tenant": control(
            r"scope\.chunks", ("search_scope", "sum(v.chunk_count)", "(select sum(r.chunk_count) from pgrag_data.revision r where r.tenant_id = p_tenant_id)")),
        "internal numbers are shown": control(r"\.section: ", ("describe_chunk", "'section', c.section", "'section', (SELECT count(*) FROM pgrag_data.chunk x)")),
        "what is hidden is numbered with what is seen": control(r"another past: .*\.section: ", (
            "describe_chunk", "'section', c.section", "'section', c.revision_id::text"), past=True),
        "an error names the document": control(r"hint: \d+Check", (
            "not_found", "'Check the name;", "(select count(*)::text from pgrag_data.document) || 'Check the name;")),
        "a notice counts documents": control(r"notices: .*documents there", (
            "check_search", "begin\n", "begin\n raise notice '% documents there', (select count(*) from pgrag_data.document);\n")),
        "a verdict counts documents": control(r"validate_reply: .*support: \d+not proven", (
            "pgrag.validate_reply", "'not proven:", "(select count(*) from pgrag_data.document) || 'not proven:")),
        "views show the tenant": control(r"(documents|chunks) view: ", (
            "browse_revisions", "pgrag_private.scope(v_principal.tenant_id, v_principal.reader_id, null, null)", _TENANT)),
        "the index route estimates from the tenant": control(r"search_json .*(lexical|score)", (
            "estimate_df", "0.5)::double precision * v_step", "0.5)::double precision * (select count(*) from pgrag_data.chunk_lex)"), route="rarest"),
        "the index route finds hidden rows": control(r"search_json ", ("visible_row", "= any ((@).acls)", "is not null"), route="index"),
        "a list's block holds hidden documents too, and nobody passes them by": control(r'search_json .*"mode": "dense".*hits', (
            "copy_to_block", "d.acl_id = p_block.acl_id", "true"), ("visible_row", "= any ((@).acls)", "is not null"), route="class blocks"),
    },
)  # fmt: skip
