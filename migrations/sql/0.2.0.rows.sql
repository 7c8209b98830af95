-- 0.1.0 to 0.2.0: rows that were there, with the new functions there to call. It runs as pgrag_engine, which sees every
-- row; what the functions never do, the owner lets it do here, and takes back.

-- The lexemes of a chunk are what to_lexemes makes of its words now, as in pgrag.add_chunks. Only words of scripts that
-- are written without spaces come out otherwise, and only their characters lie there: all others need no second look.
set local role pgrag_owner;
grant update on pgrag_data.chunk_lex to pgrag_engine;
set local role pgrag_engine;
update pgrag_data.chunk_lex l set lexemes = n.lexemes, length = pgrag_private.lexeme_count(n.lexemes)
  from pgrag_data.chunk c
  join pgrag_data.revision r on r.tenant_id = c.tenant_id and r.revision_id = c.revision_id
 cross join lateral (values (concat_ws(chr(10), nullif(r.title, ''), nullif(c.section, ''), c.text))) as w (words)
 cross join lateral (values (pgrag_private.to_lexemes(c.language, w.words))) as n (lexemes)
 where c.tenant_id = l.tenant_id and c.revision_id = l.revision_id and c.chunk_no = l.chunk_no
   and w.words ~ '[\u0e00-\u1fff\u2e80-\U0010ffff]' and n.lexemes <> l.lexemes;
update pgrag_data.revision r set lexeme_count = n.lexeme_count
  from (select l.tenant_id, l.revision_id, sum(l.length) as lexeme_count from pgrag_data.chunk_lex l group by 1, 2) n
 where n.tenant_id = r.tenant_id and n.revision_id = r.revision_id and r.state = 'verified' and n.lexeme_count <> r.lexeme_count;
set local role pgrag_owner;
revoke update on pgrag_data.chunk_lex from pgrag_engine;
