-- Scores leave the database with six decimals and no trailing zeros, so that a packet's seal survives any JSON library.
create or replace function pgrag_private.score(p_score double precision) returns numeric
language sql immutable parallel safe
return trim_scale(round(p_score::numeric, 6));

-- Times leave it in UTC with microseconds, whatever the caller's settings; an open end of a period is null.
create or replace function pgrag_private.utc(p_time timestamptz) returns text
language sql stable parallel safe
return case when isfinite(p_time) then to_char(p_time, 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') end;
