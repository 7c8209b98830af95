-- One padded block of an HMAC-SHA256 key (RFC 2104): the key, to 64 bytes, each byte xor p_byte. Made once,
-- when a key is added, so that verifying needs no more than two calls of the built-in sha256.
create or replace function pgrag_private.hmac_pad(p_secret bytea, p_byte integer) returns bytea
language plpgsql immutable parallel safe as $$
declare
  v_block bytea := case when octet_length(p_secret) > 64 then sha256(p_secret) else p_secret end;
begin
  v_block := v_block || decode(repeat('00', 64 - octet_length(v_block)), 'hex');
  for i in 0..63 loop
    v_block := set_byte(v_block, i, get_byte(v_block, i) # p_byte);
  end loop;
  return v_block;
end
$$;

-- 256 bits from the server's strong random source (each UUID carries 122).
create or replace function pgrag_private.random_secret() returns bytea
language sql volatile parallel safe
return sha256(uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid()));
