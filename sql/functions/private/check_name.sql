-- Names are keys: they must be sayable in a log line and the same to every client.
create function pgrag_private.check_name(p_what text, p_name text) returns text
language plpgsql immutable parallel safe as $$
begin
  if p_name is null or p_name = '' or length(p_name) > 200 or p_name ~ '[[:cntrl:]]' or p_name <> btrim(p_name) then
    raise exception using errcode = 'RG406', message = format('this is no name for a %s', p_what),
      hint = 'Use 1 to 200 characters, without control characters and without white space at either end.';
  end if;
  return p_name;
end
$$;

-- A document key is relative to its source: the path of a file on somebody's machine is not an address.
create function pgrag_private.check_document(p_document text) returns text
language plpgsql immutable parallel safe as $$
begin
  if p_document is null or p_document = '' or length(p_document) > 1000 or p_document ~ '[[:cntrl:]]'
     or p_document <> btrim(p_document) or p_document ~ '^(/|~|[A-Za-z]:|file:)' or p_document ~ '(^|/)[.][.](/|$)'
     or position(chr(92) in p_document) > 0 then
    raise exception using errcode = 'RG406', message = 'this is no key for a document',
      detail = 'a key has 1 to 1000 characters, is relative to its source, and has no control characters, backslashes or ".."',
      hint = 'Use the path below the source''s root, with forward slashes, or the source''s own identifier.';
  end if;
  return p_document;
end
$$;
