-- Hits to a packet: whole passages in rank order while they fit, none below the threshold, none cut. What does
-- not fit is listed; strict mode refuses instead.
create or replace function pgrag_private.build_packet(
  p_principal   pgrag_private.principal,
  p_question    text,
  p_as_of       timestamptz,
  p_found       jsonb,
  p_budget      integer,
  p_budget_unit text,
  p_reserve     integer,
  p_strict      boolean
) returns jsonb
language plpgsql stable parallel restricted as $$
declare
  v_threshold numeric := (p_found #>> '{policy,threshold}')::numeric;
  v_question  integer;  -- its share of the budget
  v_left      integer;
  v_size      integer;
  v_hit       jsonb;
  v_excerpts  jsonb := '[]';
  v_omitted   jsonb := '[]';
  v_packet    jsonb;
begin
  if p_budget is null or p_budget not between 1 and 1000000 then
    raise exception using errcode = 'RG306', message = 'the budget must be a whole number from 1 to 1000000',
      hint = 'Pass it in the unit that p_budget_unit names: characters, bytes or tokens.';
  elsif p_budget_unit is null or p_budget_unit not in ('characters', 'bytes', 'tokens') then
    raise exception using errcode = 'RG306', message = 'the budget''s unit is not known', hint = 'Units: characters, bytes, tokens.';
  elsif p_reserve is null or p_reserve not between 0 and 1000000 then
    raise exception using errcode = 'RG306', message = 'the reserve must be a whole number from 0 to 1000000',
      hint = 'Leave it out for 0; it is the room for instructions and the reply, in the budget''s unit.';
  elsif p_strict is null then
    raise exception using errcode = 'RG306', message = 'strict must be true or false', hint = 'Leave it out for false.';
  end if;
  -- The question's tokens depend on the model's tokenizer, which the database has not: the reserve covers them.
  v_question := case p_budget_unit when 'characters' then length(p_question) when 'bytes' then octet_length(p_question) else 0 end;
  v_left := p_budget - v_question - p_reserve;
  if v_left <= 0 then
    raise exception using errcode = 'RG306', message = 'the budget leaves no room for evidence',
      detail = format('budget %s, reserve %s, question %s %s', p_budget, p_reserve, v_question, p_budget_unit),
      hint = 'Raise the budget or lower the reserve.';
  end if;

  if p_found ->> 'status' = 'evidence' then
    for v_hit in select hit from jsonb_array_elements(p_found -> 'hits') as h (hit) loop
      continue when (v_hit ->> 'relevance')::numeric < v_threshold;
      v_size := case p_budget_unit
        when 'characters' then length(v_hit ->> 'text')
        when 'bytes' then octet_length(v_hit ->> 'text')
        else (v_hit ->> 'tokens')::integer end;
      if v_size <= v_left then
        v_left := v_left - v_size;
        v_excerpts := v_excerpts || jsonb_build_array(
          jsonb_build_object('id', 'e' || jsonb_array_length(v_excerpts) + 1,
                             'text_sha256', encode(sha256(convert_to(v_hit ->> 'text', 'UTF8')), 'hex')) || v_hit);
      elsif p_strict then
        raise exception using errcode = 'RG502', message = 'the evidence does not fit the budget',
          detail = format('the passage at rank %s has %s %s; %s are left', v_hit ->> 'rank', v_size, p_budget_unit, v_left),
          hint = 'Raise the budget, lower k, or leave strict out to skip what does not fit.';
      else
        v_omitted := v_omitted || jsonb_build_array(jsonb_build_object(
          'chunk_id', v_hit -> 'chunk_id', 'rank', v_hit -> 'rank', 'size', v_size, 'reason', 'over_budget'));
      end if;
    end loop;
  end if;

  v_packet := jsonb_build_object(
    'version', 1,
    'question', p_question,
    'status', case when jsonb_array_length(v_excerpts) > 0 then 'evidence' else 'abstain' end,
    'reason', case when jsonb_array_length(v_excerpts) = 0 then coalesce(p_found ->> 'reason', 'over_budget') end,
    'excerpts', v_excerpts,
    'omitted', v_omitted,
    'complete', p_found -> 'complete',
    'complete_reason', p_found -> 'complete_reason',
    'as_of', pgrag_private.utc(p_as_of),
    'access_state', pgrag_private.access_state(p_principal),
    'corpus_state', pgrag_private.corpus_state(p_principal, p_as_of),
    'policy', p_found -> 'policy',
    'limits', jsonb_build_object('budget', p_budget, 'unit', p_budget_unit, 'reserve', p_reserve,
                                 'question', v_question, 'evidence', p_budget - p_reserve - v_question - v_left, 'left', v_left)
      -- Whose tokens were counted: documents may have been cut with different tokenizers.
      || case p_budget_unit when 'tokens' then jsonb_build_object('tokenizers', (
           select coalesce(jsonb_agg(distinct excerpt -> 'tokenizer'), '[]') from jsonb_array_elements(v_excerpts) as e (excerpt)))
         else '{}' end,
    'issued_at', pgrag_private.utc(statement_timestamp()));
  return v_packet || jsonb_build_object('seal', pgrag_private.seal(p_principal, v_packet));
end
$$;

-- Digests of what the reader was (self and groups) and of what the reader could see (revisions), so that two
-- packets can be told to rest on the same state. Keyed: internal ids are small numbers, and a bare hash of them
-- could be guessed back.
create or replace function pgrag_private.access_state(p_principal pgrag_private.principal) returns text
language sql stable parallel restricted
return pgrag_private.internal_mac('seal', 'access|v1|' || p_principal.tenant_id || '|' || array_to_string(
  array(select c.principal_id from pgrag_private.closure(p_principal.tenant_id, p_principal.reader_id) as c (principal_id)
         order by c.principal_id), ','));

create or replace function pgrag_private.corpus_state(p_principal pgrag_private.principal, p_as_of timestamptz) returns text
language sql stable parallel restricted
return pgrag_private.internal_mac('seal', 'corpus|v1|' || p_principal.tenant_id || '|' || array_to_string(
  pgrag_private.scope(p_principal.tenant_id, p_principal.reader_id, p_as_of, null), ','));
