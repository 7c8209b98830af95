"""What a question may say, what is found by it in any script, and what becomes of the hits: caps, duplicates, probes, order, bounds."""

from __future__ import annotations

import json
import math
import re
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import nullcontext
from typing import Any

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.functions.helpers import World, add, call, documents, refused
from tests.functions.patched import few_searched, patched, scope_limit
from tests.support import Database

TOY = {"embedding": [1, 0, 0], "space": "toy"}
MODES: list[tuple[str, dict[str, Any]]] = [("lexical", {}), ("dense", TOY), ("hybrid", TOY), ("hybrid", TOY | {"fusion": "rrf"})]


def found_in(world: World, question: str, mode: str = "lexical", **request: Any) -> set[str]:
    return set(documents(world.search(question, mode, k=100, **request)))


@pytest.fixture(scope="module")
def superuser(module_database: Database) -> Iterator[psycopg.Connection[Any]]:
    with module_database.superuser() as connection:
        yield connection


# -- The question as it is written --------------------------------------------------------------------

PARSED: list[tuple[str, str, list[str], list[str]]] = [  # the question, its words, phrases and exclusions
    ("refund window", "refund window", [], []),
    ('the "refund window" of tents', "the refund window of tents", ["refund window"], []),
    ('"one" and "two words"', "one and two words", ["one", "two words"], []),
    ('"退款政策" tents', "退款政策 tents", ["退款政策"], []),
    ("refund -tents", "refund", [], ["tents"]),
    ('refund -tents -"two words" -PAY-402', "refund", [], ["tents", "two words", "PAY-402"]),
    ('"a phrase" -"not this"', "a phrase", ["a phrase"], ["not this"]),
    ("refund -退款", "refund", [], ["退款"]),
    ("refund\n-tents\u00a0", "refund", [], ["tents"]),
    ("-tents", "", [], ["tents"]), ('-"two words" -tents', "", [], ["two words", "tents"]),
    # not at the end, or no exclusion at all
    ("lift -dash approximate methods", "lift -dash approximate methods", [], []),
    ("-tents refund", "-tents refund", [], []), ("refund -tents 30", "refund -tents 30", [], []),
    ("Kunden und -partner", "Kunden und -partner", [], []), ("Kunden oder -partner", "Kunden oder -partner", [], []), ("buyers AND -sellers", "buyers AND -sellers", [], []),
    ("refund-window", "refund-window", [], []), ("refund - tents", "refund - tents", [], []), ("refund –tents", "refund –tents", [], []), ("refund --tents", "refund --tents", [], []),
    ("at -5 degrees", "at -5 degrees", [], []), ("warmer than -5", "warmer than -5", [], []), ("refund -_x", "refund -_x", [], []),
    # quotes without a partner, or with nothing between
    ('a 5" pipe', "a 5 pipe", [], []), ('"refund', "refund", [], []), ('a "b c" d "e', "a b c d e", ["b c"], []), ('say ""', "say", [], []), ('say "?!"', "say ?!", [], []),
    ('refund -"tents', "refund - tents", [], []), ('refund -"a b"c', "refund - a b c", ["a b"], []), ('refund -te"nts', "refund -te nts", [], []),
    ("„refund window“", "„refund window“", [], []),
]


@pytest.mark.contract("F1", "F6")
@pytest.mark.parametrize("question, words, phrases, excluded", [pytest.param(*case, id=case[0].encode("unicode_escape").decode()) for case in PARSED])
def test_parse_question(superuser: psycopg.Connection[Any], question: str, words: str, phrases: list[str], excluded: list[str]) -> None:
    parsed = superuser.execute("select * from pgrag_private.parse_question(%s)", (question,)).fetchone()
    assert (parsed[0].split(), parsed[1], parsed[2]) == (words.split(), phrases, excluded)


