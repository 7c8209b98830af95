-- HMAC-SHA256 of a text under one of this database's own keys, as hex. Key bytes stand only in plain
-- assignments: in an SQL statement or an SQL-language function they could be printed with the plan.
-- Nobody but the engine may call it: a function that signs what its caller chooses is a forge.
create or replace function pgrag_private.internal_mac(p_purpose text, p_message text) returns text
language plpgsql stable parallel restricted as $$
declare
  v_inner bytea;
  v_outer bytea;
  v_mac   bytea;
begin
  select k.inner_pad, k.outer_pad into v_inner, v_outer
    from pgrag_private.internal_key k where k.purpose = p_purpose;
  if not found then
    raise exception using errcode = 'RG212', message = 'this database has no internal keys',
      hint = 'It was restored without them: make new ones, as docs/operations.md says.';
  end if;
  v_mac := sha256(v_outer || sha256(v_inner || convert_to(p_message, 'UTF8')));
  return encode(v_mac, 'hex');
end
$$;
