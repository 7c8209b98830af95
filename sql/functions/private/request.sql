-- JSON requests: each field of exactly its JSON type, none unknown. JSON would let "2", true and 1.5 through
-- a cast to a number in one language or another; here they are refused by name.
create or replace function pgrag_private.check_json_request(p_request jsonb, variadic p_fields text[]) returns void
language plpgsql immutable parallel safe as $$
declare
  v_key   text;
  v_value jsonb;
  v_type  text;
begin
  if jsonb_typeof(p_request) is distinct from 'object' then
    raise exception using errcode = 'RG307', message = 'the request must be a JSON object',
      hint = 'For example {"question": "…", "mode": "lexical", "k": 5}.';
  end if;
  for v_key, v_value in select key, value from jsonb_each(p_request) loop
    if v_key <> all (p_fields) then
      raise exception using errcode = 'RG307', message = 'the request has a field that is not known',
        detail = format('field: %s', left(v_key, 100)), hint = format('Fields: %s.', array_to_string(p_fields, ', '));
    end if;
    v_type := jsonb_typeof(v_value);
    continue when v_type = 'null' and v_key not in ('k', 'candidates', 'budget', 'reserve', 'strict', 'question');
    if v_key in ('k', 'candidates', 'per_document', 'per_source', 'budget', 'reserve') then
      if v_type <> 'number' or (v_value #>> '{}') !~ '^-?[0-9]{1,9}$' then
        raise exception using errcode = case when v_key in ('budget', 'reserve') then 'RG306' else 'RG302' end,
          message = format('%s must be a whole number', v_key), detail = format('%s: %s', v_key, left(v_value::text, 40)),
          hint = 'Write it without a fraction and without quotes.';
      end if;
    elsif v_key = 'threshold' and v_type <> 'number'
       or v_key = 'strict' and v_type <> 'boolean'
       or v_key = 'filter' and v_type <> 'object'
       or v_key = 'embedding' and (v_type <> 'array'
            or jsonb_path_exists(v_value, 'strict $[*] ? (@.type() != "number" || @ > 3e38 || @ < -3e38)'))
       or v_key in ('probes', 'order') and (v_type <> 'array' or jsonb_path_exists(v_value, 'strict $[*] ? (@.type() != "string")'))
       or v_key = 'probe_embeddings' and (v_type <> 'array'
            or jsonb_path_exists(v_value, 'strict $[*] ? (@.type() != "array" || @.size() < 1 || @.size() > 4000)')
            or jsonb_path_exists(v_value, 'strict $[*][*] ? (@.type() != "number" || @ > 3e38 || @ < -3e38)'))
       or v_key not in ('threshold', 'strict', 'filter', 'embedding', 'probes', 'order', 'probe_embeddings') and v_type <> 'string' then
      raise exception using errcode = 'RG307', message = format('the field %s has the wrong type', v_key),
        hint = 'threshold is a number, strict true or false, filter an object, embedding a list of finite numbers, '
               'probes and order lists of texts, probe_embeddings a list of embeddings, all else text.';
    elsif v_key = 'threshold' and (v_value #>> '{}')::numeric not between 0 and 1 then
      raise exception using errcode = 'RG303', message = 'the threshold must be from 0 to 1',
        hint = 'Leave it out for the mode''s default.';
    elsif v_key = 'as_of' and not ((v_value #>> '{}') ~ '^[0-9]{4}-' and pg_input_is_valid(v_value #>> '{}', 'timestamptz')) then
      raise exception using errcode = 'RG303', message = 'as_of must be a point in time',
        hint = 'Write it as 2024-03-01 or 2024-03-01T12:00:00Z.';
    elsif v_key = 'embedding' and jsonb_array_length(v_value) not between 1 and 4000 then
      raise exception using errcode = 'RG305', message = 'the embedding has not the dimension of its space',
        hint = 'Encode the question with the space''s model.';
    end if;
  end loop;
end
$$;

create or replace function pgrag_private.json_texts(p_list jsonb) returns text[]
language sql immutable parallel safe
return case when jsonb_typeof(p_list) = 'array' then array(select value from jsonb_array_elements_text(p_list)) end;

create or replace function pgrag_private.retrieve_json(p_principal pgrag_private.principal, p_request jsonb, p_default_k integer) returns jsonb
language sql stable parallel restricted
return pgrag_private.retrieve(
  p_principal,
  (p_request ->> 'question',
   coalesce((p_request ->> 'k')::integer, p_default_k),
   coalesce(p_request ->> 'mode', 'hybrid'),
   (nullif(p_request -> 'embedding', 'null')::text)::public.vector,
   p_request ->> 'space',
   coalesce(p_request ->> 'fusion', 'convex'),
   (p_request ->> 'as_of')::timestamptz,
   nullif(p_request -> 'filter', 'null'),
   coalesce((p_request ->> 'candidates')::integer, greatest(100, coalesce((p_request ->> 'k')::integer, 0))),
   round((p_request ->> 'threshold')::numeric, 15)::double precision, -- rounded: 1e-400 is none of double precision
   pgrag_private.json_texts(p_request -> 'probes'),
   (select array_agg(e.embedding::text::public.vector order by e.n)
      from jsonb_array_elements(nullif(p_request -> 'probe_embeddings', 'null')) with ordinality as e (embedding, n)),
   (p_request ->> 'per_document')::integer,
   (p_request ->> 'per_source')::integer,
   coalesce(p_request ->> 'isolation', 'auto'),
   coalesce(p_request ->> 'profile', 'normal'),
   pgrag_private.json_texts(p_request -> 'order'),
   p_request ->> 'reranker')::pgrag_private.search_request);