PIECES = st.sampled_from(["-", " -tents", " -\"no tents\"", '"', ' -"', '" ', " -", " ", "\n", "\u00a0", "a", "refund", "PAY-402", "und ", " and ", "退款", "ü", "5", "_", ".", "/", "'", "\\", ":*", "&", "<->", "%", "{", "𠮷", "e\u0301"])
TEXTS = st.lists(PIECES, max_size=25).map("".join) | st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=80)
QUICK = settings(max_examples=200, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.mark.contract("F6")
def test_parsing_never_fails_and_loses_no_word(superuser: psycopg.Connection[Any]) -> None:
    """Each word of any text is in the words or in the exclusions, once, in its order."""
    seen: Counter[str] = Counter()

    @QUICK
    @given(TEXTS)
    def check(text: str) -> None:
        words, phrases, excluded = superuser.execute("select * from pgrag_private.parse_question(%s)", (text,)).fetchone()
        assert re.findall(r"\w+", text) == re.findall(r"\w+", " ".join([words, *excluded]))
        assert all(f'"{phrase}"' in text.replace("\u00a0", " ") for phrase in phrases)
        assert '"' not in words
        seen.update(phrases=bool(phrases), excluded=bool(excluded), neither=not phrases and not excluded)

    check()
    assert min(seen[kind] for kind in ("phrases", "excluded", "neither")) >= 5, seen  # the texts were of all kinds


@pytest.fixture(scope="module")
def quoted(module_database: Database) -> World:
    world = World(module_database, "quoted")
    texts = {
        "window": ("en", "Our refund window is thirty days."), "both": ("en", "The window shows a refund sign."), "tent": ("en", "A refund for the tent."),
        "proof": ("en", "Bring a proof of purchase, please."), "purchase": ("en", "After the purchase, bring proof."),
        "ware": ("de", "Die Rückgabe der Ware ist frei."), "deren": ("de", "Die Ware, deren Rückgabe nichts kostet."),
        "policy": ("zh", "本店退款政策如下"), "fast": ("zh", "政策改了所以退款很快"), "label": ("xx", "About a refund window, untranslated."),
        "code": ("en", "See PAY-402 for this."), "other": ("en", "PAY is 403, then came 402."), "path": ("en", "Edit /etc/pgrag/app.conf first."),
    }
    for n, (name, (language, text)) in enumerate(texts.items()):
        world.put(name, text, language=language, vectors=[[1, n / 10, 0]])
    world.put("hidden", "The golden fleece of the refund window.", readers=["bob"], vectors=[[1, 0, 0]])
    return world


PHRASES: list[tuple[str, str, str]] = [
    ('"refund window"', "window label", "both tent"),
    ('how long is the "refund window"?', "window label", "both tent"),
    ('"refund windows"', "window", "label"),  # each language with its own stems; no language of the label's
    ('"REFUND window" thirty', "window label", "both"),
    ('"refund window" "thirty days"', "window", "label"),
    ('"proof of purchase"', "proof", "purchase"), ('"proof purchase"', "", "purchase"),  # a stop word keeps its place
    ('"Rückgaben der Ware"', "ware", "deren"), ('"R\u0075\u0308ckgabe der Ware"', "ware", "deren"),
    ('"退款政策"', "policy", "fast"), ('"政策如下"', "policy", "fast"), ('"退款政策" "如下"', "policy", "fast"),
    ('"PAY-402"', "code", "other"), ('"pay 402"', "code", "other"), ('"app.conf"', "path", "code"),
]


@pytest.mark.contract("F1")
@pytest.mark.parametrize("route", ["scope", "index"])
@pytest.mark.parametrize("question, having, lacking", PHRASES)
def test_a_quoted_phrase_is_required_in_every_mode(quoted: World, question: str, having: str, lacking: str, route: str) -> None:
    """Of what is visible; where nothing holds it, it is asked for as words, and the answer says so."""
    with nullcontext() if route == "scope" else scope_limit(quoted.database):
        for mode, request in MODES:
            found = quoted.search(question, mode, k=100, **request)
            if having:
                assert set(documents(found)) == set(having.split())
                assert found["policy"]["phrases"] == re.findall('"([^"]+)"', question) and "relaxed" not in found["policy"]
            else:
                assert set(lacking.split()) <= set(documents(found))
                assert found["policy"]["relaxed"] == ["phrases"] and "phrases" not in found["policy"]
            assert mode == "dense" or found["policy"]["lexical_route"] == route


@pytest.mark.contract("F1")
def test_phrases_control(quoted: World) -> None:
    """Control for the one above and for exclusions: without the condition each of its questions finds more."""
    with patched(quoted.database, "question_condition", ("return v_condition;", "return null;")):
        for question, having, _ in PHRASES:
            assert not having or found_in(quoted, question, "dense", **TOY) > set(having.split()), question
        assert found_in(quoted, '"refund window"') > {"window", "label"}
        assert found_in(quoted, "refund -window") > {"tent"}


@pytest.mark.contract("F1", "A7")
@pytest.mark.parametrize("route", ["scope", "index"])
def test_only_what_is_visible_makes_a_phrase_required(quoted: World, route: str) -> None:
    with nullcontext() if route == "scope" else scope_limit(quoted.database):
        for mode, request in MODES:
            alice, bob = (quoted.search('refund "golden fleece"', mode, k=100, reader=reader, **request) for reader in ("alice", "bob"))
            assert alice["policy"]["relaxed"] == ["phrases"] and {"window", "both", "tent"} <= set(documents(alice))
            assert "relaxed" not in bob["policy"] and documents(bob) == ["hidden"]  # control


@pytest.mark.contract("F1")
def test_a_phrase_of_stop_words_is_no_condition(quoted: World) -> None:
    for mode, request in MODES:
        plain, asked = (quoted.search(question, mode, k=100, filter={"language": "en"}, **request) for question in ("of the refund", '"of the" refund'))
        assert asked["hits"] == plain["hits"] != []
    assert quoted.search('"of the"', filter={"language": "en"})["reason"] == "stop_words_only"


EXCLUSIONS: list[tuple[str, str, str]] = [  # the question, what it finds, and what it would find without the exclusion
    ("refund -window", "tent", "window both tent label"),
    ('refund -"refund window"', "both tent", "window both tent label"),
    ("refund -windows -tents", "label", "window both tent label"),
    ("-window refund", "window both tent label", "window both tent label"),  # at the beginning it is a word
    ("refund and -tent", "window both tent label", "window both tent label"),
    ("PAY -PAY-402", "other", "code other"), ("pay -402", "code other", "code other"),  # before a digit it is a minus
    ("Rückgabe -frei", "deren", "ware deren"), ("Rückgabe -kostet", "ware", "ware deren"),
    ("退款 -退款政策", "fast", "policy fast"), ('政策 -"如下"', "fast", "policy fast"),
    ('"refund window" -thirty', "label", "window label"),
]


@pytest.mark.contract("F1")
@pytest.mark.parametrize("route", ["scope", "index"])
@pytest.mark.parametrize("question, finds, without", EXCLUSIONS)
def test_an_excluded_word_keeps_hits_out_in_every_mode(quoted: World, question: str, finds: str, without: str, route: str) -> None:
    with nullcontext() if route == "scope" else scope_limit(quoted.database):
        assert found_in(quoted, question) == set(finds.split())
        gone = set(without.split()) - set(finds.split())
        for mode, request in MODES[1:]:
            assert set(finds.split()) <= found_in(quoted, question, mode, **request)
            assert not gone & found_in(quoted, question, mode, **request)
            if gone:
                assert gone & found_in(quoted, re.sub(r" -.*", "", question), mode, **request)  # control


@pytest.mark.contract("F1", "F6")
def test_exclusions_alone(quoted: World) -> None:
    """There is nothing to look for by words; by meaning, all that is not excluded."""
    found = quoted.search("-refund")
    assert (found["reason"], found["hits"], found["policy"]["excluded"]) == ("stop_words_only", [], ["refund"])
    assert found_in(quoted, "-refund", "dense", **TOY) == found_in(quoted, "x", "dense", **TOY) - {"window", "both", "tent", "label"}
    assert found_in(quoted, "-refund", "hybrid", **TOY) == found_in(quoted, "-refund", "dense", **TOY) != set()


@pytest.mark.contract("F10")
def test_the_retry_profile_asks_wider_and_says_so(quoted: World) -> None:
    for mode, request in MODES:
        normal, retry = (quoted.search('"refund window" -thirty', mode, k=20, candidates=20, profile=profile, **request) for profile in ("normal", "retry"))
        assert documents(normal) == ["label"] and set(documents(retry)) > {"label"}
        assert "window" not in documents(retry)  # an exclusion stays one
        assert (normal["policy"]["profile"], normal["policy"]["candidates"], normal["policy"].get("relaxed")) == ("normal", 20, None)
        assert (retry["policy"]["profile"], retry["policy"]["candidates"], retry["policy"].get("relaxed")) == ("retry", 80, ["phrases"])
        assert retry["scope"] == normal["scope"]
        assert "hidden" not in documents(retry)
    assert quoted.search("refund", candidates=300, profile="retry")["policy"]["candidates"] == 1000  # the bound
    assert "relaxed" not in quoted.search("refund", profile="retry")["policy"]


@pytest.mark.contract("F6")
@pytest.mark.parametrize("route", ["scope", "index"])
def test_no_question_is_an_error(quoted: World, route: str) -> None:
    """Any text, asked over five languages in each mode: an answer, or RG301 for a blank one."""
    seen: Counter[str] = Counter()
    with nullcontext() if route == "scope" else scope_limit(quoted.database), quoted.reader() as reader:

        @settings(QUICK, max_examples=120)
        @given(TEXTS, st.sampled_from(MODES))
        def check(text: str, mode: tuple[str, dict[str, Any]]) -> None:
            try:
                with reader.transaction():
                    found = quoted.database.search(reader, text, mode[0], **mode[1])
            except psycopg.Error as error:
                assert error.sqlstate == "RG301" and not re.search(r"\w", text), text
                seen["refused"] += 1
            else:
                assert "hidden" not in documents(found)
                seen[found["status"]] += 1

        check()
    assert seen["evidence"] and seen["abstain"]


# -- Scripts and identifiers --------------------------------------------------------------------------

SCRIPTS: dict[str, tuple[str, str]] = {
    "zh": ("zh", "请在三十天内申请退款，客服会处理。"), "zh-Hant": ("zh-TW", "請於三十日內辦理退貨手續"), "ja": ("ja", "返品は三十日以内に受け付けます"), "kana": ("ja", "キャンプ用テントのレンタル"),
    "th": ("th", "สินค้าสามารถขอคืนเงินได้ภายในสามสิบวัน"), "ko": ("ko", "환불은 삼십일 이내에 처리됩니다"), "lo": ("lo", "ການຄືນເງິນພາຍໃນສາມສິບວັນ"), "km": ("km", "ការសងប្រាក់វិញក្នុងរយៈពេលសាមសិបថ្ងៃ"),
    "my": ("my", "ရက်သုံးဆယ်အတွင်းငွေပြန်အမ်း"), "mixed": ("zh", "iPhone手机的AppleCare保修期为PAY-402天"), "plane2": ("ja", "𠮷野家の𩸽定食"), "compat": ("zh", "豈有此理"),
    "labelled en": ("en", "店内有退货政策说明"), "labelled zh": ("zh", "Warranty policy of the shop"), "labelled xx": ("xx", "租赁合同条款"),
}


def put_scripts(database: Database, tenant: str) -> World:
    world = World(database, tenant, space=None)
    for name, (language, text) in SCRIPTS.items():
        world.put(name, text, language=language)
    return world


@pytest.fixture(scope="module")
def scripts(module_database: Database) -> World:
    return put_scripts(module_database, "scripts")


ASKED: list[tuple[str, str]] = [
    ("怎么申请退款？", "zh"), ("退款", "zh"), ("三十天内退款可以吗", "zh"), ("辦理退貨", "zh-Hant"), ("返品の受け付け", "ja"), ("テントを借りる", "kana"), ("คืนเงินอย่างไร", "th"), ("환불 처리", "ko"), ("환불을 처리", "ko"),
    ("ຄືນເງິນ", "lo"), ("សងប្រាក់", "km"), ("ငွေပြန်", "my"),
    ("iphone 保修", "mixed"), ("手机", "mixed"), ("applecare", "mixed"), ("AppleCare保修期多久", "mixed"), ("PAY-402", "mixed"),
    ("𠮷野家", "plane2"), ("𩸽定食はありますか", "plane2"), ("\uf900有此理", "compat"),  # a compatibility ideograph, composed
    ("退货政策", "labelled en"), ("where is the 退货政策?", "labelled en"), ("warranty policy", "labelled zh"), ("合同条款", "labelled xx"),
]


@pytest.mark.contract("F1")
@pytest.mark.parametrize("question, document", ASKED)
def test_unspaced_scripts_are_found_by_pairs(scripts: World, question: str, document: str) -> None:
    """Whatever the label of the chunk's language, and beside words of other scripts."""
    hits = scripts.search(question, k=100, threshold=0)["hits"]
    assert hits and hits[0]["document"] == document
    assert len(hits) == 1 or hits[0]["score"] > hits[1]["score"]


@pytest.mark.contract("F1")
def test_pairs_control(database: Database) -> None:
    """Control: left to PostgreSQL's parser, which takes a run for one word, most of these questions find nothing."""
    with patched(database, "unspaced_run", ("[\\u0e01", "(?!)[\\u0e01")):
        world = put_scripts(database, "unsegmented")
        firsts = [(documents(world.search(question, threshold=0)) or [None])[0] for question, _ in ASKED]
    assert sum(first == document for first, (_, document) in zip(firsts, ASKED, strict=True)) < len(ASKED) / 2


@pytest.mark.contract("F1")
@pytest.mark.parametrize("question, reason", [("退", "nothing_matches"), ("款天", "nothing_matches"), ("我 你", "nothing_matches"), ("退 款", "nothing_matches")])
def test_single_characters_are_not_found_within_a_run(scripts: World, question: str, reason: str) -> None:
    """The documented limit of pairs: one character alone is found only where it stands alone."""
    assert scripts.search(question, threshold=0)["reason"] == reason
    assert scripts.search("退款", threshold=0)["hits"]  # control


@pytest.mark.contract("F1")
def test_a_character_alone_is_found_where_it_stands_alone(world: World) -> None:
    world.put("alone", "选择 退 或者 换", language="zh")
    world.put("within", "退款", language="zh")
    assert documents(world.search("退", threshold=0)) == ["alone"]


@pytest.mark.contract("F1", "F3")
def test_pairs_by_hand(world: World) -> None:
    """BM25 over the pairs, of which each counts half; hits of more than half the most are still in the order of their scores."""
    texts = ["退款政策规定三十天内可以退货", "退款政策规定", "规定退款政策", "退款政策规定三十天", "退款政策规定退款政策规定", "天气很好"]
    for n, text in enumerate(texts):
        world.put(f"{n}", text, language="zh")
    found = world.search("退款政策规定", k=100, threshold=0)
    pairs = [[text[i : i + 2] for i in range(len(text) - 1)] for text in texts]
    average = sum(map(len, pairs)) / len(pairs)
    expected, most = {}, 0.0
    for pair in ["退款", "款政", "政策", "策规", "规定"]:
        df = sum(pair in other for other in pairs)
        idf = math.log(1 + (len(texts) - df + 0.5) / (df + 0.5))
        most += 0.5 * idf * 2.2
        for n, text in enumerate(pairs):
            tf = text.count(pair)
            expected[n] = expected.get(n, 0) + idf * 2.2 * tf / (tf + 1.2 * (0.25 + 0.75 * len(text) / average))
    order = sorted((n for n in expected if expected[n]), key=lambda n: -expected[n])
    assert [int(hit["document"]) for hit in found["hits"]] == order
    assert [hit["lexical_rank"] for hit in found["hits"]] == [1, 2, 3, 4, 5]
    best = expected[order[0]] / most
    for hit in found["hits"]:
        assert hit["lexical_score"] == pytest.approx(expected[int(hit["document"])], abs=2e-6)
        assert hit["score"] == pytest.approx(expected[int(hit["document"])] / most / max(1, best), abs=2e-6)
        assert sum(term["score"] for term in hit["matched_terms"]) == pytest.approx(hit["lexical_score"], abs=1e-5)
    assert best > 1 and sum(expected[n] > most for n in order) >= 2  # control: cut off at 1, the first hits would have been ties


CODES = ["PAY-402", "PAY-403", "ERR_TIMEOUT_5", "ERR_TIMEOUT_6", "/etc/pgrag/app.conf", "/etc/pgrag/web.conf", "v2.3.1", "v2.3.2", "v2.3.1-rc1", "3.5 %", "3.6 %", "0x1F", "0x2F", "org.example.App_1", "org.example.App_2",
         "a1b2c3d4-e5f6", "a1b2c3d4-e5f7", "node:8080", "node:8081", "INC#77", "INC#78", "$HOME_DIR", "$HOME_SIZE", "billing@shop.example", "sales@shop.example", "https://shop.example/faq/12", "https://shop.example/faq/13", "2024-06-01", "2024-06-02"]


def put_codes(database: Database, tenant: str) -> World:
    world = World(database, tenant, space=None)
    for n, code in enumerate(CODES):
        world.put(f"{n}", f"The entry says {code} here, then ask the lead about it.")
        parts = re.findall(r"[^\W_]+", code)
        if len(parts) > 1:
            world.put(f"scattered {n}", f"The entry says {' '.join(reversed(parts))} here, then ask the lead about it.")
    return world


def not_first(world: World) -> list[str]:
    """The codes whose own document is not the best, alone, for the code, the code in a sentence, and the code in quotes."""
    wrong = []
    with world.reader() as reader:
        for n, code in enumerate(CODES):
            for question in (code, f"What does {code} mean?", f'"{code}"'):
                hits = world.database.search(reader, question, k=5, threshold=0)["hits"]
                if not hits or hits[0]["document"] != f"{n}" or (len(hits) > 1 and hits[1]["score"] == hits[0]["score"]):
                    wrong.append(question)
    return wrong


@pytest.mark.contract("F1")
def test_codes_are_not_confused_with_their_neighbours(database: Database) -> None:
    assert not_first(put_codes(database, "codes")) == []
    with patched(database, "spaced_words", ("[-_./:#]", "[\\u0001]")):  # control: PostgreSQL's own parser alone
        assert not_first(put_codes(database, "plain")) != []


@pytest.mark.contract("F1")
def test_what_is_no_identifier(world: World) -> None:
    """Documented: signs at the end of a name are lost, and a name of stop words is none."""
    for name, text in {"cpp": "We write C++ at work.", "csharp": "We write C# at work.", "c": "We write C at work.", "att": "AT&T sells phones."}.items():
        world.put(name, text)
    assert set(documents(world.search("C++"))) == {"cpp", "csharp", "c"}
    assert world.search("AT&T")["reason"] == "stop_words_only"


@pytest.mark.contract("F4", "F1")
def test_matched_terms_add_up_in_every_language(quoted: World, scripts: World) -> None:
    seen = 0
    for world, question in ((quoted, 'refund window PAY-402 Rückgabe 退款政策 "thirty days"'), (quoted, "refund proof 402 Ware -tent"), (scripts, "退款 iPhone 환불 คืนเงิน policy 402")):
        for hit in world.search(question, k=100, probes=["window sign"], threshold=0)["hits"]:
            terms = hit["matched_terms"]
            assert sum(term["score"] for term in terms) == pytest.approx(hit["lexical_score"] or 0, abs=1e-5)
            assert [term["score"] for term in terms] == sorted((term["score"] for term in terms), reverse=True)
            assert all(term["tf"] >= 1 for term in terms) and len({term["term"] for term in terms}) == len(terms)
            seen += len(terms)
    assert seen > 10


# -- Long questions -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def many(module_database: Database) -> World:
    """400 chunks: word n is in about 400/n of them."""
    world = World(module_database, "many", space=None)
    with world.writer() as writer:
        for document in range(4):
            texts = [" ".join(f"word{n}" for n in range(1, 121) if number % n == n // 2) + f" chunk{number}. " for number in range(document * 100, document * 100 + 100)]
            world.database.put_document(writer, f"{document}", texts, language="xx")
    return world


@pytest.mark.contract("F6", "F9")
@pytest.mark.parametrize("words, left_out", [(64, None), (65, 1), (120, 56)])
def test_more_than_64_words(many: World, words: int, left_out: int | None) -> None:
    """The rarest of those that occur are asked for, the answer says how many were not, and is the same each time."""
    question = " ".join(f"word{n}" for n in range(1, words + 1))
    found = many.search(question, k=100, threshold=0)
    assert found["policy"].get("lexical_bound") == (left_out and {"words_left_out": left_out})
    assert found == many.search(question, k=100, threshold=0)
    used = {term["term"] for hit in found["hits"] for term in hit["matched_terms"]}
    assert len(used) <= 64
    if left_out:
        assert "word1" not in used and f"word{words}" in used  # in every chunk, and in the fewest
        more = many.search(question + " " + " ".join(f"never{n}" for n in range(30)), k=100, threshold=0)
        assert {term["term"] for hit in more["hits"] for term in hit["matched_terms"]} == used  # words of no chunk took no place
        assert more["policy"]["lexical_bound"]["words_left_out"] == left_out + 30
    else:
        assert "word1" in used  # control


@pytest.mark.contract("F6")
@pytest.mark.parametrize("question", ["".join(chr(0x4E00 + n * 7 % 5000) for n in range(4000)), " ".join(f"{n:03x}" for n in range(1000)), "x" * 4000, "a-" * 2000, "1." * 2000, "a1/" * 1333, '"a" ' * 1000, "-a " * 1333, '"' * 4000, "é" * 4000])
def test_the_longest_questions_take_bounded_time(many: World, question: str) -> None:
    started = time.monotonic()
    for request in ({}, {"probes": [question] * 4}):
        many.search(question, threshold=0, **request)
    with scope_limit(many.database):
        many.search(question, threshold=0)
    assert time.monotonic() - started < 10  # about 1 s on a quiet machine


@pytest.mark.contract("F6")
def test_a_megabyte_is_refused_before_it_is_read(many: World) -> None:
    for text in ("word " * 200_000, "退" * 350_000, '"' * 1_000_000, "-a " * 333_333):
        with many.reader() as reader, refused(reader, "RG301"):
            many.database.search(reader, text)
        with many.reader() as reader, refused(reader, "RG301"):
            many.database.search(reader, "refund", probes=[text])


# -- Near-duplicates and caps -------------------------------------------------------------------------

BASE = "If you are not happy with a tent that you bought from us the shop will refund its whole price within 30 days of delivery and collect it."
DUPLICATES: list[tuple[str, str, str, bool]] = [  # what differs, both texts, whether they are one
    ("nothing", BASE, BASE, True),
    ("case and punctuation", BASE, BASE.upper().replace(" THE", ", the"), True),
    ("order", BASE, " ".join(reversed(BASE.rstrip(".").split())), True),
    ("a word in 25", BASE, BASE.replace("whole", "entire"), True),
    ("a word that is a number elsewhere", BASE.replace("refund", "fire"), BASE, True), ("a word more", BASE, BASE.replace("price within", "price to you within"), True),
    ("three words in 25", BASE, BASE.replace("whole price", "entire cost").replace("happy", "content"), False),
    ("a number", BASE, BASE.replace("30", "90"), False),
    ("a number in a word", BASE.replace("a tent", "the v2 tent"), BASE.replace("a tent", "the v3 tent"), False),
    ("a negation less", BASE, BASE.replace("not ", ""), False),
    ("a negation more", BASE, BASE.replace("will refund", "will never refund"), False),
    ("another negation", BASE.replace("within", "without"), BASE.replace("within", "in"), False),
    ("a contraction", BASE.replace("will refund", "can refund"), BASE.replace("will refund", "can't refund"), False),
    ("a contraction with a typographic apostrophe", BASE.replace("shop will", "shops can"), BASE.replace("shop will", "shops can’t"), False),
    ("a number as a word", BASE.replace("30", "thirty"), BASE.replace("30", "ninety"), False),
    ("a negation in German", "Der Kunde kann die Ware innerhalb der Frist ohne Angabe von Gründen an unser Lager zurück geben und bekommt den ganzen Preis wieder.",
     "Der Kunde kann die Ware innerhalb der Frist ohne Angabe von Gründen an unser Lager nicht zurück geben und bekommt den ganzen Preis wieder.", False),
    ("a number as a word in German", "Der Kunde kann die Ware innerhalb von dreißig Tagen ohne Angabe von Gründen an unser Lager zurück geben und bekommt den ganzen Preis wieder.",
     "Der Kunde kann die Ware innerhalb von neunzig Tagen ohne Angabe von Gründen an unser Lager zurück geben und bekommt den ganzen Preis wieder.", False),
    ("nothing in Chinese", "顾客可以在收到商品后的规定期限内申请全额退款并由本店承担运费", "顾客可以在收到商品后的规定期限内申请全额退款并由本店承担运费。", True),
    ("a negation in Chinese", "顾客可以在收到商品后的规定期限内申请全额退款并由本店承担运费，请先联系客服确认订单的情况", "顾客不可以在收到商品后的规定期限内申请全额退款并由本店承担运费，请先联系客服确认订单的情况", False),
    ("a number in Chinese", "顾客可以在收到商品后的三十天期限内申请全额退款并由本店承担运费，请先联系客服确认订单的情况", "顾客可以在收到商品后的九十天期限内申请全额退款并由本店承担运费，请先联系客服确认订单的情况", False),
    ("a negation in Russian", "Магазин возвращает полную стоимость товара в течение срока после доставки если покупатель сохранил упаковку чек и все детали",
     "Магазин не возвращает полную стоимость товара в течение срока после доставки если покупатель сохранил упаковку чек и все детали", False),
    ("nothing, of seven words", "The refund takes a week or so.", "The refund takes a week or so.", False),
]


@pytest.mark.contract("C4")
@pytest.mark.parametrize("one, other, same", [pytest.param(*case[1:], id=case[0]) for case in DUPLICATES])
def test_near_duplicates_take_one_place(world: World, one: str, other: str, same: bool) -> None:
    world.put("one", one, vectors=[[1, 0, 0]])
    world.put("other", other, source="wiki", vectors=[[1, 0.01, 0]])
    hits = world.search("anything", "dense", **TOY)["hits"]
    assert documents({"hits": hits}) == (["one"] if same else ["one", "other"])
    listed = [(entry["source"], entry["document"]) for entry in hits[0]["duplicates"]]
    assert listed == ([("wiki", "other")] if same else [])
    assert all(0.9 <= entry["similarity"] <= 1 for entry in hits[0]["duplicates"])
    if same:  # the one listed is a chunk of its own
        assert hits[0]["duplicates"][0]["chunk_id"] == world.search("anything", "dense", filter={"source": "wiki"}, **TOY)["hits"][0]["chunk_id"]


@pytest.mark.contract("C4")
def test_duplicates_control(world: World) -> None:
    """Control: with the guard against numbers and negations out, statements that contradict each other are one."""
    with patched(world.database, "similarity", ("v_all < 8 or exists", "v_all < 8 or false and exists")):
        for n, (what, one, other, same) in enumerate(DUPLICATES):
            if not same and what not in ("three words in 25", "nothing, of seven words"):
                for name, text in (("one", one), ("other", other)):
                    world.put(f"{n}-{name}", text, vectors=[[1, 0, 0]], tags=[f"{n}"])
                assert len(world.search("anything", "dense", filter={"tags": [f"{n}"]}, **TOY)["hits"]) == 1, what


@pytest.mark.contract("C4", "A7", "A4")
def test_duplicates_fill_no_places_and_hidden_ones_are_not_listed(world: World) -> None:
    for n in range(5):
        world.put(f"copy-{n}", BASE, vectors=[[1, n / 1000, 0]])
    for n in range(3):
        world.put(f"own-{n}", f"{['Tents', 'Stoves', 'Boats'][n]} bought from us are refunded.", vectors=[[1, 0.5, n]])
    world.put("hidden", BASE, readers=["bob"], vectors=[[1, 0, 0]])
    for mode, request in MODES:
        found = world.search("refund bought", mode, k=4, threshold=0, **request)
        names = documents(found)
        assert len(names) == 4 and {"own-0", "own-1", "own-2"} < set(names)
        (first,) = (hit for hit in found["hits"] if hit["document"].startswith("copy"))
        assert {entry["document"] for entry in first["duplicates"]} <= {f"copy-{n}" for n in range(5)} - {first["document"]}
        assert (found["complete"], found["complete_reason"]) == (True, "k_returned")
        whole = world.search("refund bought", mode, k=100, threshold=0, **request)
        (first,) = (hit for hit in whole["hits"] if hit["document"].startswith("copy"))
        assert len(first["duplicates"]) == 4 and (whole["complete"], whole["complete_reason"]) == (True, "all_matches_returned")
        assert "hidden" not in json.dumps(whole)
        assert "hidden" in json.dumps(world.search("refund bought", mode, k=100, threshold=0, reader="bob", **request))  # control
    excerpts = world.packet("refund bought", k=4, threshold=0)["excerpts"]
    assert [len(excerpt["duplicates"]) for excerpt in excerpts if excerpt["document"].startswith("copy")] != []


@pytest.mark.contract("A4", "C4")
@pytest.mark.parametrize("mode, request_", MODES)
def test_a_full_lane_of_duplicates_is_not_all_there_is(world: World, mode: str, request_: dict[str, Any]) -> None:
    """Thirty copies and one other: the budget of ten is spent on copies, and the answer does not claim to be all."""
    with world.writer() as writer:
        for n in range(30):
            world.database.put_document(writer, f"{n}", BASE, vectors=[[1, n / 1000, 0]])
        world.database.put_document(writer, "own", "A refund of stoves takes longer.", vectors=[[0, 1, 1]])
    found = world.search("refund tent price", mode, k=10, candidates=10, threshold=0, **request_)
    if len(found["hits"]) < 10:
        assert (found["complete"], found["complete_reason"]) == (False, "capped")
    assert len(found["hits"]) < 10  # control: it is such a case
    wide = world.search("refund tent price", mode, k=10, candidates=100, threshold=0, **request_)
    assert (len(wide["hits"]), wide["complete"], wide["complete_reason"]) == (2, True, "all_matches_returned")


@pytest.mark.contract("C4", "F6")
def test_picking_a_hundred_takes_bounded_time(world: World) -> None:
    """Of a thousand candidates of about one length, none like another, with a cap that leaves the last place empty."""
    with world.writer() as writer:
        texts = [f"Common {' '.join(f'w{(n * 37 + i * i) % 2000}' for i in range(80))} {n}. " for n in range(1000)]
        world.database.put_document(writer, "alike", texts, language="xx")
    started = time.monotonic()
    found = world.search("common", k=100, candidates=1000, per_source=99, threshold=0)
    assert (len(found["hits"]), found["complete_reason"]) == (99, "capped")
    assert time.monotonic() - started < 5  # half a second on a quiet machine


@pytest.mark.contract("C4", "A4")
@pytest.mark.parametrize("mode, request_", MODES)
def test_caps(world: World, mode: str, request_: dict[str, Any]) -> None:
    with world.writer() as writer:
        for document in range(3):
            world.database.put_document(writer, f"h{document}", [f"Refund rule {document}{n}{n}. " for n in range(4)], vectors=[[1, n / 10, document / 10] for n in range(4)])
    with world.writer("wiki") as writer:
        world.database.put_document(writer, "w0", [f"Refund wiki {n}{n}. " for n in range(4)], vectors=[[1, 0.5, n / 10] for n in range(4)])
        world.database.put_document(writer, "hidden", [f"Refund refund {n}{n}. " for n in range(4)], vectors=[[1, 0, 0]] * 4, readers=["bob"])
    whole = world.search("refund", mode, k=100, threshold=0, **request_)
    assert len(whole["hits"]) == 16
    for per_document, per_source, k, count in ((1, None, 100, 4), (2, None, 100, 8), (4, None, 100, 16), (None, 1, 100, 2), (None, 5, 100, 9), (3, 5, 100, 8), (1, 2, 100, 3), (1, None, 4, 4), (2, 2, 1, 1)):
        caps = {name: value for name, value in (("per_document", per_document), ("per_source", per_source)) if value}
        found = world.search("refund", mode, k=k, threshold=0, **request_, **caps)
        hits = found["hits"]
        assert len(hits) == count, caps
        assert max(Counter(hit["document"] for hit in hits).values()) <= (per_document or 100)
        assert max(Counter(hit["source"] for hit in hits).values()) <= (per_source or 100)
        # The best of each, in their order, with the same scores; none of what is hidden took a place.
        expected, seen = [], Counter()
        for hit in whole["hits"]:
            if seen[hit["document"]] < (per_document or 100) and seen["source " + hit["source"]] < (per_source or 100) and len(expected) < k:
                expected.append(hit | {"rank": len(expected) + 1})
                seen.update([hit["document"], "source " + hit["source"]])
        assert hits == expected
        reason = "k_returned" if count == k else "all_matches_returned" if count == 16 else "capped"
        assert (found["complete"], found["complete_reason"]) == (reason != "capped", reason)
        assert {name: found["policy"].get(name) for name in ("per_document", "per_source")} == {"per_document": per_document, "per_source": per_source}
    packet = world.packet("refund", mode, k=100, threshold=0, per_document=1, **request_)
    assert sorted(documents(packet)) == ["h0", "h1", "h2", "w0"] and packet["complete_reason"] == "capped"


# -- Probes -------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def harbour(module_database: Database) -> World:
    world = World(module_database, "harbour")
    vectors = {"boat": [1, 0, 0], "vessel": [0.9, 0.4, 0], "ship": [0.5, 0.8, 0], "tax": [0, 0, 1], "secret": [0.9, 0.4, 0]}
    texts = {"boat": "A refund for the boat is paid.", "vessel": "Reimbursement of vessels takes a week.", "ship": "Money back for ships, and vessels too.", "tax": "Harbour tax is due in May."}
    for name, text in texts.items():
        world.put(name, text, vectors=[vectors[name]])
    world.put("secret", "Reimbursement of secret vessels and the boat refund.", vectors=[vectors["secret"]], readers=["bob"])
    return world


@pytest.mark.contract("F8")
def test_a_probe_finds_more_and_says_which_it_was(harbour: World) -> None:
    plain = harbour.search("boat refund", threshold=0)
    assert documents(plain) == ["boat"] and plain["hits"][0]["probe"] is None and "probes" not in plain["policy"]
    found = harbour.search("boat refund", threshold=0, probes=["harbour taxes", "reimbursement for a vessel"])
    assert {hit["document"]: hit["probe"] for hit in found["hits"]} == {"boat": None, "vessel": 2, "ship": 2, "tax": 1}
    assert found["policy"]["probes"] == 2
    (boat,) = (hit for hit in found["hits"] if hit["document"] == "boat")
    assert {key: value for key, value in boat.items() if key != "rank"} == {key: value for key, value in plain["hits"][0].items() if key != "rank"}
    for hit in found["hits"]:
        if hit["probe"]:  # ranks, scores and terms are of the question itself
            assert (hit["lexical_rank"], hit["lexical_score"], hit["matched_terms"]) == (None, None, [])
    assert "taxes" not in json.dumps(found["hits"]) and "reimbursement for" not in json.dumps(found["hits"])  # a probe's text is nowhere evidence
    with harbour.reader() as reader:
        rows = call(reader, "search", "boat refund", mode="lexical", threshold=0, probes=["harbour taxes", "reimbursement for a vessel"])
    assert {row[4]: row[-1] for row in rows} == {"boat": None, "vessel": 2, "ship": 2, "tax": 1}


@pytest.mark.contract("F8", "F3")
@pytest.mark.parametrize("fusion", ["convex", "rrf"])
@pytest.mark.parametrize("embedded", [True, False])
def test_probes_in_a_hybrid_search(harbour: World, fusion: str, embedded: bool) -> None:
    """With a vector each, further dense lanes; without, the question's vector says how near their finds are."""
    probes = {"probes": ["reimbursement of vessels"]} | ({"probe_embeddings": [[0.9, 0.4, 0]]} if embedded else {})
    plain = {hit["document"]: hit for hit in harbour.search("boat refund", "hybrid", fusion=fusion, **TOY)["hits"]}
    found = harbour.search("boat refund", "hybrid", fusion=fusion, **TOY, **probes)
    hits = {hit["document"]: hit for hit in found["hits"]}
    assert set(hits) == {"boat", "vessel", "ship", "tax"}
    cosine = 1 if embedded else plain["vessel"]["dense_score"]
    assert (hits["vessel"]["probe"], hits["boat"]["probe"]) == (1, None)
    assert hits["vessel"]["relevance"] == pytest.approx(cosine**0.5, abs=2e-6)  # it has all words of the probe
    assert plain["vessel"]["relevance"] == 0  # control: and none of the question's
    assert hits["boat"]["relevance"] == plain["boat"]["relevance"]
    for name, hit in hits.items():  # ranks and scores are the question's own
        assert all(hit[key] == plain[name][key] for key in ("lexical_rank", "lexical_score", "dense_rank", "dense_score", "matched_terms"))
    if fusion == "convex":
        assert hits["vessel"]["score"] == pytest.approx((1 + cosine) / 2, abs=2e-6)
    else:
        assert hits["vessel"]["score"] > plain["vessel"]["score"]
    packet = harbour.packet("boat refund", "hybrid", fusion=fusion, **TOY, **probes)
    assert {"boat", "vessel"} <= set(documents(packet)) and packet["question"] == "boat refund" and packet["policy"]["probes"] == 1


@pytest.mark.contract("F8")
def test_the_conditions_of_the_question_hold_for_its_probes(harbour: World) -> None:
    probe = ["reimbursement vessels"]
    assert set(documents(harbour.search("boat refund", threshold=0, probes=probe))) == {"boat", "vessel", "ship"}  # control
    assert documents(harbour.search('"refund for the boat"', threshold=0, probes=probe)) == ["boat"]
    assert set(documents(harbour.search("boat refund -week", threshold=0, probes=probe))) == {"boat", "ship"}
    assert documents(harbour.search("boat refund -week", "dense", probes=probe, probe_embeddings=[[0.9, 0.4, 0]], **TOY))[0] == "boat"
    assert "vessel" not in documents(harbour.search("boat refund -week", "dense", probes=probe, probe_embeddings=[[0.9, 0.4, 0]], **TOY))
    assert set(documents(harbour.search("boat refund", threshold=0, probes=['"reimbursement vessels" -takes']))) == {"boat", "vessel", "ship"}  # in a probe they are words
    assert documents(harbour.search("boat refund", threshold=0, probes=probe, filter={"source": "wiki"})) == []


@pytest.mark.contract("F8", "A5", "A7")
def test_probes_widen_no_access(harbour: World) -> None:
    secret = {"probes": ["secret vessels", "I am bob, show what bob sees"]}
    for mode, request in MODES:
        extra = {"probe_embeddings": [[0.9, 0.4, 0]] * 2} if mode != "lexical" else {}
        assert "secret" not in json.dumps(harbour.search("boat refund", mode, threshold=0, **secret, **extra, **request)["hits"])
        assert "secret" in documents(harbour.search("boat refund", mode, threshold=0, reader="bob", **secret, **extra, **request))  # control


@pytest.mark.contract("F8", "F9")
def test_a_probe_that_repeats_the_question_changes_no_order(harbour: World) -> None:
    for mode, request in (("lexical", {}), ("dense", TOY), ("hybrid", TOY)):
        extra = {"probe_embeddings": [TOY["embedding"]] * 4} if mode != "lexical" else {}
        plain, echoed = (harbour.search("boat refund", mode, threshold=0, **request, **more) for more in ({}, {"probes": ["boat refund"] * 4, **extra}))
        assert echoed["hits"] == plain["hits"]


# -- A reranker's order -------------------------------------------------------------------------------


@pytest.mark.contract("F7")
@pytest.mark.parametrize("mode, request_", MODES)
def test_an_order_is_applied_and_adds_nothing(harbour: World, mode: str, request_: dict[str, Any]) -> None:
    request = request_ | {"probes": ["vessels", "harbour tax"], "threshold": 0} | ({"probe_embeddings": [[0.9, 0.4, 0], [0, 0, 1]]} if mode != "lexical" else {})
    fused = harbour.search("boat refund", mode, **request)
    ids = {hit["document"]: hit["chunk_id"] for hit in fused["hits"]}
    (secret,) = (hit["chunk_id"] for hit in harbour.search("secret", reader="bob", threshold=0)["hits"] if hit["document"] == "secret")
    order = [secret, ids["tax"], "0" * 64, "no chunk id", ids["tax"], ids["ship"]]
    for k in (10, 1):
        found = harbour.search("boat refund", mode, order=order, reranker="toy-reranker@1", k=k, **request)
        expected = ["tax", "ship", *(name for name in documents(fused) if name not in ("tax", "ship"))][:k]
        assert documents(found) == expected
        assert [hit["rank"] for hit in found["hits"]] == list(range(1, len(expected) + 1))
        strip = [{key: value for key, value in hit.items() if key != "rank"} for hit in fused["hits"]]
        assert all({key: value for key, value in hit.items() if key != "rank"} in strip for hit in found["hits"])  # scores stay what they were
        assert found["policy"]["reranker"] == "toy-reranker@1"
        assert found["scope"] == fused["scope"] and secret not in json.dumps(found)
    assert documents(harbour.search("boat refund", mode, order=[secret], reranker="x", reader="bob", **request))[0] == "secret"  # control
    assert harbour.search("boat refund", mode, order=[], reranker="x", **request)["hits"] == fused["hits"]
    assert "reranker" not in fused["policy"]


@pytest.mark.contract("F7", "G5")
def test_an_order_in_a_packet_is_sealed(harbour: World) -> None:
    fused = harbour.packet("boat vessel tax", threshold=0)
    order = [excerpt["chunk_id"] for excerpt in reversed(fused["excerpts"])]
    packet = harbour.packet("boat vessel tax", threshold=0, order=order, reranker="toy-reranker@1")
    assert documents(packet) == documents(fused)[::-1] and len(order) > 1 and packet["policy"]["reranker"] == "toy-reranker@1"
    reply = {"answer": "x", "citations": [{"id": "e1"}]}
    assert harbour.validate(packet, reply)["valid"] is True
    for forged in (packet | {"policy": packet["policy"] | {"reranker": "another"}}, packet | {"excerpts": packet["excerpts"][::-1]}):  # control
        with harbour.reader() as reader, pytest.raises(psycopg.Error) as caught:
            assert harbour.database.validate(reader, forged, reply)["valid"] is False
            raise psycopg.Error
        assert caught.value.sqlstate is None or caught.value.sqlstate.startswith("RG")


# -- Agreement of the lanes ---------------------------------------------------------------------------

TERMS = [f"term{n}" for n in range(12)]


def put_lanes(world: World, count: int, cosine: Any) -> None:
    """Document n holds the first n + 1 terms, a tenth of a cosine's worth of agreement or not."""
    with world.writer() as writer:
        for n in range(count):
            value = cosine(n / max(count - 1, 1))
            world.database.put_document(writer, f"{n:02}", " ".join(TERMS[: 1 + n * 11 // max(count - 1, 1)]) + f" own{n}", language="xx", vectors=[[value, math.sqrt(1 - value * value), 0]])
        # nothing of the question in these
        world.database.put_document(writer, "far", [" ".join(f"other{n}x{i}" for i in range(13)) + " " for n in range(100)], language="xx", vectors=[[0.1, 0, 1]] * 100)


@pytest.mark.contract("F3")
@pytest.mark.parametrize("count, cosine, low, high", [
    pytest.param(40, lambda x: 0.3 + 0.6 * x, 0.5, 0.5, id="cosines rise with scores"),
    pytest.param(40, lambda x: 0.9 - 0.6 * x, 0, 0, id="cosines fall"),
    pytest.param(40, lambda x: 0.3 + 0.6 * ((x * 39 * 17) % 40) / 40, 0, 0.25, id="cosines are noise"),
    pytest.param(40, lambda x: 0.6, 0.5, 0.5, id="all cosines the same"),
    pytest.param(2, lambda x: 0.9 - 0.6 * x, 0.5, 0.5, id="two candidates say nothing"),
    pytest.param(5, lambda x: 0.3 + 0.6 * [0.5, 0.2, 0.9, 0.1, 0.4][round(x * 4)], 0.25, 0.5, id="five say little"),
])
def test_the_dense_lane_counts_as_far_as_the_lanes_agree(world: World, count: int, cosine: Any, low: float, high: float) -> None:
    put_lanes(world, count, cosine)
    question = " ".join(TERMS)
    found = world.search(question, "hybrid", k=100, candidates=100, **TOY)
    assert low <= found["policy"]["dense_weight"] <= high
    assert found["policy"]["lexical_weight"] == 0.5
    names = [name for name in documents(found) if not name.startswith("far")]
    lexical = documents(world.search(question, "lexical", k=100))
    if high == 0:
        assert names == lexical  # noise is not listened to
    dense = [name for name in documents(world.search(question, "dense", k=100, **TOY)) if not name.startswith("far")]
    if count == 40 and low == high == 0:
        assert dense[0] == lexical[-1] and dense[-1] == lexical[0]  # control: it would have been the other way round


@pytest.mark.contract("F3", "G3")
def test_where_nothing_has_a_word_of_the_question_the_dense_lane_stands_alone(world: World) -> None:
    put_lanes(world, 5, lambda x: 0.9 - 0.6 * x)
    found = world.search("nowhere atall", "hybrid", k=3, **TOY)
    assert documents(found) == ["00", "01", "02"] and found["policy"]["dense_weight"] == 0.5
    assert {hit["relevance"] for hit in found["hits"]} == {0} and found["status"] == "abstain"  # near, and of another matter


# -- Metadata -----------------------------------------------------------------------------------------

METADATA: dict[str, dict[str, Any]] = {
    "a": {"team": "billing", "priority": 3, "regions": ["eu", "us"], "urgent": True}, "b": {"team": "billing", "priority": 3.0, "regions": ["eu"], "urgent": False},
    "c": {"team": "ops", "priority": "3", "regions": [], "urgent": "true"}, "d": {"team": ["billing"], "ratio": 0.5, "big": 10**20}, "e": {},
}


@pytest.fixture(scope="module")
def tagged(module_database: Database) -> World:
    world = World(module_database, "tagged")
    for name, metadata in METADATA.items():
        world.put(name, f"widget {name}", vectors=[[1, 0, 0]], metadata=json.dumps(metadata))
    world.put("hidden", "widget hidden", vectors=[[1, 0, 0]], metadata=json.dumps(METADATA["a"]), readers=["bob"])
    return world


@pytest.mark.contract("F5")
@pytest.mark.parametrize("route", ["scope", "index"])
@pytest.mark.parametrize("metadata, expected", [
    ({}, "abcde"), ({"team": "billing"}, "ab"), ({"team": "Billing"}, ""), ({"team": ["billing"]}, "d"), ({"priority": 3}, "ab"), ({"priority": 3.0}, "ab"), ({"priority": 3e0}, "ab"), ({"priority": "3"}, "c"),
    ({"regions": ["eu"]}, "ab"), ({"regions": ["us", "eu"]}, "a"), ({"regions": ["eu", "eu"]}, "ab"), ({"regions": []}, "abc"), ({"regions": "eu"}, ""),
    ({"urgent": True}, "a"), ({"urgent": False}, "b"), ({"urgent": "true"}, "c"), ({"ratio": 0.50}, "d"), ({"big": 1e20}, "d"), ({"nothing": 1}, ""),
    ({"team": "billing", "regions": ["us"]}, "a"), ({"team": "billing' or true --"}, ""),
])
def test_metadata_narrow_as_containment_does(tagged: World, metadata: dict[str, Any], expected: str, route: str) -> None:
    with nullcontext() if route == "scope" else scope_limit(tagged.database):
        for mode, request in MODES:
            found = tagged.search("widget", mode, k=100, threshold=0, filter={"metadata": metadata}, **request)
            assert sorted(documents(found)) == list(expected)
            assert found["scope"]["documents"] == len(expected)
        bob = documents(tagged.search("widget", threshold=0, filter={"metadata": metadata}, reader="bob"))
        assert ("hidden" in bob) == ("a" in expected)  # control: it is the readers that keep it out


@pytest.mark.contract("F5")
@pytest.mark.parametrize("metadata", ["[]", "null", '"x"', "1", '{"a": null}', '{"a": {"b": 1}}', '{"a": [1]}', '{"a": [["b"]]}', '{"a": ["b", null]}', json.dumps({"a": "x" * 8192})])
def test_metadata_of_the_wrong_kind_are_refused(tagged: World, metadata: str) -> None:
    with tagged.writer() as writer, refused(writer, "RG408"):
        call(writer, "stage_revision", "bad", "text", metadata=metadata)
    with tagged.reader() as reader:
        for function in ("search_json", "packet_json"):
            with refused(reader, "RG304"):
                reader.execute(f"select pgrag.{function}(%s)", (f'{{"question": "widget", "mode": "lexical", "filter": {{"metadata": {metadata}}}}}',))
        with refused(reader, "RG304"):
            call(reader, "search", "widget", mode="lexical", filter=f'{{"metadata": {metadata}}}')


@pytest.mark.contract("F6")
def test_a_language_is_a_code(world: World) -> None:
    for language, code in (("english!", "RG406"), ("undetermined", "RG406"), ("", "RG406"), ("e", "RG406"), ("en_US", "RG406"), ("en; drop", "RG406"), (None, "RG406"), ("english", None), ("tlh", None), ("pt-BR", None)):
        with world.writer() as writer, refused(writer, code):
            call(writer, "stage_revision", "a", "text", language=language, revision=f"r-{language}")
    with world.writer() as writer:
        call(writer, "stage_revision", "b", "text", revision="r")
        with refused(writer, "RG408"):
            add(writer, "b", "r", ["text"], languages=["english!"])


@pytest.mark.contract("F9")
def test_hits_to_a_hundred_in_one_order(many: World) -> None:
    """k takes a prefix, however long; the same bytes for 100 as for 1."""
    whole = many.search("word3 word5 word9", k=100, threshold=0)["hits"]
    assert len(whole) == 100 and [hit["rank"] for hit in whole] == list(range(1, 101))
    keys = [(-hit["score"], hit["chunk_id"]) for hit in whole]
    assert [score for score, _ in keys] == sorted(score for score, _ in keys)
    for k in (1, 7, 50, 99):
        assert many.search("word3 word5 word9", k=k, threshold=0)["hits"] == whole[:k]
    with scope_limit(many.database), few_searched(many.database, 1, 1):
        bounded = many.search("word3 word5 word9", k=100, threshold=0)
        assert bounded["policy"]["lexical_bound"] and bounded["hits"] != whole  # control
