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

-- Letters are not composed as they are for the lanes, which would double the time of a small search; and ASCII has no unspaced
-- scripts, which need not be looked for then.
create or replace function pgrag_private.distinct_words(p_text text) returns tsvector
language sql immutable parallel safe
return case when octet_length(p_text) = length(p_text) then strip(to_tsvector('pg_catalog.simple', p_text))
       else strip(to_tsvector('pg_catalog.simple', regexp_replace(p_text, pgrag_private.unspaced_run(), ' ', 'g')) || pgrag_private.unspaced_pairs(p_text)) end;

-- "t" is what the parser leaves of "isn't", and "n" of "n'est".
create or replace function pgrag_private.negations() returns text[]
language sql immutable parallel safe
return '{no,not,never,none,nor,neither,without,cannot,except,unless,t,nothing,nobody,nicht,nichts,kein,
         keine,keinen,keinem,keiner,keines,nie,niemals,niemand,ohne,außer,n,ne,ni,pas,jamais,sans,
         aucun,aucune,rien,sauf,sin,nunca,nada,jamás,ningún,ninguno,ninguna,tampoco,excepto,salvo,non,
         né,mai,senza,nessun,nessuno,nessuna,niente,tranne,niet,geen,nooit,zonder,niets,behalve,não,nem,
         sem,nenhum,nenhuma,exceto,inte,ingen,inget,inga,aldrig,utan,ikke,aldri,uden,uten,ei,eivät,älä,
         ilman,nincs,nélkül,bez,nigdy,żaden,oprócz,değil,hayır,asla,hariç,не,нет,ни,нельзя,никогда,без,
         кроме,ні,δεν,μη,μην,όχι,χωρίς,لا,لم,لن,ليس,ليست,غير,بدون,دون,إلا,नहीं,मत,बिना}'::text[];

create or replace function pgrag_private.numbers() returns text[]
language sql immutable parallel safe
return '{zero,one,two,three,four,five,six,seven,eight,nine,ten,eleven,twelve,twenty,thirty,forty,fifty,
         sixty,seventy,eighty,ninety,hundred,thousand,million,billion,half,double,triple,once,twice,first,
         second,third,"null",eins,zwei,drei,vier,fünf,sechs,sieben,acht,neun,elf,zwölf,halb,halbe,
         doppelt,erste,zweite,dritte,un,deux,trois,quatre,cinq,sept,huit,neuf,dix,onze,douze,treize,
         quatorze,quinze,seize,vingt,trente,quarante,cinquante,soixante,cent,mille,cero,dos,tres,cuatro,
         cinco,seis,siete,ocho,nueve,diez,doce,trece,catorce,quince,veinte,treinta,cuarenta,cincuenta,
         sesenta,setenta,ochenta,noventa,cien,ciento,mil,due,tre,quattro,cinque,sei,sette,otto,nove,
         dieci,undici,dodici,venti,trenta,quaranta,cinquanta,sessanta,settanta,ottanta,novanta,cento,dois,
         duas,três,quatro,sete,oito,dez,doze,vinte,trinta,quarenta,cinquenta,sessenta,oitenta,cem,twee,
         drie,vijf,zes,zeven,negen,tien,twaalf,två,fyra,fem,sex,sju,åtta,nio,tio,elva,tolv,tjugo,
         trettio,fyrtio,femtio,sextio,sjuttio,åttio,nittio,hundra,tusen,seks,syv,otte,
         один,два,две,три,четыре,пять,пяти,шесть,шести,семь,семи,восемь,девять,десять,сорок,сорока,сто,
         девяносто,девяноста,тысяча}'::text[];

-- Numbers and negations, of the languages that are known here. Of unspaced scripts the word is a pair of characters. Whatever
-- this takes for a difference and is none is shown twice; what it misses is hidden.
create or replace function pgrag_private.makes_a_difference(p_word text) returns boolean
language sql immutable parallel safe
return p_word ~ '[0-9不没沒無无非未勿莫別别禁〇零一二三四五六七八九十百千万萬億亿两兩半않없못안말]|ない|せん|ずに|なし|ไม|ห้'
  or p_word ~ '(?:teen|zehn|zig|ßig|hundert|tausend|tien|tig|honderd|duizend|дцат.*|десят.*|.сот|сот.*)$'
  or p_word ~ '^(?:ثلاث|أربع|خمس|ست|سبع|ثمان|تسع|عشر)'
  or p_word = any (pgrag_private.negations()) or p_word = any (pgrag_private.numbers());
