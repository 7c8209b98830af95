-- The two keys of this database, made here and known nowhere else.
do $$
declare
  v_secret  bytea;
  v_purpose text;
begin
  foreach v_purpose in array array['session', 'seal'] loop
    v_secret := pgrag_private.random_secret();
    insert into pgrag_private.internal_key (purpose, inner_pad, outer_pad)
    values (v_purpose, pgrag_private.hmac_pad(v_secret, 54), pgrag_private.hmac_pad(v_secret, 92)); -- 0x36, 0x5c
  end loop;
end
$$;
