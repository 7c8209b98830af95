-- The seal of a packet: a MAC over the principal and everything in the packet but the excerpts' texts, which
-- their hashes stand for. So a packet can be kept without text, changed in nothing, and handed to nobody else.
create or replace function pgrag_private.seal(p_principal pgrag_private.principal, p_packet jsonb) returns text
language sql stable parallel restricted
return pgrag_private.internal_mac('seal', 'packet|v1|' || p_principal.tenant_id || '|' || p_principal.reader_id || '|'
  || encode(convert_to(p_principal.subject, 'UTF8'), 'hex') || '|' || encode(sha256(convert_to(
  jsonb_set(p_packet - 'seal', '{excerpts}',
            coalesce((select jsonb_agg(excerpt - 'text' order by n)
                        from jsonb_array_elements(p_packet -> 'excerpts') with ordinality as e (excerpt, n)), '[]'))::text,
  'UTF8')), 'hex'));
