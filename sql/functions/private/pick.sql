-- The k that come back, taken from the ranked chunks in order: no more of one document or source than its cap, and of
-- near-duplicates the first, with the others listed under it. Stops at k, so what comes after is not looked at.
create or replace function pgrag_private.pick(
  p_tenant_id bigint, p_ranked pgrag_private.ranked_chunk[], p_k integer, p_per_document integer, p_per_source integer,
  out chunks pgrag_private.ranked_chunk[], out complete_reason text
) language plpgsql stable parallel restricted as $$
declare
  v_place      record;
  v_documents  bigint[] := '{}';
  v_sources    bigint[] := '{}';
  v_words      tsvector[] := '{}';
  v_these      tsvector;
  v_similarity double precision;
  v_capped     boolean := false;
begin
  chunks := '{}';
  <<ranked>>
  for v_place in
    select k.n, p.*
      from unnest(p_ranked) with ordinality as k (revision_id, chunk_no, score, relevance, wording, lexical_rank, lexical_score,
                                                  dense_rank, dense_score, tf, part, duplicates, n)
     cross join lateral (
       select r.document_id, d.source_id, s.source, d.document, encode(c.chunk_id, 'hex') as chunk_id, c.text
         from pgrag_data.chunk c
         join pgrag_data.revision r on r.tenant_id = c.tenant_id and r.revision_id = c.revision_id
         join pgrag_data.document d on d.tenant_id = r.tenant_id and d.document_id = r.document_id
         join pgrag_data.source s on s.tenant_id = d.tenant_id and s.source_id = d.source_id
        where c.tenant_id = p_tenant_id and c.revision_id = k.revision_id and c.chunk_no = k.chunk_no
       offset 0) p -- row by row: no row outside the scope is touched
     order by k.n
  loop
    exit when cardinality(chunks) = p_k;
    v_these := pgrag_private.distinct_words(v_place.text);
    for v_n in 1 .. cardinality(chunks) loop
      continue when length(v_these) not between 0.9 * length(v_words[v_n]) and length(v_words[v_n]) / 0.9;
      v_similarity := pgrag_private.similarity(v_words[v_n], v_these);
      if v_similarity >= 0.9 then
        chunks[v_n].duplicates := chunks[v_n].duplicates || jsonb_build_array(jsonb_build_object(
          'chunk_id', v_place.chunk_id, 'source', v_place.source, 'document', v_place.document,
          'similarity', pgrag_private.score(v_similarity)));
        continue ranked;
      end if;
    end loop;
    if cardinality(array_positions(v_documents, v_place.document_id)) >= p_per_document
       or cardinality(array_positions(v_sources, v_place.source_id)) >= p_per_source then
      v_capped := true;
      continue;
    end if;
    chunks := chunks || p_ranked[v_place.n];
    v_documents := v_documents || v_place.document_id;
    v_sources := v_sources || v_place.source_id;
    v_words := v_words || v_these;
  end loop;
  complete_reason := case
    when cardinality(chunks) = p_k then 'k_returned'
    when v_capped then 'capped'
    else 'all_matches_returned' end;
end
$$;

-- Whether two texts say the same in nearly the same words: how much of all their words both have, or 0 if they are too
-- short to tell, or differ in a number or a negation. 30 days beside 90 days, and "may" beside "may not", are different
-- statements however long the text around them, and both have to be seen.
create or replace function pgrag_private.similarity(p_one tsvector, p_other tsvector) returns double precision
language plpgsql immutable parallel safe as $$
declare
  v_only_one   text[] := tsvector_to_array(ts_delete(p_one, tsvector_to_array(p_other)));
  v_only_other text[] := tsvector_to_array(ts_delete(p_other, tsvector_to_array(p_one)));
  v_all        double precision := length(p_other) + cardinality(v_only_one);
begin
  if v_all < 8 or exists (
       select from unnest(v_only_one || v_only_other) as w (word) where pgrag_private.makes_a_difference(word)) then
    return 0;
  end if;
  return 1 - cardinality(v_only_one || v_only_other) / v_all;
end
$$;

