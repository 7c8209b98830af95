-- The principal of this call: from the token where one is passed, otherwise from the setting that
-- pgrag.authenticate left in this transaction. The setting is any role's to write, so it counts only with
-- this database's MAC over it, this backend and this transaction; nothing of it is cast before that.
create or replace function pgrag_private.current_principal(p_token text, variadic p_kinds text[]) returns pgrag_private.principal
language plpgsql stable parallel restricted set plan_cache_mode = force_generic_plan as $$
declare
  v_setting   text := nullif(current_setting('pgrag.principal', true), '');
  v_fields    text[];
  v_principal pgrag_private.principal;
begin
  if p_token is not null then
    v_principal := pgrag_private.verify_token(p_token);
  elsif v_setting is null then
    raise exception using errcode = 'RG201', message = 'nobody is authenticated in this transaction',
      hint = 'begin; select pgrag.authenticate($1); …; commit; or, for a single statement, pass the token as p_token.';
  else
    v_fields := string_to_array(v_setting, '|');
    if octet_length(v_setting) > 2048 or cardinality(v_fields) <> 10
       or sha256(convert_to(v_fields[10], 'UTF8')) is distinct from
          sha256(convert_to(pgrag_private.internal_mac('session', array_to_string(v_fields[1:9], '|')), 'UTF8'))
       or v_fields[9] <> pgrag_private.transaction_mark() then
      raise exception using errcode = 'RG208', message = 'the session''s principal is not accepted',
        detail = 'the setting pgrag.principal was not made by pgrag.authenticate in this transaction',
        hint = 'Call pgrag.authenticate in each transaction, and leave the setting alone.';
    end if;
    v_principal := row(v_fields[2], v_fields[3], v_fields[4], v_fields[5], v_fields[6],
                       convert_from(decode(v_fields[7], 'hex'), 'UTF8'), v_fields[8]);
    if not exists (select from pgrag_private.signing_key k where k.kid = v_principal.kid and k.retired_at is null) then
      raise exception using errcode = 'RG203', message = 'the token''s signature is not accepted',
        hint = 'Its key was retired: mint a token with another, and authenticate again.';
    end if;
    if v_principal.expires_at <= extract(epoch from clock_timestamp()) then
      raise exception using errcode = 'RG204', message = 'the token has expired',
        hint = 'End the transaction, mint a new token and authenticate again.';
    end if;
    if clock_timestamp() > transaction_timestamp() + interval '1 hour' then
      raise exception using errcode = 'RG210', message = 'the transaction is too old for its principal',
        detail = 'a principal is accepted for one hour of a transaction',
        hint = 'Commit, begin again and authenticate again.';
    end if;
  end if;
  if v_principal.kind <> all (p_kinds) then
    raise exception using errcode = 'RG209',
      message = format('a token of kind %s cannot do this', v_principal.kind),
      detail = format('needed: %s', array_to_string(p_kinds, ' or ')),
      hint = 'Mint a token of the kind that the function is for.';
  end if;
  return v_principal;
end
$$;

-- What ties a setting to one transaction of one backend.
create or replace function pgrag_private.transaction_mark() returns text
language sql stable parallel restricted
return pg_backend_pid() || ':' || (extract(epoch from transaction_timestamp()) * 1000000)::bigint;
