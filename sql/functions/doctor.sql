-- Checks this installation: each fault with its remedy, which is SQL where it ends with a semicolon, to be run by a superuser, or as the
-- owner of the object. It changes nothing, and tells nothing of any content: names of tenants, spaces, roles and objects, and numbers.
-- Takes a fraction of a second and, for a million documents or vectors, some seconds.
--
--   error     a promise of pgrag's is not kept, or rests on luck
--   warning   something is worse than it should be, or soon will be
--   note      worth knowing
--   ok        a check that found nothing
create or replace function pgrag.doctor() returns table (check_name text, severity text, object text, finding text, remedy text)
language plpgsql stable parallel restricted security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
declare
  v_part  text;
  v_some  pgrag_private.doctor_finding[];
  v_found pgrag_private.doctor_finding[] := '{}';
begin
  foreach v_part in array array['catalog', 'access', 'server', 'data', 'blocks'] loop
    begin -- where something is broken, the rest is checked all the same
      execute format('select array_agg(f) from pgrag_private.%I() f', 'doctor_' || v_part) into v_some;
      v_found := v_found || v_some;
    exception when others then
      v_found := v_found || (v_part, 'error', null, format('this part could not be checked: %s (%s)', sqlerrm, sqlstate),
                             'Repair what else is found, and look again')::pgrag_private.doctor_finding;
    end;
  end loop;
  return query
  select f.check_name, f.severity, f.object, f.finding, f.remedy
    from (select u.*, c.place from unnest(v_found) u left join pgrag_private.doctor_checks() c on c.check_name = u.check_name
          union all
          select c.check_name, 'ok', null, c.well, null, c.place
            from pgrag_private.doctor_checks() c where not exists (select from unnest(v_found) u where u.check_name = c.check_name)) f
   order by array_position(array['error', 'warning', 'note', 'ok'], f.severity), f.place, f.object collate "C", f.finding collate "C";
end
$$;

comment on function pgrag.doctor is 'Checks the installation: security, versions, keys, indexes, statistics, blocks; each fault with its remedy.';
revoke all on function pgrag.doctor from public;