create or replace function pgrag_private.distinct_words(p_text text) returns tsvector
language sql immutable parallel safe
return strip(to_tsvector('pg_catalog.simple', regexp_replace(normalize(p_text, nfc), pgrag_private.unspaced_run(), ' ', 'g'))
             || pgrag_private.unspaced_pairs(normalize(p_text, nfc)));

-- "t" is what the parser leaves of "isn't", and "n" of "n'est".
create or replace function pgrag_private.negations() returns text[]
language sql immutable parallel safe
return '{no,not,never,none,nor,neither,without,cannot,except,unless,t,nothing,nobody,nicht,nichts,kein,keine,keinen,keinem,keiner,keines,nie,niemals,niemand,ohne,außer,
         n,ne,ni,pas,jamais,sans,aucun,aucune,rien,sauf,sin,nunca,nada,jamás,ningún,ninguno,ninguna,tampoco,excepto,salvo,non,né,mai,senza,nessun,nessuno,nessuna,niente,tranne,
         niet,geen,nooit,zonder,niets,behalve,não,nem,sem,nenhum,nenhuma,exceto,inte,ingen,inget,inga,aldrig,utan,ikke,ingen,aldri,uden,uten,ei,eivät,älä,ilman,nem,nincs,nélkül,
         nie,bez,nigdy,żaden,oprócz,değil,hayır,asla,hariç,не,нет,ни,нельзя,никогда,без,кроме,ні,δεν,μη,μην,όχι,χωρίς,لا,لم,لن,ليس,ليست,غير,بدون,دون,إلا,नहीं,मत,बिना}'::text[];

create or replace function pgrag_private.numbers() returns text[]
language sql immutable parallel safe
return '{zero,one,two,three,four,five,six,seven,eight,nine,ten,eleven,twelve,twenty,thirty,forty,fifty,sixty,seventy,eighty,ninety,hundred,thousand,million,billion,half,double,triple,
         once,twice,first,second,third,null,eins,zwei,drei,vier,fünf,sechs,sieben,acht,neun,elf,zwölf,halb,halbe,doppelt,erste,zweite,dritte,
         un,deux,trois,quatre,cinq,sept,huit,neuf,dix,onze,douze,treize,quatorze,quinze,seize,vingt,trente,quarante,cinquante,soixante,cent,mille,
         cero,dos,tres,cuatro,cinco,seis,siete,ocho,nueve,diez,once,doce,trece,catorce,quince,veinte,treinta,cuarenta,cincuenta,sesenta,setenta,ochenta,noventa,cien,ciento,mil,
         due,tre,quattro,cinque,sei,sette,otto,nove,dieci,undici,dodici,venti,trenta,quaranta,cinquanta,sessanta,settanta,ottanta,novanta,cento,
         dois,duas,três,quatro,sete,oito,dez,doze,quinze,vinte,trinta,quarenta,cinquenta,sessenta,oitenta,cem,twee,drie,vier,vijf,zes,zeven,negen,tien,twaalf,
         två,tre,fyra,fem,sex,sju,åtta,nio,tio,elva,tolv,tjugo,trettio,fyrtio,femtio,sextio,sjuttio,åttio,nittio,hundra,tusen,to,fire,seks,syv,otte,ni,ti,
         один,два,две,три,четыре,пять,пяти,шесть,шести,семь,семи,восемь,девять,десять,сорок,сорока,сто,девяносто,девяноста,тысяча}'::text[];

-- Numbers and negations, of the languages that are known here. Of unspaced scripts the word is a pair of characters. Whatever
-- this takes for a difference and is none is shown twice; what it misses is hidden.
create or replace function pgrag_private.makes_a_difference(p_word text) returns boolean
language sql immutable parallel safe
return p_word ~ '[0-9不没沒無无非未勿莫別别禁〇零一二三四五六七八九十百千万萬億亿两兩半않없못안말]|ない|せん|ずに|なし|ไม|ห้'
  or p_word ~ '(?:teen|zehn|zig|ßig|hundert|tausend|tien|tig|honderd|duizend|дцат.*|десят.*|.сот|сот.*)$|^(?:ثلاث|أربع|خمس|ست|سبع|ثمان|تسع|عشر)'
  or p_word = any (pgrag_private.negations()) or p_word = any (pgrag_private.numbers());
